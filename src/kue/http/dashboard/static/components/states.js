// How many jobs are in each state: a bar in proportion, and links with the numbers.

import { h } from "../lib/dom.js";
import { number } from "../lib/format.js";
import { href } from "../lib/router.js";
import { STATES } from "./state.js";
import { write } from "./tile.js";

//: Return {node, update(counts)}; type narrows the links to one queue.
export function states({ type = null } = {}) {
  const parts = new Map();
  const numbers = new Map();
  const bar = h("div", { class: "states-bar", "aria-hidden": "true" });
  const list = h("ul", { class: "states-list" });
  for (const state of STATES) {
    const part = h("span", { class: `states-part tone-${state}` });
    const count = h("span", { class: "states-number" }, "–");
    parts.set(state, part);
    numbers.set(state, count);
    bar.append(part);
    list.append(h("li", {}, h("a", { href: jobsPath(state, type) }, mark(state), count)));
  }

  function update(counts) {
    for (const state of STATES) {
      const count = counts[state] ?? 0;
      const part = parts.get(state);
      part.hidden = count === 0;
      part.style.flexGrow = String(count);
      write(numbers.get(state), number(count));
    }
  }

  return { node: h("div", { class: "states" }, bar, list), update };
}

//: Return the address of the jobs in one state, of one type if one is given.
export function jobsPath(state, type = null) {
  const query = new URLSearchParams({ state });
  if (type !== null) {
    query.set("type", type);
  }
  return href(`/jobs?${query}`);
}

function mark(state) {
  return h(
    "span",
    { class: "states-name" },
    h("span", { class: `swatch tone-${state}` }),
    state,
  );
}
