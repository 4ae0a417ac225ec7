// What happened, step by step, as charts want it.

import { api } from "./api.js";

const MINUTE = 60_000;
const STEPS = { minute: MINUTE, hour: 60 * MINUTE, day: 24 * 60 * MINUTE };
const PERCENTILES = ["p50", "p95", "p99"];

//: Return {times, step, points, isOpen} of the last *length* ms, of all types or of one.
//:
//: *fold* makes one of so many steps: sums of what is counted, and the worst of what is
//: measured.  The last step is under way if isOpen.
export async function history({ step = "minute", length, fold = 1, type = null }, signal) {
  const size = STEPS[step] * fold;
  const now = Date.now();
  const params = { step, type, since: Math.max(0, now - length) };
  const found = await read(params, signal);
  const points = folded(found.points, size);
  const times = points.map(({ at }) => at);
  return { times, step: size, points, isOpen: times.at(-1) + size > now };
}

//: The same without the step that is under way, which would look like a fall.
export function full(past) {
  if (!past.isOpen) return past;
  const [times, points] = [past.times.slice(0, -1), past.points.slice(0, -1)];
  return { ...past, times, points, isOpen: false };
}

async function read(params, signal) {
  try {
    return await api.get("/stats/history", params, { signal });
  } catch (error) {
    // A queue that is only set up has had no job yet.
    if (!error.isMissing) throw error;
    return { points: [] };
  }
}

function folded(points, size) {
  const found = new Map();
  for (const point of points) {
    const at = point.at - (point.at % size);
    found.set(at, found.has(at) ? joined(found.get(at), point) : { ...point, at });
  }
  return [...found.values()];
}

function joined(one, other) {
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

//: One number of each point.
export function column({ points }, name) {
  return points.map((point) => point[name] ?? 0);
}

//: One number of each point, by the second.
export function perSecond(past, name) {
  return column(past, name).map((count) => (count * 1000) / past.step);
}

//: What a chart of everything that came and went shows.
export function throughput(past) {
  return {
    ...frame(past),
    series: [
      { name: "complete", tone: "complete", kind: "bars", values: column(past, "complete") },
      { name: "failed", tone: "failed", kind: "bars", values: column(past, "failed") },
      { name: "added", tone: "added", kind: "line", values: column(past, "added") },
    ],
  };
}

//: What a chart of "wait" or "run" shows.
export function percentiles(past, name) {
  const series = PERCENTILES.map((which) => ({
    name: which,
    tone: which,
    kind: "line",
    values: percentile(past, name, which),
  }));
  return { ...frame(past), series };
}

//: What charts need to know besides their series.
export function frame({ times, step, isOpen }) {
  return { times, step, isOpen };
}

//: One percentile of "wait" or "run", step by step; null where nothing was measured.
export function percentile({ points }, name, which) {
  return points.map((point) => point[name]?.[which] ?? null);
}
