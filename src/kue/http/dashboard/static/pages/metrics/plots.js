// What the charts of the metrics page show: of everything, or of queues side by side.

import { column, frame, percentile, percentiles, throughput } from "../../lib/history.js";

//: Return {flow, failures, wait, run}, each what a chart takes.
export function together(past) {
  return {
    flow: throughput(past),
    failures: {
      ...frame(past),
      series: [
        { name: "failed", tone: "failed", kind: "bars", values: column(past, "failed") },
      ],
    },
    wait: percentiles(past, "wait"),
    run: percentiles(past, "run"),
  };
}

//: The same with a line for each queue; *pasts* are histories in the order of *types*.
export function sideBySide(types, pasts) {
  const longest = pasts.reduce((a, b) => (b.times.length > a.times.length ? b : a));
  const lines = (of) => ({
    ...frame(longest),
    series: types.map((name, index) => ({
      name,
      tone: String(index + 1),
      kind: "line",
      values: aligned(pasts[index], longest.times, of(pasts[index])),
    })),
  });
  return {
    flow: lines((past) => column(past, "complete")),
    failures: lines((past) => column(past, "failed")),
    wait: lines((past) => percentile(past, "wait", "p95")),
    run: lines((past) => percentile(past, "run", "p95")),
  };
}

//: Return what happened in all of the time: {added, complete, failed}.
export function totals(pasts) {
  const sum = (name) =>
    pasts
      .flatMap((past) => column(past, name))
      .reduce((total, count) => total + count, 0);
  return { added: sum("added"), complete: sum("complete"), failed: sum("failed") };
}

// Asked one after the other, histories may begin a step apart.
function aligned(past, times, values) {
  if (past.times[0] === times[0] && past.times.length === times.length) return values;
  const byTime = new Map(past.times.map((at, index) => [at, values[index]]));
  return times.map((at) => byTime.get(at) ?? null);
}
