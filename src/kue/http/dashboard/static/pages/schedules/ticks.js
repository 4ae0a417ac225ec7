// Ticks of a schedule: how its last jobs ended, each with shape, colour and name.

import { icon } from "../../components/icon.js";
import { h } from "../../lib/dom.js";
import { duration, time } from "../../lib/format.js";
import { href } from "../../lib/router.js";

//: Label, icon and colour of each status.
const STATUSES = {
  unfinished: ["unfinished", "waiting", "active"],
  complete: ["complete", "complete", "complete"],
  failed: ["failed", "failed", "failed"],
  cancelled: ["cancelled", "cancelled", "cancelled"],
  removed: ["job removed", "trash", "cancelled"],
  missed: ["missed", "clock", "delayed"],
  overlap: ["skipped: an earlier job was unfinished", "skip", "delayed"],
  full: ["skipped: the queue was full", "skip", "delayed"],
  duplicate: ["skipped: the unique key was taken", "copy", "delayed"],
};
const UNKNOWN = ["unknown", "info", "unknown"];

//: The outcomes of the last ticks in a row, the newest last; those with a job are links.
export function tickStrip(ticks) {
  if (!ticks.length) return h("span", { class: "faint" }, "none yet");
  return h("ol", { class: "ticks" }, ticks.map((tick) => h("li", null, tickMark(tick))));
}

function tickMark(tick) {
  const [, iconName, tone] = statusOf(tick);
  const text = tickText(tick);
  const props = { class: "tick", dataset: { state: tone }, title: text, "aria-label": text };
  if (tick.job === null) return h("span", { ...props, role: "img" }, icon(iconName));
  return h("a", { ...props, href: href(`/jobs/${tick.job}`) }, icon(iconName));
}

//: "Failed, 09:00:00, took 1.2 s, job 7"
function tickText(tick) {
  const [word] = statusOf(tick);
  const parts = [
    word.charAt(0).toUpperCase() + word.slice(1),
    `${tick.is_manual ? "run by hand " : ""}${time(tick.at)}`,
    hasRun(tick) && `took ${duration(tick.duration)}`,
    tick.job !== null && `job ${tick.job}`,
  ];
  return parts.filter(Boolean).join(", ");
}

//: The status of a tick with its name, as a badge.
export function tickBadge(tick) {
  const [word, iconName, tone] = statusOf(tick);
  return h("span", { class: "state", dataset: { state: tone } }, icon(iconName), word);
}

//: Whether the duration of a tick is known.
export function hasRun({ status }) {
  return status === "complete" || status === "failed";
}

function statusOf({ status }) {
  return STATUSES[status] ?? UNKNOWN;
}
