// Schedules in words: marks, expressions and policies.

import { h } from "../../lib/dom.js";
import { badge } from "../queues/badges.js";

//: Milliseconds after which a tick that has not fired is called late.
const LATE = 10_000;

export const MISSED = {
  once: "one job for all missed times",
  skip: "no job",
  all: "one job for each missed time",
};
export const OVERLAP = {
  allow: "add another job",
  skip: "add no job",
  "queue-one": "add one job, if none is waiting",
};

//: Whether a schedule is due, and no worker has fired it.
export function isLate({ next_at: next }, now = Date.now()) {
  return next !== null && next < now - LATE;
}

//: The marks of a schedule, as nodes.
export function scheduleMarks(schedule) {
  const { paused, next_at: next, declared_by: module } = schedule;
  return [
    paused && badge("warn", "paused", "It adds no jobs until it is resumed"),
    !paused && next === null && badge("", "ended", "It has no more times"),
    isLate(schedule) && badge("bad", "late", "It is due, but no worker has fired it"),
    module && badge("", "in code", `Declared in code, by ${module}`),
  ].filter(Boolean);
}

//: When a schedule is due, with its expression.
export function whenView({ words, cron, tz }) {
  const expression = cron && `${cron}, ${tz}`;
  return h(
    "span",
    { class: "when", title: expression },
    h("span", null, words),
    cron && h("code", { class: "faint" }, cron),
  );
}
