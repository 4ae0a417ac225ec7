// Which jobs come first.

import { fill, h } from "../../lib/dom.js";

//: What the two orders are in each state; lists are sorted by what matters there.
const WORDS = {
  waiting: { asc: "Next to run first", desc: "Last to run first" },
  delayed: { asc: "Due first", desc: "Due last" },
};
const USUAL = { asc: "Oldest first", desc: "Newest first" };

//: What runs next is first, and what happened last.
export function usualOrder(state) {
  return state in WORDS ? "asc" : "desc";
}

//: Return {node, show(state, order)}; *onChange(order)* hears of another, null as usual.
export function orderPicker(onChange) {
  let usual = "desc";
  const node = h("select", { "aria-label": "Order", onchange });

  function onchange() {
    onChange(node.value === usual ? null : node.value);
  }

  function show(state, order) {
    usual = usualOrder(state);
    const options = Object.entries(WORDS[state] ?? USUAL);
    fill(node, options.map(([value, label]) => h("option", { value }, label)));
    node.value = order;
  }

  return { node, show };
}
