// The workers that take jobs of a queue, and how many at once.

import { keyed } from "../../components/keyed.js";
import { panel } from "../../components/panel.js";
import { write } from "../../components/tile.js";
import { api } from "../../lib/api.js";
import { h } from "../../lib/dom.js";
import { number } from "../../lib/format.js";
import { href } from "../../lib/router.js";

//: Return {node, read(signal)}.
export function takers(type) {
  const list = h("ol", { class: "lines" });
  const none = h("p", { class: "faint" }, "No live worker takes its jobs.");
  const show = keyed(list, ({ name }) => name, entry(type));
  const all = h("a", { class: "more", href: href("/workers") }, "All workers");

  async function read(signal) {
    const { workers } = await api.get("/workers", null, { signal });
    const found = workers.filter(({ alive, slots }) => alive && takes(slots, type));
    none.hidden = found.length > 0;
    show(found);
  }

  return { node: panel("Workers", { aside: all }, none, list), read };
}

//: One that does not say what it takes may take anything.
function takes(slots, type) {
  return Object.keys(slots).length === 0 || Object.hasOwn(slots, type);
}

function entry(type) {
  return ({ name }) => {
    const runs = h("span");
    const state = h("span", { class: "faint" });
    const node = h("li", null, h("b", null, name), runs, state);

    function update({ slots, running, paused }) {
      const count = running.filter((run) => run.type === type).length;
      const of = slots[type] === undefined ? "" : ` of ${number(slots[type])}`;
      write(runs, `${number(count)}${of} running`);
      write(state, paused ? "quiet" : "");
    }

    return { node, update };
  };
}
