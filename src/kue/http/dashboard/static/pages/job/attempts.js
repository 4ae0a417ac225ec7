// Attempts of a job: outcome, error, stack trace and result of each, newest first.

import { jsonTree } from "../../components/json-tree.js";
import { h } from "../../lib/dom.js";
import { duration, timeAgo } from "../../lib/format.js";
import { href } from "../../lib/router.js";
import { factList } from "./details.js";
import { stackView } from "./stack-trace.js";

//: Label of each outcome of a run, and the state whose colour it has.
const OUTCOMES = {
  complete: ["complete", "complete"],
  retry: ["failed, will retry", "delayed"],
  failed: ["failed", "failed"],
  released: ["released", "waiting"],
  stalled: ["worker lost", "blocked"],
  cancelled: ["cancelled", "cancelled"],
  restarted: ["requeued", "waiting"],
  replaced: ["replaced by a later add", "waiting"],
};
//: Why maintenance ended a run.
const TAKEN = {
  lease: "its worker sent no heartbeat",
  ttl: "its run did not report in time",
};

//: The attempts of *job*; *isOpen(entry, isLast)* returns which are expanded.
export function attemptsView({ history, state }, isOpen) {
  const last = history.length - 1;
  return history
    .map((entry, number) => {
      const isLast = number === last;
      // The result of the job has its own panel.
      const shown = isLast && state === "complete" ? { ...entry, result: null } : entry;
      return entryView(shown, isOpen(entry, isLast));
    })
    .reverse();
}

//: The key of an entry, unique within its job.
export function keyOf(entry) {
  return `${entry.at}:${entry.attempt ?? ""}:${entry.outcome}`;
}

function entryView(entry, open) {
  const [words, state] = outcomeOf(entry);
  const head = [
    h("span", { class: "ending-number" }, entry.attempt ? `Attempt ${entry.attempt}` : "—"),
    h("span", { class: "ending-outcome", dataset: { state } }, words),
    h("span", { class: "ending-error" }, firstLine(entry)),
    h(
      "span",
      { class: "ending-facts" },
      entry.duration !== null && `${duration(entry.duration)}, `,
      timeAgo(entry.at),
    ),
  ];
  const body = bodyOf(entry);
  if (!body.length) {
    return h("div", { class: "ending" }, h("div", { class: "ending-head" }, head));
  }
  return h(
    "details",
    { class: "ending", dataset: { key: keyOf(entry) }, open },
    h("summary", { class: "ending-head" }, head),
    h("div", { class: "ending-body" }, body),
  );
}

function outcomeOf({ outcome, counts, suspended }) {
  if (suspended) return ["suspended", "waiting"];
  if (outcome === "released" && !counts) return ["released, not counted", "waiting"];
  return OUTCOMES[outcome] ?? [outcome, "waiting"];
}

function firstLine(entry) {
  if (entry.error) {
    const message = entry.error.message.split("\n", 1)[0];
    return message ? `${entry.error.kind}: ${message}` : entry.error.kind;
  }
  return entry.reason;
}

function bodyOf(entry) {
  const parts = [];
  const facts = [];
  if (entry.worker) {
    const search = new URLSearchParams({ worker: entry.worker });
    facts.push(["Worker", h("a", { href: href(`/jobs?${search}`) }, entry.worker)]);
  }
  if (entry.started_at) facts.push(["Started", timeAgo(entry.started_at)]);
  if (entry.taken) facts.push(["Ended by maintenance", TAKEN[entry.taken] ?? entry.taken]);
  if (entry.delay && !entry.suspended) facts.push(["Next run after", duration(entry.delay)]);
  if (entry.reason && entry.error) facts.push(["Reason", entry.reason]);
  if (facts.length) parts.push(factList(facts));
  if (entry.error) {
    const { message, stack } = entry.error;
    if (message.includes("\n")) parts.push(h("pre", { class: "message" }, message));
    if (stack) parts.push(stackView(stack));
  }
  if (entry.result !== null && entry.result !== undefined) parts.push(jsonTree(entry.result));
  return parts;
}

