// Overview page: health, rates, counts, busiest queues and latest failures.

import { chart } from "../components/chart.js";
import { FIRST_JOB, emptyState } from "../components/empty-state.js";
import { stateCounts } from "../components/job-state.js";
import { keyedList } from "../components/keyed-list.js";
import { panel } from "../components/panel.js";
import { sparkline } from "../components/sparkline.js";
import { table } from "../components/table.js";
import { tile } from "../components/tile.js";
import { api, pathSegment } from "../lib/api.js";
import { h } from "../lib/dom.js";
import {
  NO_VALUE,
  atMost,
  bytes,
  duration,
  nameAndQueue,
  number,
  rate,
  short,
  timeAgo,
} from "../lib/format.js";
import { finished, history, throughput, valuesOf } from "../lib/stats-history.js";
import { live, refresher } from "../lib/live.js";
import { href } from "../lib/router.js";
import { monitoredTags } from "./overview/tags.js";
import { warnings } from "./overview/warnings.js";
import { queueBadges } from "./queues/badges.js";

const HOUR = 3_600_000;
const MAX_FAILURES = 6;
//: Failed jobs read to find those that are not silenced.
const MAX_READ = 100;
//: Milliseconds of waiting from which the tile is highlighted.
const LONG_WAIT = 60_000;

export const page = {
  path: "/",
  title: "Overview",
  nav: { label: "Overview", icon: "overview", order: 10, key: "o" },

  mount(root, ctx) {
    const health = warnings({ onChange: () => read() });
    const tiles = makeTiles();
    const counts = stateCounts();
    const flow = chart({ title: "Jobs per minute, last hour", format: short, height: 200 });
    const queues = busiestQueues();
    const failed = latestFailures();
    const tags = monitoredTags();
    const welcomeNote = h("div", { hidden: true }, welcome());
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
      tags.node,
    );
    root.append(
      h("header", { class: "page-head" }, h("h1", null, "Overview"), health.verdict),
      health.node,
      welcomeNote,
      h("div", { class: "tiles" }, tiles.nodes),
      rest,
    );

    async function read(signal) {
      const stats = await api.get("/stats", null, { signal });
      health.update(stats);
      tiles.update(stats);
      counts.update(stats.counts);
      const isEmpty = Object.values(stats.counts).every((count) => count === 0);
      welcomeNote.hidden = !isEmpty || stats.rates.added > 0;
      rest.hidden = !welcomeNote.hidden;
    }

    function readFailures(limit, signal) {
      return api.get("/jobs", { state: "failed", limit }, { signal });
    }

    async function readLists(signal) {
      const [{ silenced }, all, newest] = await Promise.all([
        api.get("/alerts", null, { signal }),
        api.get("/queues", null, { signal }),
        readFailures(MAX_FAILURES, signal),
        tags.read(signal),
      ]);
      const isFiltered = silenced.types.length + silenced.tags.length > 0;
      const { jobs } = isFiltered ? await readFailures(MAX_READ, signal) : newest;
      queues.update({
        ...all,
        queues: all.queues.filter(({ type }) => !silenced.types.includes(type)),
      });
      failed.update(jobs.filter((job) => !isSilenced(job, silenced)).slice(0, MAX_FAILURES));
    }

    async function readPast(signal) {
      const past = await history({ length: HOUR }, signal);
      flow.update(throughput(past));
      tiles.past(finished(past));
    }

    ctx.keys(queues.keys);
    const stops = [
      refresher(read, { minMs: 1_000, everyMs: 10_000 }),
      refresher(readLists, { minMs: 2_000, everyMs: 15_000 }),
      refresher(readPast, { minMs: 5_000, everyMs: 15_000 }),
      liveRates(tiles.updateRates),
    ];
    return () => {
      stops.forEach((stop) => stop());
      health.stop();
      flow.destroy();
    };
  },
};

// -- tiles ------------------------------------------------------------------------

const RATE_TILES = [
  { label: "In", name: "added", path: null },
  { label: "Out", name: "complete", path: "/jobs?state=complete" },
  { label: "Failing", name: "failed", path: "/errors" },
];

function makeTiles() {
  const rates = RATE_TILES.map(({ label, name, path }) => {
    const extra = sparkline({ label: `${label}, jobs per minute in the last hour`, format: short });
    return { name, line: extra, tile: tile({ label, path, extra: extra.node }) };
  });
  const oldest = tile({ label: "Oldest waiting", path: "/jobs?state=waiting&order=asc" });
  const latency = tile({ label: "Wait p95", path: "/metrics" });
  const workers = tile({ label: "Workers", path: "/workers" });
  const store = tile({ label: "Store" });

  let mean = null;
  let current = null;

  function showRates() {
    for (const { name, tile: one } of rates) one.update(rateTile(name, mean, current));
  }

  //: Show the current rates; null when they are not known.
  function updateRates(found) {
    current = found;
    if (mean) showRates();
  }

  function update(stats) {
    mean = stats.rates;
    showRates();
    oldest.update(waitingTile(stats));
    latency.update(latencyTile(stats));
    workers.update(workersTile(stats.workers));
    store.update(storeTile(stats.store));
  }

  function past(of) {
    for (const { name, line } of rates) {
      line.update({ tone: name, values: valuesOf(of, name) });
    }
  }

  const rest = [oldest, latency, workers, store];
  const nodes = [...rates.map(({ tile: one }) => one.node), ...rest.map(({ node }) => node)];
  return { nodes, update, past, updateRates };
}

function rateTile(name, mean, current) {
  const note = current ? `${rate(mean[name])} over 5 min` : "5 min average";
  const value = (current ?? mean)[name];
  return { value: rate(value), note, tone: name === "failed" && value > 0 ? "bad" : "" };
}

function waitingTile(stats) {
  const ms = stats.oldest_waits_ms ?? stats.next_waits_ms;
  if (ms === null) return { value: NO_VALUE, note: "no waiting jobs" };
  const isLong = ms >= LONG_WAIT;
  const note = `${number(stats.counts.waiting)} waiting`;
  return { value: duration(ms), note, tone: isLong ? "warn" : "" };
}

function latencyTile({ latency, run_time: run }) {
  if (!latency) return { value: NO_VALUE, note: "no recent runs" };
  const runs = run ? `, run p95 ${atMost(run.p95)}` : "";
  return { value: atMost(latency.p95), note: `p50 ${atMost(latency.p50)}${runs}` };
}

function workersTile({ alive, busy, lost }) {
  const note = `${number(busy)} busy, ${number(lost)} lost`;
  const tone = lost > 0 ? "bad" : alive === 0 ? "warn" : "";
  return { value: `${number(alive)} alive`, note, tone };
}

function storeTile({ engine, version, memory_bytes: memory, rtt_ms: rtt }) {
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
  return emptyState({
    title: "No jobs yet",
    text: "This adds a first job, and a worker runs it:",
    code: FIRST_JOB,
  });
}

// -- current rates ----------------------------------------------------------------

//: Milliseconds over which events are counted, the minimum for a rate, and the interval
//: of updates.
const WINDOW = 10_000;
const MIN_WINDOW = 3_000;
const INTERVAL = 1_000;
//: The rate that each kind of event counts for.
const RATES = { enqueue: "added", complete: "complete", failed: "failed" };

//: Call fn({added, complete, failed}) every second with jobs per second over the last ten
//: seconds, or fn(null) when events were missed.  Returns a function that stops it.
function liveRates(fn) {
  let since = Date.now();
  let seen = [];

  const off = live.on((events) => {
    const now = Date.now();
    for (const { kind } of events) {
      if (kind === "lagged") {
        since = now;
        seen = [];
      } else if (kind in RATES) {
        seen.push({ at: now, name: RATES[kind] });
      }
    }
  });
  const timer = window.setInterval(update, INTERVAL);

  function update() {
    const now = Date.now();
    seen = seen.filter(({ at }) => at > now - WINDOW);
    const length = Math.min(WINDOW, now - since);
    fn(live.state === "live" && length >= MIN_WINDOW ? rates(length) : null);
  }

  function rates(length) {
    const counts = { added: 0, complete: 0, failed: 0 };
    for (const { name } of seen) counts[name] += 1;
    const perSecond = ([name, count]) => [name, (count * 1_000) / length];
    return Object.fromEntries(Object.entries(counts).map(perSecond));
  }

  return () => {
    off();
    window.clearInterval(timer);
  };
}

// -- busiest queues ---------------------------------------------------------------

const MAX_QUEUES = 8;
const NUMBERS = [
  { key: "waiting", label: "Waiting", render: ({ counts }) => number(counts.waiting) },
  { key: "active", label: "Active", render: ({ counts }) => number(counts.active) },
  { key: "failed", label: "Failed", render: ({ counts }) => number(counts.failed) },
  { key: "out", label: "Out", render: ({ rates }) => rate(rates.complete) },
  { key: "wait", label: "Wait p95", render: ({ latency }) => atMost(latency?.p95) },
];

//: Return {node, update({queues, total}), keys}.
function busiestQueues() {
  const shown = table({
    caption: "Busiest queues",
    key: ({ type }) => type,
    link: ({ type }) => `/queues/${pathSegment(type)}`,
    columns: [
      { key: "type", label: "Queue", render: queueName },
      ...NUMBERS.map((column) => ({ ...column, end: true })),
    ],
  });

  shown.node.classList.add("carded", "carded-flat");
  const rest = h("p", { class: "glance-rest faint", hidden: true });

  function update({ queues, total }) {
    const busiest = [...queues].sort((a, b) => load(b) - load(a)).slice(0, MAX_QUEUES);
    // By name, so that rows do not move while the user reads.
    shown.update(busiest.sort((a, b) => (a.type < b.type ? -1 : 1)));
    rest.hidden = total <= busiest.length;
    const scope = queues.length < total ? ` the first ${number(queues.length)} of` : "";
    rest.textContent = `The busiest of${scope} ${number(total)} queues`;
  }

  return { node: h("div", null, shown.node, rest), update, keys: shown.keys };
}

function load({ counts }) {
  return counts.waiting + counts.active + counts.delayed + counts.blocked;
}

function queueName(queue) {
  const link = h("a", { href: href(`/queues/${pathSegment(queue.type)}`) }, queue.type);
  return h("span", { class: "named" }, link, queueBadges(queue, { isList: true }));
}

function isSilenced({ type, tags = [] }, silenced) {
  return silenced.types.includes(type) || tags.some((tag) => silenced.tags.includes(tag));
}

// -- latest failures --------------------------------------------------------------

//: Return {node, update(jobs)}.
function latestFailures() {
  const list = h("ol", { class: "failures" });
  const none = h("p", { class: "faint" }, "No job has failed.");
  const key = ({ id, failed_at: at }) => `${id}:${at}`;
  const show = keyedList(list, key, failure);

  function update(jobs) {
    none.hidden = jobs.length > 0;
    list.hidden = jobs.length === 0;
    show(jobs);
  }

  return { node: h("div", null, none, list), update };
}

function failure(job) {
  const { kind = "", message = "" } = job.error ?? {};
  const node = h(
    "li",
    { class: "failure" },
    h("a", { href: href(`/jobs/${job.id}`) }, `#${job.id}`),
    h("span", { class: "failure-type" }, nameAndQueue(job)),
    h("span", { class: "failure-when" }, timeAgo(job.failed_at ?? job.ended_at)),
    h("span", { class: "failure-text" }, kind ? h("b", null, kind) : null, " ", message),
  );
  return { node, update: () => {} };
}
