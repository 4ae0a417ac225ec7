// JSON as a collapsible tree.  Branches are built when they are opened, so that large
// values are cheap.

import { fill, h } from "../lib/dom.js";
import { number, plural } from "../lib/format.js";
import { copyText } from "./clipboard.js";
import { icon } from "./icon.js";

//: Entries shown before a button for more.
const MANY = 100;
//: Characters of a text shown before a button for more.
const LONG = 300;
//: Values with at most this many entries are open from the start.
const SMALL = 20;
//: What the server shows instead of secrets.
const REDACTED = /^(\[redacted\]|\*{3,}|•{3,})$/i;

//: Show *value*; small branches of the first *depth* levels are open from the start.
export function jsonTree(value, { depth = 2, label = "Data" } = {}) {
  const root = h("div", { class: "tree", role: "group", "aria-label": label });
  root.append(branch(null, value, "", depth));
  return root;
}

function branch(name, value, path, depth) {
  if (value === null || typeof value !== "object") return leaf(name, value, path);
  const isList = Array.isArray(value);
  const entries = Object.entries(value);
  const [start, end] = isList ? "[]" : "{}";
  if (!entries.length) return line(name, value, path, h("span", null, start + end));
  const isRoot = path === "";
  const isOpen = isRoot || (depth > 0 && entries.length <= SMALL);
  const count = plural(entries.length, isList ? "item" : "field");
  const children = h("div", { class: "tree-inside" });
  const build = () => {
    if (!children.hasChildNodes()) addEntries(children, entries, path, isList, depth - 1);
  };
  if (isOpen) build();
  const head = h(
    "summary",
    { class: "tree-line" },
    icon("right"),
    label(name),
    h("span", { class: "tree-brace" }, start),
    h("span", { class: "tree-count" }, count),
  );
  const foot = h("div", { class: "tree-brace tree-end" }, end);
  const details = h("details", { open: isOpen, ontoggle: build }, head, children, foot);
  // Next to the summary, not in it: the summary is a button itself.
  return h("div", { class: "tree-branch" }, details, buttons(value, path));
}

//: Add the entries; if there are many, the first of them and a button for more.
function addEntries(children, entries, path, isList, depth, from = 0) {
  for (const [key, value] of entries.slice(from, from + MANY)) {
    children.append(
      branch(isList ? Number(key) : key, value, join(path, key, isList), depth),
    );
  }
  const next = from + MANY;
  if (next >= entries.length) return;
  const more = h("button", { class: "link tree-more", type: "button" });
  fill(more, `Show more (${number(entries.length - next)} left)`);
  more.addEventListener("click", () => {
    more.remove();
    addEntries(children, entries, path, isList, depth, next);
  });
  children.append(more);
}

function leaf(name, value, path) {
  if (typeof value !== "string") {
    const kind = value === null ? "null" : typeof value;
    return line(name, value, path, h("span", { class: `tree-${kind}` }, String(value)));
  }
  if (REDACTED.test(value)) {
    const mark = h("span", { class: "tree-redacted" }, icon("lock"), "redacted");
    return line(name, value, path, mark);
  }
  return line(name, value, path, text(value));
}

function text(value) {
  const shown = h(
    "span",
    { class: "tree-string" },
    JSON.stringify(value.slice(0, LONG)),
  );
  if (value.length <= LONG) return shown;
  const more = h(
    "button",
    { class: "link", type: "button" },
    `Show all ${value.length} characters`,
  );
  more.addEventListener("click", () => {
    more.remove();
    fill(shown, JSON.stringify(value));
  });
  return [shown, " ", more];
}

function line(name, value, path, shown) {
  const inner = h("span", { class: "tree-value" }, shown);
  return h(
    "div",
    { class: "tree-line tree-leaf" },
    label(name),
    inner,
    buttons(value, path),
  );
}

function label(name) {
  if (name === null) return null;
  return h(
    "span",
    { class: typeof name === "number" ? "tree-index" : "tree-key" },
    `${name}:`,
  );
}

function buttons(value, path) {
  const copy = (text, message) => () => copyText(text, message);
  const plain = typeof value === "string" ? value : JSON.stringify(value, null, 2);
  const act = (what, text, message) =>
    h(
      "button",
      {
        class: "plain small",
        type: "button",
        title: `Copy ${what}`,
        onclick: copy(text, message),
      },
      what,
    );
  return h(
    "span",
    { class: "tree-buttons" },
    act("value", plain, "Value copied"),
    path && act("path", path, "Path copied"),
  );
}

//: A path as in Python, JavaScript and filters: customer.lines[0].sku
function join(path, key, isList) {
  if (isList) return `${path}[${key}]`;
  if (!/^[A-Za-z_]\w*$/.test(key)) return `${path}[${JSON.stringify(key)}]`;
  return path ? `${path}.${key}` : key;
}
