// Text into the clipboard.

import { h } from "../lib/dom.js";
import { icon } from "./icon.js";
import { toast } from "./toast.js";

//: A button that copies *text*, or what it returns if it is a function.
export function copyButton(text, label = "Copy") {
  async function copy(event) {
    event.stopPropagation();
    await copyText(typeof text === "function" ? text() : text);
  }
  const props = {
    class: "plain copy",
    title: label,
    "aria-label": label,
    onclick: copy,
  };
  return h("button", { type: "button", ...props }, icon("copy"));
}

export async function copyText(text, told = "Copied") {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // No clipboard for pages over plain HTTP; the old way still works.
    byHand(text);
  }
  toast(told, { tone: "good", ms: 1_500 });
}

function byHand(text) {
  const field = h("textarea", {
    class: "offscreen",
    "aria-hidden": "true",
    value: text,
  });
  (document.querySelector("dialog[open]") ?? document.body).append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
}
