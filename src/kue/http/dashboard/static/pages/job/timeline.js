// Timeline of a job as one bar: how long it waited, ran and backed off.

import { fill, h } from "../../lib/dom.js";
import { duration, time } from "../../lib/format.js";
import { live } from "../../lib/live.js";
import { isEndless } from "./details.js";

//: A gap longer than this many times all runs together is shortened and marked: runs of
//: seconds would vanish next to a delay of days.
const LONGEST_GAP = 6;
const RUNS = ["running", "failed", "active"];

//: A bar to scale, redrawn every second until the job is finished.
//:
//: *clock* returns the time of the server.  `show(job)` shows a newer state of the job;
//: `stop()` ends it.
export function timeline(clock) {
  const bar = h("div", { class: "timeline-bar", role: "img" });
  const legend = h("ul", { class: "timeline-legend" });
  const ends = h("div", { class: "timeline-ends" });
  const cutNote = h("p", { class: "faint" }, "Gaps with a break (//) are shortened.");
  const node = h("div", { class: "timeline" }, bar, ends, legend, cutNote);
  let shown = null;

  function draw() {
    const now = clock();
    const found = phases(shown, now);
    const sums = totals(found);
    const words = [...sums].map(([kind, ms]) => `${PHASES[kind]} ${duration(ms)}`);
    bar.setAttribute("aria-label", words.join(", ") || "just added");
    const limit = gapLimit(found);
    fill(bar, found.map((one) => part(one, limit)));
    cutNote.hidden = !found.some((one) => lengthOf(one) > limitOf(one, limit));
    fill(legend, [...sums].map(([kind, ms]) => entry(kind, ms)));
    fill(ends, firstAndLast(shown, found));
  }

  const timer = setInterval(() => {
    if (shown && live.state !== "paused" && isUnfinished(shown)) draw();
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

function isUnfinished(job) {
  return ["waiting", "active", "delayed", "blocked"].includes(job.state);
}

//: The longest gap that is drawn to scale; without a run, any gap is.
function gapLimit(found) {
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

//: Shown if it fits.
function lengthView(text) {
  return h("span", { class: text.length > 6 ? "is-long" : "" }, text);
}

function part(phase, limit) {
  const { kind, from, attempt, open } = phase;
  const length = lengthOf(phase);
  const shown = Math.min(length, limitOf(phase, limit));
  const run = attempt ? `attempt ${attempt} ` : "";
  const text = open ? `${duration(length)} so far` : duration(length);
  return h(
    "span",
    {
      class: ["timeline-part", shown < length && "is-cut"],
      title: `${run}${PHASES[kind]}: ${text}, from ${time(from)}`,
      // Below 1 the parts would not fill the bar.
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
    PHASES[kind],
    " ",
    h("b", {}, duration(ms)),
  );
}

function firstAndLast(job, found) {
  const last = found.at(-1);
  const end = last?.open ? "now" : time(last?.to ?? job.created_at);
  return [h("span", {}, time(job.created_at)), h("span", {}, end)];
}

// -- phases of a job --------------------------------------------------------------

//: Labels of the phases.
const PHASES = {
  blocked: "blocked",
  delayed: "delayed",
  waiting: "waited",
  active: "has been running",
  running: "ran",
  failed: "ran and failed",
  backoff: "backed off",
  ahead: "remaining",
  ended: "finished",
  earlier: "earlier, no longer kept",
};

const FAILED = new Set(["retry", "failed", "stalled", "cancelled"]);

//: The phases of a job up to *now*, each {kind, from, to, attempt, open}.
//:
//: They follow each other without gaps.  The current one is *open*; after it comes only
//: the rest of a delay.
function phases(job, now) {
  const found = [];
  const add = (kind, from, to, more = {}) => {
    if (to > from || more.open) found.push({ kind, from, to: Math.max(to, from), ...more });
  };
  let at = job.created_at;
  let due = at + (job.delay ?? 0);
  let idle = job.after?.length ? "blocked" : "delayed";
  const wait = (until, more = {}) => {
    // Blocked jobs do not record when their last dependency ended.
    if (idle === "blocked") return add("blocked", at, until, more);
    const turn = Math.min(Math.max(due, at), until);
    add(idle, at, turn);
    return add("waiting", turn, until, more);
  };
  const history = job.history ?? [];
  if ((history[0]?.attempt ?? 1) > 1) idle = "earlier";
  for (const entry of history) {
    const began = entry.started_at;
    if (began !== null && idle === "earlier") add("earlier", at, began);
    else if (began !== null) wait(began);
    else if (entry.outcome === "restarted") add("ended", at, entry.at);
    else wait(entry.at);
    if (began !== null) {
      const kind = FAILED.has(entry.outcome) ? "failed" : "running";
      add(kind, began, entry.at, { attempt: entry.attempt });
    }
    at = entry.at;
    due = at + (entry.delay ?? 0);
    idle = entry.outcome === "retry" || entry.outcome === "stalled" ? "backoff" : "delayed";
  }
  if (job.state === "active") {
    wait(job.started_at);
    add("active", job.started_at, now, { attempt: job.attempts, open: true });
  } else if (job.state === "waiting") {
    if (idle === "earlier") idle = "delayed";
    wait(now, { open: true });
  } else if (job.state === "delayed") {
    const kind = idle === "backoff" ? "backoff" : "delayed";
    add(kind, at, now, { open: true });
    add("ahead", now, isEndless(job) ? now : (job.promote_at ?? now));
  } else if (job.state === "blocked") {
    add("blocked", at, now, { open: true });
  }
  return found;
}

//: Total length of each kind of phase: a map from kind to ms.
function totals(found) {
  const sums = new Map();
  for (const { kind, from, to } of found) {
    sums.set(kind, (sums.get(kind) ?? 0) + to - from);
  }
  return sums;
}
