// The request that adds or changes a schedule.

const UNITS = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["m", 60_000],
  ["s", 1_000],
];
//: Options of its job that the form does not show, and that stay as they are.
const KEPT = [
  ...["queue", "priority", "backoff", "unique", "unique_until", "on_conflict", "group", "tags"],
  ...["limited_by", "remove_on_complete", "delivery", "max_stalls"],
];
//: Those of them that are durations, in ms.
const KEPT_DURATIONS = [
  ...["delay", "timeout", "ttl", "expires", "unique_for", "unique_at_most", "debounce"],
  ...["debounce_max", "retention", "soft_timeout"],
];

//: The body of a PUT: the values of the *shown* fields, and what *schedule* keeps.
export function bodyOf({ name: _name, kind: _kind, ...values }, shown, schedule) {
  const body = { ...keptOptions(schedule) };
  for (const [name, value] of Object.entries(values)) {
    if (shown.includes(name) && value !== "" && value !== null) body[name] = trimmed(value);
  }
  return body;
}

function keptOptions(schedule) {
  if (schedule === null) return {};
  const { meta, max_attempts: attempts, max_exceptions: exceptions, retry_for: length } = schedule;
  const kept = { meta, attempts: attempts || "unlimited" };
  if (exceptions) kept.max_exceptions = exceptions;
  if (length) kept.retry_until = `${length}ms`;
  for (const name of KEPT) if (schedule[name] !== null) kept[name] = schedule[name];
  for (const name of KEPT_DURATIONS) if (schedule[name]) kept[name] = `${schedule[name]}ms`;
  return kept;
}

function trimmed(value) {
  return typeof value === "string" ? value.trim() : value;
}

//: A duration as the server reads it: "90m".
export function durationText(ms) {
  const [unit, size] = UNITS.find(([, one]) => ms % one === 0) ?? ["ms", 1];
  return `${ms / size}${unit}`;
}

//: A time as fields show it, in the zone of the browser: "2030-01-01T09:00".
export function localTime(at) {
  const moment = new Date(at);
  moment.setMinutes(moment.getMinutes() - moment.getTimezoneOffset());
  return moment.toISOString().slice(0, 16);
}

//: The opposite: Unix ms, or null if there is none.
export function timeOf(text) {
  const at = new Date(text).getTime();
  return Number.isNaN(at) ? null : at;
}
