// Queue page: counts, charts, next jobs, errors, workers and actions of one queue.

import { emptyState } from "../components/empty-state.js";
import { stateCounts } from "../components/job-state.js";
import { panel } from "../components/panel.js";
import { DEFAULT_RANGE, RANGES, rangeButtons, rangeOf } from "../components/time-range.js";
import { api, pathSegment } from "../lib/api.js";
import { fill, h } from "../lib/dom.js";
import { combinedCharts, history } from "../lib/stats-history.js";
import { refresher } from "../lib/live.js";
import { can } from "../lib/me.js";
import { href, query, setQuery } from "../lib/router.js";
import { addJob } from "./jobs/add.js";
import { queueAlerts } from "./queue/alerts.js";
import { frequentErrors, nextJobs, queueCharts, queueTiles, queueWorkers } from "./queue/panels.js";
import { clear, pause, promoteDelayed, resume, retryFailed } from "./queues/actions.js";
import { fullText, isFull, pauseText, queueBadges } from "./queues/badges.js";
import { limit } from "./queues/limits-form.js";

export const page = {
  path: "/queues/:type",
  title: "Queue",

  mount(root, ctx) {
    const { type } = ctx.params;
    let queue = null;
    let range = rangeOf(query().range);
    let stopCharts = () => {};
    const stops = [];
    ctx.setTitle(type);

    const badges = h("span", { class: "marks" });
    const actions = h("div", { class: "actions" });
    const notes = h("div", { class: "notices" });
    const tiles = queueTiles();
    const counts = stateCounts({ type });
    const plots = queueCharts();
    const next = nextJobs(type);
    const failing = frequentErrors(type);
    const workers = queueWorkers(type);
    const alerts = queueAlerts(type);
    const notFoundNote = h("div", { hidden: true }, notFound(type));
    const body = h(
      "div",
      { class: "pile", hidden: true },
      h("div", { class: "tiles" }, tiles.nodes),
      panel("Jobs by state", {}, counts.node),
      alerts.node,
      h("div", { class: "page-bar" }, rangeButtons(range, chooseRange)),
      h("div", { class: "columns columns-three" }, plots.nodes),
      h("div", { class: "columns columns-three" }, next.node, failing.node, workers.node),
    );
    root.append(
      h(
        "header",
        { class: "page-head" },
        h(
          "div",
          { class: "named" },
          h("a", { class: "faint crumb", href: href("/queues") }, "Queues"),
          h("h1", null, type),
          badges,
        ),
        actions,
      ),
      notes,
      notFoundNote,
      body,
    );

    async function read(signal) {
      try {
        queue = await api.get(`/queues/${pathSegment(type)}`, null, { signal });
      } catch (error) {
        if (error.status !== 404) throw error;
        queue = null;
      }
      notFoundNote.hidden = queue !== null;
      body.hidden = queue === null;
      if (queue === null) return;
      fillBadges();
      fillActions();
      tiles.update(queue);
      counts.update(queue.counts);
      if (stops.length === 1) startDetails();
    }

    async function readLists(signal) {
      await Promise.all([next.read(signal), workers.read(signal), alerts.read(signal)]);
    }

    function fillBadges() {
      const { pauses, limits, workers: live } = queue;
      const key = JSON.stringify([pauses, limits, live, isFull(queue)]);
      if (badges.dataset.key === key) return;
      badges.dataset.key = key;
      fill(badges, queueBadges(queue));
      const texts = pauses.map(pauseText);
      if (isFull(queue)) texts.push(fullText(limits));
      fill(notes, texts.map(note));
    }

    //: Replaced only when they change: a replaced button loses the focus.
    function fillActions() {
      const wanted = actionsFor(queue);
      const key = wanted.map(({ label }) => label).join();
      if (actions.dataset.key === key) return;
      actions.dataset.key = key;
      fill(actions, wanted.map(({ label, kind, run }) =>
        h("button", { type: "button", class: kind, onclick: run }, label),
      ));
      ctx.actions(wanted.map(({ label, run }) => ({ label: `${label}: ${type}`, run })));
    }

    function actionsFor({ pauses, counts: of }) {
      const isPaused = pauses.some((one) => one.type !== null);
      const act = (label, what, kind = "") => {
        return { label, kind, run: () => runAndRefresh(what(queue)) };
      };
      return [
        can("manage") && act("Add job", () => addJob({ type }), "primary"),
        can("manage") && isPaused && act("Resume", () => resume({ type })),
        can("manage") && !isPaused && act("Pause", () => pause({ type })),
        can("manage") && act("Limits", limit),
        can("manage") && of.failed > 0 && act("Retry failed", retryFailed),
        can("manage") && of.delayed > 0 && act("Run delayed now", promoteDelayed),
        can("remove") && act("Clear", clear, "danger"),
      ].filter(Boolean);
    }

    async function runAndRefresh(promise) {
      if (await promise) await Promise.all([read(), readLists(), failing.read()]);
    }

    function chooseRange(name) {
      range = name;
      setQuery({ range: name === DEFAULT_RANGE ? null : name });
      startCharts();
    }

    function startCharts() {
      stopCharts();
      const { step, length, fold, everyMs } = RANGES[range];
      const draw = async (signal) => {
        plots.update(combinedCharts(await history({ step, length, fold, type }, signal)));
      };
      stopCharts = refresher(draw, { minMs: everyMs, everyMs, types: [type] });
    }

    ctx.keys({
      a: { label: "Add a job", run: () => can("manage") && runAndRefresh(addJob({ type })) },
      P: {
        label: "Pause or resume the queue",
        run: () => actions.querySelectorAll("button")[1]?.click(),
      },
    });
    //: Start reading the details, once the queue is known to exist.
    function startDetails() {
      stops.push(
        refresher(readLists, { minMs: 3_000, everyMs: 15_000, types: [type] }),
        // May scan thousands of failed jobs.
        refresher(failing.read, { minMs: 15_000, types: [type] }),
      );
      startCharts();
    }

    stops.push(refresher(read, { minMs: 1_000, everyMs: 10_000, types: [type] }));
    return () => {
      stops.forEach((stop) => stop());
      stopCharts();
      plots.destroy();
    };
  },
};

function note(text) {
  return h("p", { class: "notice", dataset: { tone: "warn" } }, text);
}

function notFound(type) {
  return emptyState({
    title: "Queue not found",
    text: `No job of type ${type} has been added, and it has no limits or pauses.`,
    action: can("manage") ? { label: "Add a job", run: () => addJob({ type }) } : null,
  });
}
