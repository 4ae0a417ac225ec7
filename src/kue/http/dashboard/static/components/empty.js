// Where there is nothing yet: why, and what to do about it.

import { h } from "../lib/dom.js";
import { copyButton } from "./copy.js";

//: *code* is shown as it is, with a button to copy; *action*: {label, run} or a node.
export function empty({ title, text = "", code = "", action = null }) {
  return h(
    "div",
    { class: "empty" },
    h("h2", null, title),
    text && h("p", null, text),
    code && sample(code),
    action instanceof Node
      ? action
      : action && h("button", { class: "primary", onclick: action.run }, action.label),
  );
}

//: Code, as it is.
export function sample(code) {
  return h(
    "div",
    { class: "sample" },
    h("pre", { tabindex: 0 }, code),
    copyButton(code),
  );
}
