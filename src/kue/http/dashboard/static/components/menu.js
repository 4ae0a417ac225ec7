// A button that shows more when asked to.

import { fill, h } from "../lib/dom.js";
import { icon } from "./icon.js";

//: A menu: *content()* gives the nodes it shows, anew each time it opens.
//:
//: What is chosen in it closes it, unless it is inside something marked data-stay.
//: *lead* is an icon that stands for the label on phones.
export function menu(
  label,
  content,
  { name = label, glyph = "down", end = false, lead = null } = {},
) {
  const list = h("div", { class: end ? "menu-list menu-end" : "menu-list" });
  const summary = h(
    "summary",
    { class: "button", role: "button", "aria-label": name, "aria-expanded": "false" },
    lead && h("span", { class: "menu-lead" }, icon(lead)),
    h("span", { class: "menu-label" }, label),
    icon(glyph),
  );
  const listen = { ontoggle: turn, onkeydown: leave };
  const node = h("details", { class: "menu", ...listen }, summary, list);

  function turn() {
    summary.setAttribute("aria-expanded", String(node.open));
    if (node.open) fill(list, content());
    if (node.open) document.addEventListener("pointerdown", outside);
    else document.removeEventListener("pointerdown", outside);
  }

  function outside(event) {
    if (!node.contains(event.target)) node.open = false;
  }

  function leave(event) {
    if (event.key !== "Escape" || !node.open) return;
    event.preventDefault();
    event.stopPropagation();
    node.open = false;
    summary.focus();
  }

  list.addEventListener("click", (event) => {
    const isChosen = event.target.closest("button, a") && !event.target.closest("[data-stay]");
    if (isChosen) node.open = false;
  });
  return { node, close: () => (node.open = false) };
}

//: One line of a menu; *run* is called when it is chosen.
export function menuItem(label, run, { danger = false, hint = "" } = {}) {
  return h(
    "button",
    { type: "button", class: danger ? "menu-item danger" : "menu-item", onclick: run },
    label,
    hint && h("span", { class: "hint" }, hint),
  );
}
