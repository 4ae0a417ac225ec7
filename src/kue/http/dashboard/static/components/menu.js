// Drop-down menus.

import { fill, h } from "../lib/dom.js";
import { icon } from "./icon.js";

//: A menu: *content()* returns its nodes and is called each time it opens.
//:
//: Choosing an item closes it, unless the item is inside an element with data-stay.
//: *lead* is an icon that replaces the label on phones.
export function menu(
  label,
  content,
  { name = label, iconName = "down", end = false, lead = null } = {},
) {
  const list = h("div", { class: end ? "menu-list menu-end" : "menu-list" });
  const summary = h(
    "summary",
    { class: "button", role: "button", "aria-label": name, "aria-expanded": "false" },
    lead && h("span", { class: "menu-lead" }, icon(lead)),
    h("span", { class: "menu-label" }, label),
    icon(iconName),
  );
  const handlers = { ontoggle: onToggle, onkeydown: onKeydown };
  const node = h("details", { class: "menu", ...handlers }, summary, list);

  function onToggle() {
    summary.setAttribute("aria-expanded", String(node.open));
    if (node.open) fill(list, content());
    if (node.open) document.addEventListener("pointerdown", onPointerdown);
    else document.removeEventListener("pointerdown", onPointerdown);
  }

  function onPointerdown(event) {
    if (!node.contains(event.target)) node.open = false;
  }

  function onKeydown(event) {
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

//: One item of a menu; *run* is called when it is chosen.
export function menuItem(label, run, { danger = false, hint = "" } = {}) {
  return h(
    "button",
    { type: "button", class: danger ? "menu-item danger" : "menu-item", onclick: run },
    label,
    hint && h("span", { class: "hint" }, hint),
  );
}
