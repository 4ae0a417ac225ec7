// JSON as a tree that folds.  What is folded is made when it is opened, so that large
// values cost what is seen of them.

import { fill, h } from "../lib/dom.js";
import { plural } from "../lib/format.js";
import { copyText } from "./clipboard.js";
import { icon } from "./icon.js";

//: Entries shown before one is asked whether to show the rest.
const MANY = 100;
//: Characters of a text shown before the same.
const LONG = 300;
//: Entries of a value that is small enough to be open from the start.
const SMALL = 20;
//: What the server puts in place of secrets.
const REDACTED = /^(\[redacted\]|\*{3,}|•{3,})$/i;

//: Show *value*; of *depth* levels, what is small is open from the start.
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
  const isWhole = path === "";
  const isOpen = isWhole || (depth > 0 && entries.length <= SMALL);
  const count = plural(entries.length, isList ? "item" : "field");
  const inside = h("div", { class: "tree-inside" });
  const grow = () => {
    if (!inside.hasChildNodes()) rest(inside, entries, path, isList, depth - 1);
  };
  if (isOpen) grow();
  const head = h(
    "summary",
    { class: "tree-line" },
    icon("right"),
    label(name),
    h("span", { class: "tree-brace" }, start),
    h("span", { class: "tree-count" }, count),
  );
  const foot = h("div", { class: "tree-brace tree-end" }, end);
  const details = h("details", { open: isOpen, ontoggle: grow }, head, inside, foot);
  // Beside the summary, which is a button itself.
  return h("div", { class: "tree-branch" }, details, buttons(value, path));
}

//: Add the entries, the first of them if there are many.
function rest(inside, entries, path, isList, depth, from = 0) {
  for (const [key, value] of entries.slice(from, from + MANY)) {
    inside.append(
      branch(isList ? Number(key) : key, value, join(path, key, isList), depth),
    );
  }
  const next = from + MANY;
  if (next >= entries.length) return;
  const more = h("button", { class: "link tree-more", type: "button" });
  fill(more, `Show more of ${plural(entries.length - next, "entry", "entries")}`);
  more.addEventListener("click", () => {
    more.remove();
    rest(inside, entries, path, isList, depth, next);
  });
  inside.append(more);
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
  const copy = (text, told) => () => copyText(text, told);
  const plain = typeof value === "string" ? value : JSON.stringify(value, null, 2);
  const act = (what, text, told) =>
    h(
      "button",
      {
        class: "plain small",
        type: "button",
        title: `Copy ${what}`,
        onclick: copy(text, told),
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

//: As Python and JavaScript both have it, and filters take it: customer.lines[0].sku
function join(path, key, isList) {
  if (isList) return `${path}[${key}]`;
  if (!/^[A-Za-z_]\w*$/.test(key)) return `${path}[${JSON.stringify(key)}]`;
  return path ? `${path}.${key}` : key;
}
