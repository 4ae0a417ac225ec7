// Panel: a card with a heading.

import { h } from "../lib/dom.js";

//: panel("Workers", {aside: link}, list); *aside* is shown at the other end of the
//: heading, *tight* removes the padding of the body.
export function panel(title, { aside = null, tight = false } = {}, ...body) {
  const end = aside && h("span", { class: "aside" }, aside);
  return h(
    "section",
    { class: ["card", "panel", tight && "panel-tight"], "aria-label": title },
    h("header", { class: "card-head" }, h("h2", null, title), end),
    h("div", { class: "card-body" }, body),
  );
}
