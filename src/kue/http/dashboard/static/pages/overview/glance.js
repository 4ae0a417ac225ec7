// The queues that have most to do, on the first page.

import { table } from "../../components/table.js";
import { part } from "../../lib/api.js";
import { h } from "../../lib/dom.js";
import { atMost, number, rate } from "../../lib/format.js";
import { href } from "../../lib/router.js";
import { marks } from "../queues/marks.js";

const SHOWN = 8;
const NUMBERS = [
  { key: "waiting", label: "Waiting", render: ({ counts }) => number(counts.waiting) },
  { key: "active", label: "Active", render: ({ counts }) => number(counts.active) },
  { key: "failed", label: "Failed", render: ({ counts }) => number(counts.failed) },
  { key: "out", label: "Out", render: ({ rates }) => rate(rates.complete) },
  { key: "wait", label: "Wait p95", render: ({ latency }) => atMost(latency?.p95) },
];

//: Return {node, update({queues, total}), keys}.
export function glance() {
  const shown = table({
    caption: "Busiest queues",
    key: ({ type }) => type,
    link: ({ type }) => `/queues/${part(type)}`,
    columns: [
      { key: "type", label: "Queue", render: name },
      ...NUMBERS.map((column) => ({ ...column, end: true })),
    ],
  });

  shown.node.classList.add("carded", "carded-flat");
  const rest = h("p", { class: "glance-rest faint", hidden: true });

  function update({ queues, total }) {
    const busiest = [...queues].sort((a, b) => load(b) - load(a)).slice(0, SHOWN);
    // By name, so that rows do not change places while one reads.
    shown.update(busiest.sort((a, b) => (a.type < b.type ? -1 : 1)));
    rest.hidden = total <= busiest.length;
    const looked = queues.length < total ? ` the first ${number(queues.length)} of` : "";
    rest.textContent = `The busiest of${looked} ${number(total)} queues`;
  }

  return { node: h("div", null, shown.node, rest), update, keys: shown.keys };
}

function load({ counts }) {
  return counts.waiting + counts.active + counts.delayed + counts.blocked;
}

function name(queue) {
  const link = h("a", { href: href(`/queues/${part(queue.type)}`) }, queue.type);
  return h("span", { class: "named" }, link, marks(queue));
}
