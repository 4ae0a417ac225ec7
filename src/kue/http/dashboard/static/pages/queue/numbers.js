// The numbers of one queue.

import { tile } from "../../components/tile.js";
import { NOTHING, atMost, duration, number, rate } from "../../lib/format.js";

//: Each says what it shows of a queue; null when the server does not tell.
const TILES = [
  { label: "Waiting", of: waiting },
  { label: "In", of: ({ rates }) => ({ value: rate(rates.added) }) },
  { label: "Out", of: ({ rates }) => ({ value: rate(rates.complete) }) },
  { label: "Failing", of: failing },
  { label: "Wait p95", of: ({ latency }) => times(latency) },
  { label: "Run p95", of: ({ run_time: run }) => times(run) },
  { label: "Drained in", of: drained },
];

//: Return {nodes, update(queue)}.
export function numbers() {
  const tiles = TILES.map(({ label, of }) => ({ of, ...tile({ label }) }));

  function update(queue) {
    for (const { of, node, update: show } of tiles) {
      const told = of(queue);
      node.hidden = told === null;
      if (told !== null) show(told);
    }
  }

  return { nodes: tiles.map(({ node }) => node), update };
}

function waiting({ counts, next_waits_ms: ms }) {
  const note = ms === null || ms === undefined ? "" : `next waits ${duration(ms)}`;
  return { value: number(counts.waiting), note };
}

function failing({ rates }) {
  return { value: rate(rates.failed), tone: rates.failed > 0 ? "bad" : "" };
}

function times(told) {
  if (told === undefined) return null;
  if (told === null) return { value: NOTHING, note: "none lately" };
  const { p50, p95, p99 } = told;
  return { value: atMost(p95), note: `p50 ${atMost(p50)}, p99 ${atMost(p99)}` };
}

function drained({ drain_ms: ms, counts }) {
  if (ms === undefined) return null;
  if (counts.waiting === 0) return { value: NOTHING, note: "nothing waits" };
  if (ms === null) return { value: NOTHING, note: "not at this pace", tone: "warn" };
  return { value: duration(ms), note: "at the current pace" };
}
