// A job's life as one bar: how long it waited, ran and backed off.

import { h, fill } from "../../lib/dom.js";
import { duration, time } from "../../lib/format.js";
import { STRETCHES, stretches, totals } from "./story.js";

//: A bar that goes on by itself while the job does.
//:
//: *clock* tells the time of the server.  `show(job)` shows a newer state of the job;
//: `stop()` ends it.
export function timeline(clock) {
  const bar = h("div", { class: "timeline-bar", role: "img" });
  const legend = h("ul", { class: "timeline-legend" });
  const ends = h("div", { class: "timeline-ends" });
  const node = h("div", { class: "timeline" }, bar, ends, legend);
  let shown = null;

  function draw() {
    const now = clock();
    const found = stretches(shown, now);
    const sums = totals(found);
    const words = [...sums].map(([kind, ms]) => `${STRETCHES[kind]} ${duration(ms)}`);
    bar.setAttribute("aria-label", words.join(", ") || "just added");
    fill(bar, found.map(part));
    fill(legend, [...sums].map(([kind, ms]) => entry(kind, ms)));
    fill(ends, firstAndLast(shown, found));
  }

  const timer = setInterval(() => {
    if (shown && !document.hidden && isGoingOn(shown)) draw();
  }, 1000);
  return {
    node,
    show(job) {
      shown = job;
      draw();
    },
    stop() {
      clearInterval(timer);
    },
  };
}

function isGoingOn(job) {
  return ["waiting", "active", "delayed", "blocked"].includes(job.state);
}

function part({ kind, from, to, attempt, open }) {
  const length = to - from;
  const run = attempt ? `attempt ${attempt} ` : "";
  const told = open ? `${duration(length)} so far` : duration(length);
  const found = h("span", {
    class: `timeline-part timeline-${kind}`,
    title: `${run}${STRETCHES[kind]}: ${told}, from ${time(from)}`,
  });
  // The square root keeps a short run visible beside a long wait.
  found.style.flexGrow = String(Math.sqrt(length) + 1);
  return found;
}

function entry(kind, ms) {
  return h(
    "li",
    {},
    h("span", { class: `timeline-key timeline-${kind}`, "aria-hidden": "true" }),
    STRETCHES[kind],
    " ",
    h("b", {}, duration(ms)),
  );
}

function firstAndLast(job, found) {
  const last = found.at(-1);
  const end = last?.open ? "now" : time(last?.to ?? job.created_at);
  return [h("span", {}, time(job.created_at)), h("span", {}, end)];
}
