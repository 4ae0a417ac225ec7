// Modal dialogs and confirmations.

import { h, uid } from "../lib/dom.js";
import { icon } from "./icon.js";

//: Show a dialog; *body* is nodes, *actions* are nodes for its footer.  Returns {node,
//: close(value), closed: Promise of value, undefined when it was dismissed}.
export function openDialog({ title, body, actions = null, wide = false }) {
  const name = uid("dialog");
  let value;
  const node = h(
    "dialog",
    { class: wide ? "wide" : "", "aria-labelledby": name },
    h(
      "header",
      null,
      h("h2", { id: name }, title),
      h(
        "button",
        { class: "plain", "aria-label": "Close", onclick: () => close() },
        icon("cross"),
      ),
    ),
    h("div", { class: "dialog-body" }, body),
    actions && h("footer", null, actions),
  );
  function close(given) {
    value = given;
    node.close();
  }
  const closed = new Promise((resolve) => {
    node.addEventListener("close", () => {
      node.remove();
      resolve(value);
    });
  });
  // A click on the backdrop dismisses it.
  let isOutside = false;
  node.addEventListener("pointerdown", (event) => (isOutside = event.target === node));
  node.addEventListener("click", (event) => {
    if (isOutside && event.target === node) close();
  });
  document.body.append(node);
  node.showModal();
  return { node, close, closed };
}

//: Ask for a confirmation; returns a promise of true or false.
export async function confirm({ title, text = "", action = "OK", danger = false }) {
  const dialog = openDialog({
    title,
    body: h("p", null, text),
    actions: [
      h("button", { onclick: () => dialog.close(false) }, "Cancel"),
      h(
        "button",
        {
          class: danger ? "danger" : "primary",
          autofocus: true,
          onclick: () => dialog.close(true),
        },
        action,
      ),
    ],
  });
  dialog.node.querySelector("footer button:last-child").focus();
  return (await dialog.closed) === true;
}

//: Confirm something that cannot be undone: *word* must be typed.
export async function confirmTyping({ title, text = "", word, action = title }) {
  const name = uid("word");
  const input = h("input", {
    id: name,
    autocomplete: "off",
    autocapitalize: "off",
    spellcheck: "false",
    oninput: () => (button.disabled = input.value !== word),
  });
  const button = h(
    "button",
    { class: "danger", type: "submit", disabled: true },
    action,
  );
  const form = h(
    "form",
    {
      id: `${name}-form`,
      onsubmit: (event) => {
        event.preventDefault();
        if (input.value === word) dialog.close(true);
      },
    },
    text && h("p", null, text),
    h("label", { for: name }, "Type ", h("code", null, word), " to continue"),
    input,
  );
  button.setAttribute("form", form.id);
  const dialog = openDialog({
    title,
    body: form,
    actions: [h("button", { onclick: () => dialog.close(false) }, "Cancel"), button],
  });
  input.focus();
  return (await dialog.closed) === true;
}
