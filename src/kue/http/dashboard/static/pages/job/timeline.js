// A job's life as one bar: how long it waited, ran and backed off.

import { h, fill } from "../../lib/dom.js";
import { duration, time } from "../../lib/format.js";
import { live } from "../../lib/live.js";
import { STRETCHES, stretches, totals } from "./story.js";

//: A gap longer than so many times all runs together is shortened, with a mark: runs of
//: seconds would vanish beside a delay of days.
const LONGEST_GAP = 6;
const RUNS = ["running", "failed", "active"];

//: A bar to scale that goes on by itself while the job does.
//:
//: *clock* returns the time of the server.  `show(job)` shows a newer state of the job;
//: `stop()` ends it.
export function timeline(clock) {
  const bar = h("div", { class: "timeline-bar", role: "img" });
  const legend = h("ul", { class: "timeline-legend" });
  const ends = h("div", { class: "timeline-ends" });
  const cut = h("p", { class: "faint" }, "Gaps with a break (//) are shortened.");
  const node = h("div", { class: "timeline" }, bar, ends, legend, cut);
  let shown = null;

  function draw() {
    const now = clock();
    const found = stretches(shown, now);
    const sums = totals(found);
    const words = [...sums].map(([kind, ms]) => `${STRETCHES[kind]} ${duration(ms)}`);
    bar.setAttribute("aria-label", words.join(", ") || "just added");
    const limit = longest(found);
    fill(bar, found.map((one) => part(one, limit)));
    cut.hidden = !found.some((one) => lengthOf(one) > limitOf(one, limit));
    fill(legend, [...sums].map(([kind, ms]) => entry(kind, ms)));
    fill(ends, firstAndLast(shown, found));
  }

  const timer = setInterval(() => {
    if (shown && live.state !== "paused" && isGoingOn(shown)) draw();
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

//: How long a gap may be to be drawn to scale; without a run, any gap may.
function longest(found) {
  const runs = found.filter(({ kind }) => RUNS.includes(kind));
  const sum = runs.reduce((all, one) => all + lengthOf(one), 0);
  return runs.length ? LONGEST_GAP * Math.max(sum, 1) : Infinity;
}

function limitOf({ kind }, limit) {
  return RUNS.includes(kind) ? Infinity : limit;
}

function lengthOf({ from, to }) {
  return to - from;
}

//: Shown if there is room for it.
function lengthView(text) {
  return h("span", { class: text.length > 6 ? "is-long" : "" }, text);
}

function part(stretch, limit) {
  const { kind, from, attempt, open } = stretch;
  const length = lengthOf(stretch);
  const shown = Math.min(length, limitOf(stretch, limit));
  const run = attempt ? `attempt ${attempt} ` : "";
  const text = open ? `${duration(length)} so far` : duration(length);
  return h(
    "span",
    {
      class: ["timeline-part", shown < length && "is-cut"],
      title: `${run}${STRETCHES[kind]}: ${text}, from ${time(from)}`,
      // Below 1 all parts together would not fill the bar.
      style: { "flex-grow": String(Math.max(1, shown)) },
    },
    h("span", { class: `timeline-fill timeline-${kind}` }),
    h("span", { class: "timeline-length" }, lengthView(duration(length))),
  );
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
