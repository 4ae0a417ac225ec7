// Format numbers, durations and times.

import { h, setText } from "./dom.js";

const LOCALE = "en";
const whole = new Intl.NumberFormat(LOCALE, { maximumFractionDigits: 0 });
const compact = new Intl.NumberFormat(LOCALE, {
  notation: "compact",
  maximumFractionDigits: 1,
});
const clock = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  hourCycle: "h23",
});
const calendar = new Intl.DateTimeFormat(LOCALE, {
  year: "numeric",
  month: "short",
  day: "numeric",
});

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
export const NO_VALUE = "–";

//: 1,234,567
export function number(value) {
  return isNumber(value) ? whole.format(value) : NO_VALUE;
}

//: 1.2M
export function short(value) {
  if (!isNumber(value)) return NO_VALUE;
  return Math.abs(value) < 10_000 ? whole.format(value) : compact.format(value);
}

//: Per minute, as in charts, so that all rates can be compared: 12.3/min, 1.2M/min
export function rate(perSecond) {
  if (!isNumber(perSecond)) return NO_VALUE;
  const perMinute = perSecond * 60;
  if (perMinute > 0 && perMinute < 0.1) return "<0.1/min";
  return `${perMinute < 100 ? digits(perMinute) : short(Math.round(perMinute))}/min`;
}

//: 240 ms, 1.2 s, 3 min 20 s, 2 h 5 min, 3 d 4 h
export function duration(ms) {
  if (!isNumber(ms)) return NO_VALUE;
  const length = Math.abs(ms);
  if (length < 10) return `${digits(ms)} ms`;
  if (length < SECOND) return `${Math.round(ms)} ms`;
  if (length < 10 * SECOND) return `${digits(ms / SECOND)} s`;
  if (length < MINUTE) return `${Math.floor(ms / SECOND)} s`;
  if (length < HOUR) return twoUnits(ms, MINUTE, "min", SECOND, "s");
  if (length < DAY) return twoUnits(ms, HOUR, "h", MINUTE, "min");
  return twoUnits(ms, DAY, "d", HOUR, "h");
}

//: A percentile: ≤ 564 ms.  Durations are counted in buckets, and this is the upper bound
//: of one; it may be greater than any measured duration.
export function atMost(ms) {
  return isNumber(ms) ? `≤ ${duration(ms)}` : NO_VALUE;
}

//: Relative time: 3 min ago, in 20 s.
export function ago(at, now = Date.now()) {
  if (!isNumber(at)) return NO_VALUE;
  const passed = now - at;
  if (Math.abs(passed) < 2 * SECOND) return "now";
  const length = oneUnit(Math.abs(passed));
  return passed > 0 ? `${length} ago` : `in ${length}`;
}

//: The time of day, with the date unless it is today.
export function time(at) {
  if (!isNumber(at)) return NO_VALUE;
  const moment = new Date(at);
  const isToday = moment.toDateString() === new Date().toDateString();
  const day = isToday ? "" : `${calendar.format(moment)} `;
  return `${day}${clock.format(moment)}`;
}

//: 3.2 MB
export function bytes(value) {
  if (!isNumber(value)) return NO_VALUE;
  const units = ["B", "kB", "MB", "GB", "TB"];
  let size = value;
  let unit = 0;
  while (Math.abs(size) >= 1000 && unit < units.length - 1) {
    size /= 1000;
    unit += 1;
  }
  return `${unit === 0 ? whole.format(size) : digits(size)} ${units[unit]}`;
}

//: 0.123 is 12.3%
export function percent(share) {
  return isNumber(share) ? `${digits(share * 100)}%` : NO_VALUE;
}

//: plural(3, "job") is 3 jobs; plural(2, "queue is", "queues are")
export function plural(count, one, many = `${one}s`) {
  return `${number(count)} ${count === 1 ? one : many}`;
}

//: An element with the relative time of *at*, kept up to date.
export function timeAgo(at) {
  if (!isNumber(at)) return h("span", { class: "faint" }, NO_VALUE);
  return h(
    "time",
    { dataset: { ago: at }, datetime: iso(at), title: exact(at) },
    ago(at),
  );
}

//: An element with the time since *at*, kept up to date.
export function timeSince(at) {
  if (!isNumber(at)) return h("span", { class: "faint" }, NO_VALUE);
  const text = duration(Math.max(0, Date.now() - at));
  return h("time", { dataset: { since: at }, title: `since ${exact(at)}` }, text);
}

//: A time to the millisecond, for tooltips.
export function exact(at) {
  const ms = String(new Date(at).getMilliseconds()).padStart(3, "0");
  return `${calendar.format(new Date(at))} ${clock.format(new Date(at))}.${ms}`;
}

// One timer for all of them; elements that were removed are not found any more.
window.setInterval(() => {
  if (document.hidden) return;
  const now = Date.now();
  for (const node of document.querySelectorAll("time[data-ago]")) {
    setText(node, ago(Number(node.dataset.ago), now));
  }
  for (const node of document.querySelectorAll("time[data-since]")) {
    setText(node, duration(Math.max(0, now - Number(node.dataset.since))));
  }
}, SECOND);

function iso(at) {
  const moment = new Date(at);
  return Number.isNaN(moment.getTime()) ? "" : moment.toISOString();
}

function isNumber(value) {
  return typeof value === "number" && Number.isFinite(value);
}

//: Three significant digits, without trailing zeros.
function digits(value) {
  const places = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  return String(Number(value.toFixed(places)));
}

function twoUnits(ms, large, largeName, small, smallName) {
  const count = Math.floor(ms / large);
  const rest = Math.floor((ms - count * large) / small);
  return rest ? `${count} ${largeName} ${rest} ${smallName}` : `${count} ${largeName}`;
}

function oneUnit(ms) {
  if (ms < MINUTE) return `${Math.floor(ms / SECOND)} s`;
  if (ms < HOUR) return `${Math.floor(ms / MINUTE)} min`;
  if (ms < DAY) return `${Math.floor(ms / HOUR)} h`;
  return `${Math.floor(ms / DAY)} d`;
}

//: The task of a job, and its queue if that has another name.
export function nameAndQueue({ name, type }) {
  return name === type ? type : `${name} (${type})`;
}
