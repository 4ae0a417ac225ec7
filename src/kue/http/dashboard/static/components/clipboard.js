// Copy text to the clipboard.

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

export async function copyText(text, message = "Copied") {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Pages over plain HTTP have no clipboard API; execCommand still works.
    copySelection(text);
  }
  toast(message, { tone: "good", ms: 1_500 });
}

function copySelection(text) {
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
