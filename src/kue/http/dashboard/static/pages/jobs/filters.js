// Job filters: parsing, and conversion between the address and the API.

import { duration } from "../../lib/format.js";

//: Names of priorities, by number.
export const PRIORITIES = new Map([
  [-15, "critical"],
  [-10, "high"],
  [-5, "medium"],
  [0, "normal"],
  [10, "low"],
]);

//: All filters except the state, in the order of the suggestions.
export const FACETS = [
  { name: "type", label: "type", hint: "one queue" },
  { name: "tag", label: "tag", hint: "has this tag" },
  { name: "priority", label: "priority", hint: "a name or a number" },
  { name: "worker", label: "worker", hint: "ran there last" },
  { name: "group", label: "group", hint: "has this group key" },
  { name: "error", label: "error", hint: "words in the last error" },
  { name: "fingerprint", label: "fingerprint", hint: "one group of errors" },
  { name: "since", label: "since", hint: "created at or after: 1h, 7d, 2026-11-15" },
  { name: "until", label: "until", hint: "created before: 1h, 7d, 2026-11-15" },
  { name: "text", label: "text", hint: "words in data, error or log; \"two words\" together" },
  { name: "data.", label: "data.…", hint: "a value in the data: data.user_id=42" },
];

const PLAIN = FACETS.filter((facet) => facet.name !== "data.").map((facet) => facet.name);
const UNITS = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };

export function isFacet(name) {
  return PLAIN.includes(name) || (name.startsWith("data.") && name.length > 5);
}

//: The filters in a query, as [name, value] pairs in the order of the facets.
export function filtersOf(query) {
  const rank = (name) => PLAIN.indexOf(name) + 1 || PLAIN.length + 1;
  return Object.entries(query)
    .filter(([name]) => isFacet(name))
    .map(([name, value]) => [name, [value].flat().at(-1)])
    .sort(([one], [other]) => rank(one) - rank(other));
}

//: The filters as query parameters of the API.  Throws an Error if one is invalid.
export function asParams(filters, now = Date.now()) {
  const params = {};
  for (const [name, value] of filters) {
    const isTime = name === "since" || name === "until";
    params[dotted(name)] = isTime ? timeOf(value, now) : value;
  }
  return params;
}

//: The filters as the body of a bulk action, where numbers are numbers.
export function asBody(filters, state, now = Date.now()) {
  const body = { state };
  for (const [name, value] of Object.entries(asParams(filters, now))) {
    if (name.startsWith("data.")) {
      body.data = { ...body.data, [name.slice(5)]: jsonOrText(value) };
    } else if (name === "priority") {
      body.priority = /^-?\d+$/.test(value) ? Number(value) : value;
    } else {
      body[name] = value;
    }
  }
  return body;
}

//: Parse a typed filter: "tag:vip", "data.user_id=42", or text to search for.
export function parseFilter(typed) {
  const text = typed.trim();
  const data = /^(data\.[^=:\s]+)\s*[=:]\s*(.+)$/s.exec(text);
  if (data) return [dotted(data[1]), data[2]];
  const named = /^([a-z]+)\s*[:=]\s*(.+)$/s.exec(text);
  if (named && isFacet(named[1])) return [named[1], named[2].trim()];
  return text ? ["text", text] : null;
}

//: The text of a filter's chip.
export function filterText([name, value]) {
  if (name.startsWith("data.")) return `${name} = ${value}`;
  if (name !== "since" && name !== "until") return `${name}: ${value}`;
  const length = lengthOf(value);
  if (length !== null) {
    return name === "since" ? `last ${duration(length)}` : `older than ${duration(length)}`;
  }
  const at = /^\d+$/.test(value) ? Number(value) : Date.parse(value);
  return `${name} ${Number.isNaN(at) ? value : new Date(at).toLocaleString()}`;
}

//: Unix ms of a time given as Unix ms, as a date, or as a duration before now.
function timeOf(value, now = Date.now()) {
  const length = lengthOf(value);
  if (length !== null) return Math.max(0, now - length);
  const at = /^\d{9,}$/.test(value) ? Number(value) : Date.parse(value);
  if (Number.isNaN(at)) {
    throw new Error(`${value} is not a time; write 1h, 7d or 2026-11-15T09:30`);
  }
  return Math.max(0, at);
}

function lengthOf(value) {
  const found = /^(\d+(?:\.\d+)?)\s*([smhdw])$/.exec(value);
  return found ? Number(found[1]) * UNITS[found[2]] : null;
}

//: Indexes in the notation of the API: data.lines[0].sku is data.lines.0.sku.
function dotted(name) {
  return name.startsWith("data.") ? name.replace(/\[(\d+)\]/g, ".$1") : name;
}

function jsonOrText(value) {
  try {
    return JSON.parse(value);
  } catch {
    return value;
  }
}
