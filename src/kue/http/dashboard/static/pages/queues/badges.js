// Badges of a queue: paused, no worker, full, limits, cap, order.

import { h } from "../../lib/dom.js";
import { ago, duration, number, plural, time } from "../../lib/format.js";

//: Return the badges of a queue, as nodes; in lists the cap is shown without its policy.
export function queueBadges(queue, { isList = false } = {}) {
  const badges = queue.pauses.map((pause) =>
    badge("warn", isGlobal(pause) ? "all paused" : "paused", pauseText(pause)),
  );
  if (queue.workers === 0 && queue.counts.waiting > 0) {
    const title = "Jobs are waiting, but no live worker handles this type";
    badges.push(badge("bad", "no worker", title));
  }
  if (isFull(queue)) badges.push(badge("warn", "full", fullText(queue.limits)));
  if (queue.limits) badges.push(...limitBadges(queue.limits, isList));
  return badges;
}

//: Whether as many jobs wait as the cap of a queue allows.
export function isFull({ limits, counts }) {
  const most = limits?.max_waiting ?? null;
  return most !== null && counts.waiting >= most;
}

//: "The cap of 10,000 waiting jobs is reached: new jobs are refused"
export function fullText(limits) {
  const { max_waiting: most, when_full: policy, full_timeout: timeout } = limits;
  const then = {
    refuse: "new jobs are refused",
    wait: `programs that add jobs wait for room, up to ${duration(timeout)}`,
    "drop-oldest": "each new job cancels the oldest waiting job of the lowest priority",
  };
  return `The cap of ${plural(most, "waiting job")} is reached: ${then[policy]}`;
}

function limitBadges(limits, isList) {
  const [most, then] = capText(limits);
  const words = [
    [limitsText(limits), "Limits across all workers"],
    isList ? [most, `${most}, ${then}`] : [most && `${most}, ${then}`, "Cap"],
    orderBadge(limits),
  ];
  return words.filter(([word]) => word).map(([word, title]) => badge("", word, title));
}

//: "Paused by ann 3 min ago, until 12:30: a reason"
export function pauseText(pause) {
  const { by, until, reason, at } = pause;
  const what = isGlobal(pause) ? "Everything is paused" : "Paused";
  const when = ago(at) === "now" ? "just now" : ago(at);
  const end = until === null ? "" : `, until ${time(until)}`;
  return `${what}${by ? ` by ${by}` : ""} ${when}${end}${reason ? `: ${reason}` : ""}`;
}

//: Limits, cap and order: "4 at once; at most 10,000 waiting, then wait; fair"
export function ruleText(limits) {
  const [most, then] = capText(limits);
  const [order] = orderBadge(limits);
  return [limitsText(limits), most && `${most}, ${then}`, order].filter(Boolean).join("; ");
}

//: "4 at once, 100/min"
function limitsText({ concurrency, rate, per, per_key: perKey }) {
  const parts = [];
  if (concurrency !== null) parts.push(`${concurrency} at once`);
  if (rate !== null) parts.push(`${rate}/${period(per)}`);
  if (perKey !== null) parts.push(`${perKey} per group`);
  return parts.join(", ");
}

//: "at most 10,000 waiting", "then wait"
function capText({ max_waiting: most, when_full: policy }) {
  const then = { refuse: "refuse", wait: "wait", "drop-oldest": "drop the oldest" };
  return [most === null ? "" : `at most ${number(most)} waiting`, `then ${then[policy]}`];
}

//: The word and title of the badge: "fair", "ages 10 min a step".
function orderBadge({ fair, weights, ageing }) {
  if (ageing !== null) {
    const title = "Waiting that long is worth one step of priority";
    return [`ages ${duration(ageing)} a step`, title];
  }
  const turns = Object.entries(weights).map(([group, weight]) => `${group} ${weight}`);
  const title = `Groups take turns${turns.length ? `; turns: ${turns.join(", ")}` : ""}`;
  return [fair ? "fair" : "", title];
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
