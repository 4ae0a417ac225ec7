// Flow graph: jobs in columns, those that wait for others to the right of them.

import { fill, h, setText, svg } from "../lib/dom.js";
import { number } from "../lib/format.js";
import { href } from "../lib/router.js";
import { stateBadge } from "./job-state.js";
import { keyedList } from "./keyed-list.js";

//: Size of a node and the gaps between nodes, in px; the sheet has the same.
const WIDTH = 184;
const HEIGHT = 64;
const GAP_X = 44;
const GAP_Y = 16;

//: Return {node, update(graph)}.  *menuOf(job)* returns a node with actions, or null.
export function flowGraph({ menuOf }) {
  const edges = svg("svg", { class: "flow-edges", "aria-hidden": "true" });
  const list = h("ul", { class: "flow-nodes" });
  const box = { class: "flow-graph", role: "region", "aria-label": "Graph", tabindex: 0 };
  const node = h("div", box, edges, list);
  const show = keyedList(list, ({ id }) => String(id), (one) => nodeView(one, menuOf));

  function update(graph) {
    const places = placed(graph);
    const width = Math.max(...[...places.values()].map(({ x }) => x)) + WIDTH;
    const height = Math.max(...[...places.values()].map(({ y }) => y)) + HEIGHT;
    list.style.width = `${width}px`;
    list.style.height = `${height}px`;
    edges.setAttribute("width", width);
    edges.setAttribute("height", height);
    const inOrder = [...graph.nodes].sort((a, b) => order(places, a, b));
    const parents = parentsOf(graph);
    show(inOrder.map((one) => ({ ...one, place: places.get(one.id), after: parents.get(one.id) })));
    fill(edges, graph.edges.map(([from, to]) => edge(places.get(from), places.get(to))));
  }

  return { node, update };
}

function order(places, a, b) {
  const [one, other] = [places.get(a.id), places.get(b.id)];
  return one.depth - other.depth || one.y - other.y;
}

function parentsOf({ nodes, edges }) {
  const parents = new Map(nodes.map(({ id }) => [id, []]));
  for (const [from, to] of edges) parents.get(to).push(from);
  return parents;
}

//: Where each node is: its column is the longest way to it, its row follows its parents.
function placed(graph) {
  const parents = parentsOf(graph);
  const depths = depthsOf(parents);
  const columns = [];
  for (const { id } of graph.nodes) (columns[depths.get(id)] ??= []).push(id);
  const tallest = Math.max(...columns.map((ids) => ids.length));
  const places = new Map();
  columns.forEach((ids, depth) => {
    const start = ((tallest - ids.length) * (HEIGHT + GAP_Y)) / 2;
    const wish = (id) => mean(parents.get(id).map((parent) => places.get(parent)?.y ?? 0));
    ids.sort((a, b) => wish(a) - wish(b) || a - b);
    ids.forEach((id, row) => {
      places.set(id, { x: depth * (WIDTH + GAP_X), y: start + row * (HEIGHT + GAP_Y), depth });
    });
  });
  return places;
}

function mean(values) {
  return values.length ? values.reduce((sum, one) => sum + one, 0) / values.length : 0;
}

function depthsOf(parents) {
  const depths = new Map();
  const pending = [...parents.keys()];
  // Each round places those whose parents are placed; what is left is in a cycle.
  for (let left = pending; left.length; ) {
    const next = left.filter((id) => !parents.get(id).every((one) => depths.has(one)));
    const ready = next.length === left.length ? left : left.filter((id) => !next.includes(id));
    for (const id of ready) {
      depths.set(id, Math.max(-1, ...parents.get(id).map((one) => depths.get(one) ?? -1)) + 1);
    }
    left = next.length === left.length ? [] : next;
  }
  return depths;
}

function edge(from, to) {
  const [x1, y1] = [from.x + WIDTH, from.y + HEIGHT / 2];
  const [x2, y2] = [to.x, to.y + HEIGHT / 2];
  const bend = GAP_X / 2;
  return svg("path", { d: `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}` });
}

function nodeView(first, menuOf) {
  const name = h("a", { class: "flow-type", href: href(`/jobs/${first.id}`) }, first.type);
  const id = h("span", { class: "faint" });
  const state = h("span");
  const after = h("span", { class: "flow-after faint" });
  const actions = h("span", { class: "flow-acts" });
  const node = h(
    "li",
    { class: "flow-node" },
    h("div", { class: "flow-head" }, name, actions),
    h("div", { class: "flow-foot" }, state, id, after),
  );
  let drawn = "";

  function update(one) {
    node.style.setProperty("--depth", String(one.place.depth));
    node.style.left = `${one.place.x}px`;
    node.style.top = `${one.place.y}px`;
    node.dataset.state = one.state;
    node.title = one.error || one.type;
    setText(id, one.count > 1 ? `${number(one.count)} jobs` : `#${one.id}`);
    setText(after, one.after.length ? `after ${one.after.map((at) => `#${at}`).join(", ")}` : "");
    const key = `${one.state} ${one.count}`;
    if (key === drawn) return;
    drawn = key;
    fill(state, stateBadge(one.state));
    fill(actions, menuOf(one));
  }

  return { node, update };
}
