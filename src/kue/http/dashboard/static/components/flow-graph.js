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
//: Places for edges that pass columns; further ones are drawn straight, behind the nodes.
const MAX_PASSING = 300;

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
    fill(edges, graph.edges.map(([from, to]) => edge(places, from, to)));
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
//: Edges that pass columns have a place in each of them, too, so that no node covers them.
function placed(graph) {
  const parents = parentsOf(graph);
  const depths = depthsOf(parents);
  const columns = [];
  const passing = new Set();
  const put = (depth, part) => (columns[depth] ??= []).push(part);

  //: The key of what is right before *depth* on the way from *parent*.
  function before(parent, depth) {
    if (depths.get(parent) >= depth - 1) return parent;
    const key = passingKey(parent, depth - 1);
    if (!passing.has(key)) {
      if (passing.size >= MAX_PASSING) return parent;
      passing.add(key);
      put(depth - 1, { key, id: parent, height: 0, after: [before(parent, depth - 1)] });
    }
    return key;
  }

  for (const { id } of graph.nodes) {
    const depth = depths.get(id);
    const after = parents.get(id).map((parent) => before(parent, depth));
    put(depth, { key: id, id, height: HEIGHT, after });
  }
  const heights = columns.map((parts) => sum(parts.map(({ height }) => height + GAP_Y)));
  const tallest = Math.max(...heights);
  const places = new Map();
  columns.forEach((parts, depth) => {
    const middle = (key) => (places.has(key) ? places.get(key).middle : 0);
    const wishes = new Map(parts.map(({ key, after }) => [key, mean(after.map(middle))]));
    parts.sort((a, b) => wishes.get(a.key) - wishes.get(b.key) || a.id - b.id);
    let y = (tallest - heights[depth]) / 2;
    for (const { key, height } of parts) {
      places.set(key, { x: depth * (WIDTH + GAP_X), y, middle: y + height / 2, depth });
      y += height + GAP_Y;
    }
  });
  return places;
}

function passingKey(parent, depth) {
  return `${parent} passes ${depth}`;
}

function sum(values) {
  return values.reduce((total, one) => total + one, 0);
}

function mean(values) {
  return values.length ? sum(values) / values.length : 0;
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

function edge(places, from, to) {
  const [start, end] = [places.get(from), places.get(to)];
  let [x, y] = [start.x + WIDTH, start.middle];
  let d = `M${x} ${y}`;
  for (let depth = start.depth + 1; depth <= end.depth; depth++) {
    const next = depth < end.depth ? places.get(passingKey(from, depth)) : end;
    if (!next) continue;
    d += curve(x, y, next.x, next.middle);
    [x, y] = [next.x + WIDTH, next.middle];
    if (depth < end.depth) d += `H${x}`;
  }
  // In a cycle an edge may lead back.
  if (end.depth <= start.depth) d += curve(x, y, end.x, end.middle);
  return svg("path", { d });
}

function curve(x1, y1, x2, y2) {
  const bend = GAP_X / 2;
  return `C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`;
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
