// Panels of the queue page: tiles, charts, next jobs, errors and workers.

import { chart, inStep } from "../../components/chart.js";
import { jobsPath } from "../../components/job-state.js";
import { keyedList } from "../../components/keyed-list.js";
import { panel } from "../../components/panel.js";
import { tile } from "../../components/tile.js";
import { api } from "../../lib/api.js";
import { fill, h, setText } from "../../lib/dom.js";
import { NO_VALUE, atMost, duration, number, rate, short, timeAgo } from "../../lib/format.js";
import { href } from "../../lib/router.js";
import { priorityName } from "../jobs/columns.js";
import { isFull } from "../queues/badges.js";

// -- tiles ------------------------------------------------------------------------

//: Each with a function that returns its content.
const TILES = [
  { label: "Waiting", of: waitingTile },
  { label: "In", of: ({ rates }) => ({ value: rate(rates.added) }) },
  { label: "Out", of: ({ rates }) => ({ value: rate(rates.complete) }) },
  { label: "Failing", of: failingTile },
  { label: "Wait p95", of: ({ latency }) => percentileTile(latency) },
  { label: "Run p95", of: ({ run_time: run }) => percentileTile(run) },
  { label: "Time to drain", of: drainTile },
];

//: Return {nodes, update(queue)}.
export function queueTiles() {
  const tiles = TILES.map(({ label, of }) => ({ of, ...tile({ label }) }));

  function update(queue) {
    for (const { of, update: show } of tiles) show(of(queue));
  }

  return { nodes: tiles.map(({ node }) => node), update };
}

function waitingTile(queue) {
  const { counts, limits, next_waits_ms: ms } = queue;
  const most = limits?.max_waiting ?? null;
  const notes = [
    most !== null && `at most ${number(most)}`,
    ms !== null && `next job waited ${duration(ms)}`,
  ];
  return {
    value: number(counts.waiting),
    note: notes.filter(Boolean).join(", "),
    tone: isFull(queue) ? "warn" : "",
  };
}

function failingTile({ rates }) {
  return { value: rate(rates.failed), tone: rates.failed > 0 ? "bad" : "" };
}

function percentileTile(found) {
  if (found === null) return { value: NO_VALUE, note: "no recent runs" };
  const { p50, p95, p99 } = found;
  return { value: atMost(p95), note: `p50 ${atMost(p50)}, p99 ${atMost(p99)}` };
}

function drainTile({ drain_ms: ms, counts }) {
  if (counts.waiting === 0) return { value: NO_VALUE, note: "no waiting jobs" };
  if (ms === null) return { value: NO_VALUE, note: "not at the current rate", tone: "warn" };
  return { value: duration(ms), note: "at the current rate" };
}

// -- charts -----------------------------------------------------------------------

const PLOTS = [
  { name: "flow", title: "Throughput", unit: "count", format: short },
  { name: "wait", title: "Wait time", unit: "ms", format: duration },
  { name: "run", title: "Run time", unit: "ms", format: duration },
];

//: Return {nodes, update(data), destroy()}; data is that of combinedCharts().
export function queueCharts() {
  const plots = PLOTS.map(({ name, title, unit, format }) => {
    const plot = chart({ title, unit, format, height: 190 });
    return { name, plot, node: panel(title, {}, plot.node) };
  });
  inStep(...plots.map(({ plot }) => plot));

  function update(data) {
    for (const { name, plot } of plots) plot.update(data[name]);
  }

  function destroy() {
    plots.forEach(({ plot }) => plot.destroy());
  }

  return { nodes: plots.map(({ node }) => node), update, destroy };
}

// -- next jobs --------------------------------------------------------------------

const MAX_NEXT = 6;
//: Jobs whose priorities are counted.
const COUNTED = 100;

//: Return {node, read(signal)}.
export function nextJobs(type) {
  const list = h("ol", { class: "lines" });
  const none = h("p", { class: "faint" }, "No waiting jobs.");
  const priorities = h("div", { class: "histogram" });
  const show = keyedList(list, ({ id }) => id, nextJob);
  const all = h("a", { class: "more", href: jobsPath("waiting", type) }, "All waiting");

  async function read(signal) {
    const wanted = { state: "waiting", type, order: "asc", limit: COUNTED };
    const { jobs, cursor } = await api.get("/jobs", wanted, { signal });
    none.hidden = jobs.length > 0;
    show(jobs.slice(0, MAX_NEXT));
    fill(priorities, histogram(jobs, cursor === null));
  }

  return { node: panel("Next to run", { aside: all }, none, list, priorities), read };
}

function nextJob(job) {
  const node = h(
    "li",
    null,
    h("a", { href: href(`/jobs/${job.id}`) }, `#${job.id}`),
    h("span", null, priorityName(job.priority)),
    h("span", { class: "faint" }, "added ", timeAgo(job.created_at)),
  );
  return { node, update: () => {} };
}

function histogram(jobs, isAll) {
  if (jobs.length === 0) return null;
  const counts = new Map();
  for (const { priority } of jobs) counts.set(priority, (counts.get(priority) ?? 0) + 1);
  const highest = Math.max(...counts.values());
  const rows = [...counts]
    .sort(([a], [b]) => a - b)
    .map(([priority, count]) => {
      const bar = h("span", { class: "histogram-bar" });
      bar.style.width = `${(100 * count) / highest}%`;
      return h(
        "div",
        { class: "histogram-row" },
        h("span", null, priorityName(priority)),
        h("span", { class: "histogram-space" }, bar),
        h("span", { class: "end" }, number(count)),
      );
    });
  const heading = isAll ? "Priorities" : `Priorities of the first ${COUNTED}`;
  return [h("h3", null, heading), rows];
}

// -- errors -----------------------------------------------------------------------

const MAX_ERRORS = 5;

//: Return {node, read(signal)}.
export function frequentErrors(type) {
  const list = h("ol", { class: "failures" });
  const none = h("p", { class: "faint" }, "No job has failed.");
  const show = keyedList(list, ({ kind, message }) => `${kind}:${message}`, errorGroup);
  const path = href(`/errors?${new URLSearchParams({ type })}`);
  const all = h("a", { class: "more", href: path }, "All errors");

  async function read(signal) {
    let groups = [];
    try {
      ({ groups } = await api.get("/errors", { type, limit: MAX_ERRORS }, { signal }));
    } catch (error) {
      // A queue that was only configured has had no job yet.
      if (!error.isMissing) throw error;
    }
    none.hidden = groups.length > 0;
    show(groups);
  }

  return { node: panel("Errors", { aside: all }, none, list), read };
}

function errorGroup({ kind, message, job_id: id }) {
  const count = h("span", { class: "failure-when" });
  const title = id ? h("a", { href: href(`/jobs/${id}`) }, kind) : kind;
  const node = h(
    "li",
    { class: "failure" },
    h("b", null, title),
    count,
    h("span", { class: "failure-text" }, message),
  );
  return { node, update: (group) => setText(count, `${number(group.count)} ×`) };
}

// -- workers ----------------------------------------------------------------------

//: Return {node, read(signal)}.
export function queueWorkers(type) {
  const list = h("ol", { class: "lines" });
  const none = h("p", { class: "faint" }, "No live worker handles this type.");
  const show = keyedList(list, ({ name }) => name, workerLine(type));
  const all = h("a", { class: "more", href: href("/workers") }, "All workers");

  async function read(signal) {
    const { workers } = await api.get("/workers", null, { signal });
    const found = workers.filter(({ alive, slots }) => alive && handles(slots, type));
    none.hidden = found.length > 0;
    show(found);
  }

  return { node: panel("Workers", { aside: all }, none, list), read };
}

//: A worker that does not report its slots may handle any type.
function handles(slots, type) {
  return Object.keys(slots).length === 0 || Object.hasOwn(slots, type);
}

function workerLine(type) {
  return ({ name }) => {
    const runs = h("span");
    const state = h("span", { class: "faint" });
    const node = h("li", null, h("b", null, name), runs, state);

    function update({ slots, running, paused }) {
      const count = running.filter((run) => run.type === type).length;
      const of = slots[type] === undefined ? "" : ` of ${number(slots[type])}`;
      setText(runs, `${number(count)}${of} running`);
      setText(state, paused ? "quiet" : "");
    }

    return { node, update };
  };
}
