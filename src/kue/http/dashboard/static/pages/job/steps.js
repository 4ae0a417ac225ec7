// Durable steps of a job: what it did, what it waits for, and the signals sent to it.

import { jsonTree } from "../../components/json-tree.js";
import { fill, h } from "../../lib/dom.js";
import { duration, time, timeAgo } from "../../lib/format.js";

//: Label of each kind of step.
const KINDS = { step: "Step", sleep: "Sleep", wait: "Wait" };

//: A panel's content; `show(found)` shows what the API returned, and returns whether
//: there is anything.
export function stepsView() {
  const node = h("div", { class: "endings" });
  let last = "";
  return {
    node,
    show(found) {
      const entries = [...found.steps.map(stepView), ...unread(found).map(signalView)];
      const text = JSON.stringify(found);
      if (text !== last) fill(node, entries);
      last = text;
      return entries.length > 0;
    },
  };
}

//: What a job that is suspended waits for, as a sentence; null for any other.
export function pendingNote(pending) {
  if (!pending) return null;
  const end = (words) => pending.until !== null && [words, timeAgo(pending.until)];
  const words =
    pending.kind === "sleep"
      ? ["Sleeps", end(", and continues ")]
      : ["Waits for signal ", h("b", null, pending.name), end(", and times out ")];
  return h("p", { class: "job-note" }, words);
}

function unread({ signals }) {
  return signals.filter(({ received }) => !received);
}

function stepView(step) {
  const body = step.result !== null && jsonTree(step.result);
  const took = step.ended_at !== null ? step.ended_at - step.at : step.duration;
  return entry(
    [KINDS[step.kind], step.name, stateOf(step), outcomeOf(step)],
    [took !== null && `${duration(took)}, `, timeAgo(step.at)],
    body,
  );
}

function signalView({ name, at, data }) {
  const words = "not received yet";
  return entry(["Signal", name, "delayed", words], [timeAgo(at)], data !== null && jsonTree(data));
}

function entry([kind, name, state, words], facts, body) {
  const head = [
    h("span", { class: "ending-number" }, kind),
    h("span", { class: "ending-outcome", dataset: { state } }, name),
    h("span", { class: "ending-error" }, words),
    h("span", { class: "ending-facts" }, facts),
  ];
  if (!body) return h("div", { class: "ending" }, h("div", { class: "ending-head" }, head));
  return h(
    "details",
    { class: "ending" },
    h("summary", { class: "ending-head" }, head),
    h("div", { class: "ending-body" }, body),
  );
}

function stateOf(step) {
  if (step.timed_out) return "failed";
  return isOpen(step) ? "delayed" : "complete";
}

function isOpen({ kind, until, ended_at: ended }) {
  if (kind === "sleep") return until === null || until > Date.now();
  return kind === "wait" && ended === null;
}

function outcomeOf(step) {
  if (step.timed_out) return "timed out";
  if (step.kind === "step" || step.ended_at !== null) return short(step.result);
  return step.until === null ? "until the signal comes" : `until ${time(step.until)}`;
}

function short(result) {
  return result === null ? "" : JSON.stringify(result).slice(0, 120);
}
