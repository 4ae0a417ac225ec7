// The numbers of one queue.

import { chart, inStep } from "../../components/chart.js";
import { jobsPath } from "../../components/job-state.js";
import { keyedList } from "../../components/keyed-list.js";
import { panel } from "../../components/panel.js";
import { setText, tile } from "../../components/tile.js";
import { api } from "../../lib/api.js";
import { fill, h } from "../../lib/dom.js";
import { NO_VALUE, atMost, duration, number, rate, short, timeAgo } from "../../lib/format.js";
import { href } from "../../lib/router.js";
import { PRIORITIES } from "../jobs/filters.js";

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
export function queueTiles() {
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
  if (found === null) return { value: NO_VALUE, note: "none lately" };
  const { p50, p95, p99 } = found;
  return { value: atMost(p95), note: `p50 ${atMost(p50)}, p99 ${atMost(p99)}` };
}

function drained({ drain_ms: ms, counts }) {
  if (counts.waiting === 0) return { value: NO_VALUE, note: "no waiting jobs" };
  if (ms === null) return { value: NO_VALUE, note: "not at the current pace", tone: "warn" };
  return { value: duration(ms), note: "at the current pace" };
}

// -- charts -----------------------------------------------------------------------

const PLOTS = [
  { name: "flow", title: "Throughput", unit: "count", format: short },
  { name: "wait", title: "Wait time", unit: "ms", format: duration },
  { name: "run", title: "Run time", unit: "ms", format: duration },
];

//: Return {nodes, update(data), destroy()}; data is that of metrics/plots.js.
export function queueCharts() {
  const plots = PLOTS.map(({ name, title, unit, format }) => {
    const made = chart({ title, unit, format, height: 190 });
    return { name, made, node: panel(title, {}, made.node) };
  });
  inStep(...plots.map(({ made }) => made));

  function update(data) {
    for (const { name, made } of plots) made.update(data[name]);
  }

  function destroy() {
    plots.forEach(({ made }) => made.destroy());
  }

  return { nodes: plots.map(({ node }) => node), update, destroy };
}

// -- next jobs --------------------------------------------------------------------

const NEXT_SHOWN = 6;
//: Jobs whose priorities are counted.
const LOOKED_AT = 100;

//: Return {node, read(signal)}.
export function nextJobs(type) {
  const list = h("ol", { class: "lines" });
  const none = h("p", { class: "faint" }, "No waiting jobs.");
  const priorities = h("div", { class: "histogram" });
  const show = keyedList(list, ({ id }) => id, nextJob);
  const all = h("a", { class: "more", href: jobsPath("waiting", type) }, "All waiting");

  async function read(signal) {
    const wanted = { state: "waiting", type, order: "asc", limit: LOOKED_AT };
    const { jobs, cursor } = await api.get("/jobs", wanted, { signal });
    none.hidden = jobs.length > 0;
    show(jobs.slice(0, NEXT_SHOWN));
    fill(priorities, histogram(jobs, cursor === null));
  }

  return { node: panel("Next to run", { aside: all }, none, list, priorities), read };
}

function nextJob(job) {
  const node = h(
    "li",
    null,
    h("a", { href: href(`/jobs/${job.id}`) }, `#${job.id}`),
    h("span", null, spoken(job.priority)),
    h("span", { class: "faint" }, "added ", timeAgo(job.created_at)),
  );
  return { node, update: () => {} };
}

function histogram(jobs, isAll) {
  if (jobs.length === 0) return null;
  const counts = new Map();
  for (const { priority } of jobs) counts.set(priority, (counts.get(priority) ?? 0) + 1);
  const most = Math.max(...counts.values());
  const rows = [...counts]
    .sort(([a], [b]) => a - b)
    .map(([priority, count]) => {
      const bar = h("span", { class: "histogram-bar" });
      bar.style.width = `${(100 * count) / most}%`;
      return h(
        "div",
        { class: "histogram-row" },
        h("span", null, spoken(priority)),
        h("span", { class: "histogram-space" }, bar),
        h("span", { class: "end" }, number(count)),
      );
    });
  const whose = isAll ? "Priorities" : `Priorities of the first ${LOOKED_AT}`;
  return [h("h3", null, whose), rows];
}

function spoken(priority) {
  return PRIORITIES.get(priority) ?? String(priority);
}

// -- errors -----------------------------------------------------------------------

const ERRORS_SHOWN = 5;

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
      ({ groups } = await api.get("/errors", { type, limit: ERRORS_SHOWN }, { signal }));
    } catch (error) {
      // A queue that is only set up has had no job yet.
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
  const none = h("p", { class: "faint" }, "No live worker takes its jobs.");
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

//: One that does not say what it takes may take anything.
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
