// Job states: badges with colour, icon and name (never colour alone), and counts.

import { h, setText } from "../lib/dom.js";
import { number } from "../lib/format.js";
import { href } from "../lib/router.js";
import { icon } from "./icon.js";

export const STATES = [
  "waiting",
  "active",
  "delayed",
  "blocked",
  "complete",
  "failed",
  "cancelled",
];
//: States of finished jobs.
export const FINAL = ["complete", "failed", "cancelled"];

//: The badge of a state.
export function stateBadge(state) {
  const name = STATES.includes(state) ? state : "unknown";
  return h(
    "span",
    { class: "state", dataset: { state: name } },
    icon(name),
    String(state),
  );
}

// -- counts by state --------------------------------------------------------------

//: A bar in proportion, and links with the counts.  Returns {node, update(counts)}; type
//: limits the links to one queue.
export function stateCounts({ type = null } = {}) {
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
      setText(numbers.get(state), number(count));
    }
  }

  return { node: h("div", { class: "states" }, bar, list), update };
}

//: The address of the jobs in one state, of one type if given.
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
