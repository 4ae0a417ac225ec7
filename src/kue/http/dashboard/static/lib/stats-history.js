// Metrics history, step by step, as chart data.

import { api } from "./api.js";

const MINUTE = 60_000;
const STEPS = { minute: MINUTE, hour: 60 * MINUTE, day: 24 * 60 * MINUTE };
const PERCENTILES = ["p50", "p95", "p99"];

//: Return {times, step, points, isOpen} of the last *length* ms, of all types or of one.
//:
//: *fold* merges that many steps into one: counts are summed, of percentiles the worst is
//: kept.  The last step is still in progress if isOpen.
export async function history({ step = "minute", length, fold = 1, type = null }, signal) {
  const size = STEPS[step] * fold;
  const now = Date.now();
  const params = { step, type, since: Math.max(0, now - length) };
  const found = await read(params, signal);
  const points = folded(found.points, size);
  const times = points.map(({ at }) => at);
  return { times, step: size, points, isOpen: times.at(-1) + size > now };
}

//: The same without the step in progress, which would look like a drop.
export function finished(past) {
  if (!past.isOpen) return past;
  const [times, points] = [past.times.slice(0, -1), past.points.slice(0, -1)];
  return { ...past, times, points, isOpen: false };
}

async function read(params, signal) {
  try {
    return await api.get("/stats/history", params, { signal });
  } catch (error) {
    // A queue that was only configured has had no job yet.
    if (!error.isMissing) throw error;
    return { points: [] };
  }
}

function folded(points, size) {
  const steps = new Map();
  for (const point of points) {
    const at = point.at - (point.at % size);
    steps.set(at, steps.has(at) ? merged(steps.get(at), point) : { ...point, at });
  }
  return [...steps.values()];
}

function merged(one, other) {
  const sums = ["added", "complete", "failed", "run_ms"].map((name) => [
    name,
    one[name] + other[name],
  ]);
  const worst = ["wait", "run"].map((name) => [name, higher(one[name], other[name])]);
  return { at: one.at, ...Object.fromEntries([...sums, ...worst]) };
}

function higher(one, other) {
  if (!one || !other) return one ?? other;
  return Object.fromEntries(
    PERCENTILES.map((which) => [which, Math.max(one[which], other[which])]),
  );
}

//: One field of each point.
export function valuesOf({ points }, name) {
  return points.map((point) => point[name] ?? 0);
}

//: One field of each point, per second.
export function perSecond(past, name) {
  return valuesOf(past, name).map((count) => (count * 1000) / past.step);
}

//: Chart data: jobs added, completed and failed.
export function throughput(past) {
  return {
    ...timeAxis(past),
    series: [
      { name: "complete", tone: "complete", kind: "bars", values: valuesOf(past, "complete") },
      { name: "failed", tone: "failed", kind: "bars", values: valuesOf(past, "failed") },
      { name: "added", tone: "added", kind: "line", values: valuesOf(past, "added") },
    ],
  };
}

//: Chart data: percentiles of "wait" or "run".
function percentiles(past, name) {
  const series = PERCENTILES.map((which) => ({
    name: which,
    tone: which,
    kind: "line",
    values: percentile(past, name, which),
  }));
  return { ...timeAxis(past), series };
}

//: Chart data without its series.
function timeAxis({ times, step, isOpen }) {
  return { times, step, isOpen };
}

//: One percentile of "wait" or "run" in each step; null where nothing was measured.
function percentile({ points }, name, which) {
  return points.map((point) => point[name]?.[which] ?? null);
}

// -- all charts at once -----------------------------------------------------------

//: Return {flow, failures, wait, run}, each the data of a chart.
export function combinedCharts(past) {
  return {
    flow: throughput(past),
    failures: {
      ...timeAxis(past),
      series: [
        { name: "failed", tone: "failed", kind: "bars", values: valuesOf(past, "failed") },
      ],
    },
    wait: percentiles(past, "wait"),
    run: percentiles(past, "run"),
  };
}

//: The same with a line per queue; *pasts* are histories in the order of *types*.
export function comparedCharts(types, pasts) {
  const longest = pasts.reduce((a, b) => (b.times.length > a.times.length ? b : a));
  const lines = (of) => ({
    ...timeAxis(longest),
    series: types.map((name, index) => ({
      name,
      tone: String(index + 1),
      kind: "line",
      values: aligned(pasts[index], longest.times, of(pasts[index])),
    })),
  });
  return {
    flow: lines((past) => valuesOf(past, "complete")),
    failures: lines((past) => valuesOf(past, "failed")),
    wait: lines((past) => percentile(past, "wait", "p95")),
    run: lines((past) => percentile(past, "run", "p95")),
  };
}

//: Return the sums over the whole time: {added, complete, failed}.
export function totals(pasts) {
  const sum = (name) =>
    pasts
      .flatMap((past) => valuesOf(past, name))
      .reduce((total, count) => total + count, 0);
  return { added: sum("added"), complete: sum("complete"), failed: sum("failed") };
}

// Requested one after the other, histories may begin a step apart.
function aligned(past, times, values) {
  if (past.times[0] === times[0] && past.times.length === times.length) return values;
  const byTime = new Map(past.times.map((at, index) => [at, values[index]]));
  return times.map((at) => byTime.get(at) ?? null);
}
