// The last hour of each queue, as a line in its row.
//
// There may be hundreds: only those that are seen are asked for, a few at a time.

import { spark } from "../../components/spark.js";
import { isAbort } from "../../lib/api.js";
import { rate } from "../../lib/format.js";
import { full, history, perSecond } from "../../lib/history.js";

const HOUR = 3_600_000;
//: Milliseconds for which a line is good.
const FRESH = 60_000;
const AT_ONCE = 3;

//: Return {of(type) → node, stop()}.
export function sparks() {
  const lines = new Map();
  const seen = new Set();
  const end = new AbortController();
  let running = 0;

  const observer = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (isIntersecting) seen.add(target.dataset.type);
      else seen.delete(target.dataset.type);
    }
    next();
  });
  const timer = window.setInterval(next, FRESH / 4);

  function of(type) {
    if (!lines.has(type)) {
      const line = spark({ label: `Last hour of ${type}`, format: rate });
      line.node.dataset.type = type;
      lines.set(type, { ...line, type, at: 0 });
      observer.observe(line.node);
    }
    return lines.get(type).node;
  }

  function next() {
    if (document.hidden) return;
    const stale = [...seen]
      .map((type) => lines.get(type))
      .filter((line) => Date.now() - line.at > FRESH);
    for (const line of stale.slice(0, AT_ONCE - running)) draw(line);
  }

  async function draw(line) {
    running += 1;
    line.at = Date.now();
    try {
      const past = full(await history({ length: HOUR, type: line.type }, end.signal));
      line.update(
        { name: "out", tone: "complete", values: perSecond(past, "complete") },
        { name: "in", tone: "added", values: perSecond(past, "added") },
      );
    } catch (error) {
      // A line is an extra; that it is missing is no reason to shout.
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
