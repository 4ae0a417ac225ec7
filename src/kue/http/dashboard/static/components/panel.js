// A card with a heading, and whatever goes with the heading at its other end.

import { h } from "../lib/dom.js";

//: panel("Workers", {aside: link}, list); a tight one leaves no room around its body.
export function panel(title, { aside = null, tight = false } = {}, ...body) {
  const end = aside && h("span", { class: "aside" }, aside);
  return h(
    "section",
    { class: ["card", "panel", tight && "panel-tight"], "aria-label": title },
    h("header", { class: "card-head" }, h("h2", null, title), end),
    h("div", { class: "card-body" }, body),
  );
}
