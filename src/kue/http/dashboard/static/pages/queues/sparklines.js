// Sparklines of the last hour of queues.
//
// There may be hundreds: only visible ones are requested, a few at a time.

import { sparkline } from "../../components/sparkline.js";
import { isAbort } from "../../lib/api.js";
import { rate } from "../../lib/format.js";
import { finished, history, perSecond } from "../../lib/stats-history.js";
import { live } from "../../lib/live.js";

const HOUR = 3_600_000;
//: Milliseconds after which a line is read again.
const FRESH = 60_000;
const AT_ONCE = 3;

//: Return {of(type, key) → node, stop()}; *key* distinguishes several lines of one type.
//: *series(past)* returns the data of a line, *label(type)* its name.
export function hourSparklines({ label = hourOf, series = inAndOut, format = rate } = {}) {
  const lines = new Map();
  const seen = new Set();
  const end = new AbortController();
  let running = 0;

  const observer = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (isIntersecting) seen.add(target.dataset.key);
      else seen.delete(target.dataset.key);
    }
    next();
  });
  const timer = window.setInterval(next, FRESH / 4);

  function of(type, key = type) {
    if (!lines.has(key)) {
      const line = sparkline({ label: label(type), format });
      line.node.dataset.key = key;
      lines.set(key, { ...line, type, at: 0 });
      observer.observe(line.node);
    }
    return lines.get(key).node;
  }

  function next() {
    if (document.hidden) return;
    const stale = [...seen]
      .map((key) => lines.get(key))
      .filter((line) => !line.at || (!live.isPaused && Date.now() - line.at > FRESH));
    for (const line of stale.slice(0, AT_ONCE - running)) draw(line);
  }

  async function draw(line) {
    running += 1;
    line.at = Date.now();
    try {
      const past = finished(await history({ length: HOUR, type: line.type }, end.signal));
      line.update(...series(past));
    } catch (error) {
      // A missing line is not worth an error message.
      if (isAbort(error)) return;
    } finally {
      running -= 1;
    }
    next();
  }

  function stop() {
    end.abort();
    observer.disconnect();
    window.clearInterval(timer);
  }

  return { of, stop };
}

function hourOf(type) {
  return `Last hour of ${type}`;
}

function inAndOut(past) {
  return [
    { name: "out", tone: "complete", values: perSecond(past, "complete") },
    { name: "in", tone: "added", values: perSecond(past, "added") },
  ];
}
