// Badges of a queue: paused, no worker, limits.

import { h } from "../../lib/dom.js";
import { ago, duration, time } from "../../lib/format.js";

//: Return the badges of a queue, as nodes.
export function queueBadges(queue) {
  const badges = queue.pauses.map((pause) =>
    badge("warn", isGlobal(pause) ? "all paused" : "paused", pauseText(pause)),
  );
  if (queue.workers === 0 && queue.counts.waiting > 0) {
    const title = "Jobs are waiting, but no live worker handles this type";
    badges.push(badge("bad", "no worker", title));
  }
  if (queue.limits) {
    badges.push(badge("", limitsText(queue.limits), "Limits across all workers"));
  }
  return badges;
}

//: "Paused by ann 3 min ago, until 12:30: a reason"
export function pauseText(pause) {
  const { by, until, reason, at } = pause;
  const what = isGlobal(pause) ? "Everything is paused" : "Paused";
  const when = ago(at) === "now" ? "just now" : ago(at);
  const end = until === null ? "" : `, until ${time(until)}`;
  return `${what}${by ? ` by ${by}` : ""} ${when}${end}${reason ? `: ${reason}` : ""}`;
}

//: "4 at once, 100/min"
export function limitsText({ concurrency, rate, per, per_key: perKey }) {
  const parts = [];
  if (concurrency !== null) parts.push(`${concurrency} at once`);
  if (rate !== null) parts.push(`${rate}/${period(per)}`);
  if (perKey !== null) parts.push(`${perKey} per group`);
  return parts.join(", ");
}

export function badge(tone, word, title = "") {
  return h("span", { class: "mark", dataset: { tone }, title }, word);
}

function isGlobal({ type, worker }) {
  return type === null && worker === null;
}

function period(ms) {
  return duration(ms).replace(/^1 /, "");
}
