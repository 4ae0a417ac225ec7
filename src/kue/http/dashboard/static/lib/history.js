// What happened, step by step, as charts want it.

import { api } from "./api.js";

const MINUTE = 60_000;
const STEPS = { minute: MINUTE, hour: 60 * MINUTE, day: 24 * 60 * MINUTE };
const PERCENTILES = ["p50", "p95", "p99"];

//: Return {times, step, points} of the last *length* ms, of all types or of one.
//:
//: The step that is under way is left out: its numbers would look like a fall.
export async function history({ step = "minute", length, type = null }, signal) {
  const size = STEPS[step];
  const now = Date.now();
  const params = { step, type, since: Math.max(0, now - length) };
  const found = await api.get("/stats/history", params, { signal });
  const last = found.until - (found.until % size);
  const points = found.points.filter(({ at }) => at < last);
  return { times: points.map(({ at }) => at), step: size, points };
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
    times: past.times,
    step: past.step,
    series: [
      { name: "complete", tone: "complete", kind: "bars", values: column(past, "complete") },
      { name: "failed", tone: "failed", kind: "bars", values: column(past, "failed") },
      { name: "added", tone: "added", kind: "line", values: column(past, "added") },
    ],
  };
}

//: What a chart of "wait" or "run" shows; null where the server does not tell.
export function percentiles(past, name) {
  if (!past.points.some((point) => name in point)) return null;
  const series = PERCENTILES.map((which) => ({
    name: which,
    tone: which,
    kind: "line",
    values: percentile(past, name, which),
  }));
  return { times: past.times, step: past.step, series };
}

//: One percentile of "wait" or "run", step by step; null where nothing was measured.
export function percentile({ points }, name, which) {
  return points.map((point) => point[name]?.[which] ?? null);
}
