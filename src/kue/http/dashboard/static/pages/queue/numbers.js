// The numbers of one queue.

import { parted, perSecond, tile } from "../../components/tile.js";
import { NOTHING, duration, number } from "../../lib/format.js";

//: Each says what it shows of a queue; null when the server does not tell.
const TILES = [
  { label: "Waiting", of: waiting },
  { label: "In", of: ({ rates }) => perSecond(rates.added) },
  { label: "Out", of: ({ rates }) => perSecond(rates.complete) },
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
  return { ...perSecond(rates.failed), tone: rates.failed > 0 ? "bad" : "" };
}

function times(told) {
  if (told === undefined) return null;
  if (told === null) return { value: NOTHING, note: "none lately" };
  const { p50, p95, p99 } = told;
  return { ...parted(duration(p95)), note: `p50 ${duration(p50)}, p99 ${duration(p99)}` };
}

function drained({ drain_ms: ms, counts }) {
  if (ms === undefined) return null;
  if (counts.waiting === 0) return { value: NOTHING, note: "nothing waits" };
  if (ms === null) return { value: NOTHING, note: "not at this pace", tone: "warn" };
  return { ...parted(duration(ms)), note: "if it goes on like this" };
}
