// How many jobs come and go right now, counted as it is told.

import { live } from "../../lib/live.js";

//: Milliseconds that are counted, and those after which a count says something.
const WINDOW = 10_000;
const ENOUGH = 3_000;
const TICK = 1_000;
const NAMES = { enqueue: "added", complete: "complete", failed: "failed" };

//: Call fn({added, complete, failed}) every second: jobs a second, over the last ten; or
//: fn(null) when events are missing.  Returns a function that ends it.
export function pulse(fn) {
  let since = Date.now();
  let seen = [];

  const off = live.on((events) => {
    const now = Date.now();
    for (const { kind } of events) {
      if (kind === "lagged") {
        since = now;
        seen = [];
      } else if (kind in NAMES) {
        seen.push({ at: now, name: NAMES[kind] });
      }
    }
  });
  const timer = window.setInterval(tell, TICK);

  function tell() {
    const now = Date.now();
    seen = seen.filter(({ at }) => at > now - WINDOW);
    const length = Math.min(WINDOW, now - since);
    fn(live.state === "live" && length >= ENOUGH ? rates(length) : null);
  }

  function rates(length) {
    const counts = { added: 0, complete: 0, failed: 0 };
    for (const { name } of seen) counts[name] += 1;
    const perSecond = ([name, count]) => [name, (count * 1_000) / length];
    return Object.fromEntries(Object.entries(counts).map(perSecond));
  }

  return () => {
    off();
    window.clearInterval(timer);
  };
}
