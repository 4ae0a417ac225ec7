// The first page: is it healthy, told in five seconds.

import { chart } from "../components/chart.js";
import { empty } from "../components/empty.js";
import { panel } from "../components/panel.js";
import { spark } from "../components/spark.js";
import { states } from "../components/states.js";
import { tile } from "../components/tile.js";
import { api } from "../lib/api.js";
import { h } from "../lib/dom.js";
import { NOTHING, atMost, bytes, duration, number, rate, short } from "../lib/format.js";
import { column, full, history, throughput } from "../lib/history.js";
import { refresher } from "../lib/live.js";
import { href } from "../lib/router.js";
import { failures } from "./overview/failures.js";
import { glance } from "./overview/glance.js";
import { pulse } from "./overview/pulse.js";
import { warnings } from "./overview/warnings.js";
import { SAMPLE } from "./queues/sample.js";

const HOUR = 3_600_000;
const FAILURES = 6;
//: Milliseconds a job may wait before it is worth a colour.
const LONG_WAIT = 60_000;

export const page = {
  path: "/",
  title: "Overview",
  nav: { label: "Overview", icon: "overview", order: 10, key: "o" },

  mount(root, ctx) {
    const health = warnings({ onChange: () => read() });
    const tiles = makeTiles();
    const counts = states();
    const flow = chart({ title: "Jobs per minute, last hour", format: short, height: 200 });
    const queues = glance();
    const failed = failures();
    const start = h("div", { hidden: true }, welcome());
    const rest = h(
      "div",
      { class: "pile" },
      panel("Jobs by state", {}, counts.node),
      panel("Jobs per minute", { aside: more("/metrics", "Metrics") }, flow.node),
      h(
        "div",
        { class: "columns" },
        panel("Queues", { aside: more("/queues", "All queues"), tight: true }, queues.node),
        panel("Latest failures", { aside: more("/errors", "All errors") }, failed.node),
      ),
    );
    root.append(
      h("header", { class: "page-head" }, h("h1", null, "Overview"), health.verdict),
      health.node,
      start,
      h("div", { class: "tiles" }, tiles.nodes),
      rest,
    );

    async function read(signal) {
      const stats = await api.get("/stats", null, { signal });
      health.update(stats);
      tiles.update(stats);
      counts.update(stats.counts);
      const isEmpty = Object.values(stats.counts).every((count) => count === 0);
      start.hidden = !isEmpty || stats.rates.added > 0;
      rest.hidden = !start.hidden;
    }

    async function readLists(signal) {
      const wanted = { state: "failed", limit: FAILURES };
      const [all, { jobs }] = await Promise.all([
        api.get("/queues", null, { signal }),
        api.get("/jobs", wanted, { signal }),
      ]);
      queues.update(all);
      failed.update(jobs);
    }

    async function readPast(signal) {
      const past = await history({ length: HOUR }, signal);
      flow.update(throughput(past));
      tiles.past(full(past));
    }

    ctx.keys(queues.keys);
    const stops = [
      refresher(read, { minMs: 1_000, everyMs: 10_000 }),
      refresher(readLists, { minMs: 2_000, everyMs: 15_000 }),
      refresher(readPast, { minMs: 5_000, everyMs: 15_000 }),
      pulse(tiles.pulse),
    ];
    return () => {
      stops.forEach((stop) => stop());
      health.stop();
      flow.destroy();
    };
  },
};

// -- the numbers -----------------------------------------------------------------

const FLOWS = [
  { label: "In", name: "added", path: null },
  { label: "Out", name: "complete", path: "/jobs?state=complete" },
  { label: "Failing", name: "failed", path: "/errors" },
];

function makeTiles() {
  const flows = FLOWS.map(({ label, name, path }) => {
    const extra = spark({ label: `${label}, jobs per minute in the last hour`, format: short });
    return { name, line: extra, tile: tile({ label, path, extra: extra.node }) };
  });
  const oldest = tile({ label: "Oldest waiting", path: "/jobs?state=waiting&order=asc" });
  const latency = tile({ label: "Wait p95", path: "/metrics" });
  const workers = tile({ label: "Workers", path: "/workers" });
  const store = tile({ label: "Store" });

  let mean = null;
  let now = null;

  function flow() {
    for (const { name, tile: one } of flows) one.update(flowing(name, mean, now));
  }

  //: Show how much comes and goes right now; null when that is not known.
  function beat(rates) {
    now = rates;
    if (mean) flow();
  }

  function update(stats) {
    mean = stats.rates;
    flow();
    oldest.update(waiting(stats));
    latency.update(late(stats));
    workers.update(manned(stats.workers));
    store.update(stored(stats.store));
  }

  function past(of) {
    for (const { name, line } of flows) {
      line.update({ tone: name, values: column(of, name) });
    }
  }

  const rest = [oldest, latency, workers, store];
  const nodes = [...flows.map(({ tile: one }) => one.node), ...rest.map(({ node }) => node)];
  return { nodes, update, past, pulse: beat };
}

function flowing(name, mean, now) {
  const note = now ? `${rate(mean[name])} over 5 min` : "mean of 5 min";
  const current = (now ?? mean)[name];
  return { value: rate(current), note, tone: name === "failed" && current > 0 ? "bad" : "" };
}

function waiting(stats) {
  const ms = stats.oldest_waits_ms ?? stats.next_waits_ms;
  if (ms === null) return { value: NOTHING, note: "no waiting jobs" };
  const isLong = ms >= LONG_WAIT;
  const note = `${number(stats.counts.waiting)} waiting`;
  return { value: duration(ms), note, tone: isLong ? "warn" : "" };
}

function late({ latency, run_time: run }) {
  if (!latency) return { value: NOTHING, note: "nothing started lately" };
  const runs = run ? `, run p95 ${atMost(run.p95)}` : "";
  return { value: atMost(latency.p95), note: `p50 ${atMost(latency.p50)}${runs}` };
}

function manned({ alive, busy, lost }) {
  const note = `${number(busy)} busy, ${number(lost)} lost`;
  const tone = lost > 0 ? "bad" : alive === 0 ? "warn" : "";
  return { value: `${number(alive)} alive`, note, tone };
}

function stored({ engine, version, memory_bytes: memory, rtt_ms: rtt }) {
  const note = [engine, version].filter(Boolean).join(" ");
  if (typeof memory !== "number") {
    return { value: duration(rtt), note: `round trip, ${note}` };
  }
  return { value: bytes(memory), note: `${duration(rtt)} round trip, ${note}` };
}

function more(path, text) {
  return h("a", { class: "more", href: href(path) }, text);
}

function welcome() {
  return empty({
    title: "Nothing here yet",
    text: "No job has been added yet. This adds one, and a worker runs it:",
    code: SAMPLE,
  });
}
