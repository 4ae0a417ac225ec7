// The numbers of one queue.

import { tile } from "../../components/tile.js";
import { NOTHING, atMost, duration, number, rate } from "../../lib/format.js";

//: Each with what it shows of a queue.
const TILES = [
  { label: "Waiting", of: waiting },
  { label: "In", of: ({ rates }) => ({ value: rate(rates.added) }) },
  { label: "Out", of: ({ rates }) => ({ value: rate(rates.complete) }) },
  { label: "Failing", of: failing },
  { label: "Wait p95", of: ({ latency }) => times(latency) },
  { label: "Run p95", of: ({ run_time: run }) => times(run) },
  { label: "Time to drain", of: drained },
];

//: Return {nodes, update(queue)}.
export function numbers() {
  const tiles = TILES.map(({ label, of }) => ({ of, ...tile({ label }) }));

  function update(queue) {
    for (const { of, update: show } of tiles) show(of(queue));
  }

  return { nodes: tiles.map(({ node }) => node), update };
}

function waiting({ counts, next_waits_ms: ms }) {
  const note = ms === null ? "" : `next waits ${duration(ms)}`;
  return { value: number(counts.waiting), note };
}

function failing({ rates }) {
  return { value: rate(rates.failed), tone: rates.failed > 0 ? "bad" : "" };
}

function times(found) {
  if (found === null) return { value: NOTHING, note: "none lately" };
  const { p50, p95, p99 } = found;
  return { value: atMost(p95), note: `p50 ${atMost(p50)}, p99 ${atMost(p99)}` };
}

function drained({ drain_ms: ms, counts }) {
  if (counts.waiting === 0) return { value: NOTHING, note: "no waiting jobs" };
  if (ms === null) return { value: NOTHING, note: "not at the current pace", tone: "warn" };
  return { value: duration(ms), note: "at the current pace" };
}
