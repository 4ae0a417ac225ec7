// Queues page: all queues with counts, rates, percentiles and actions.

import { FIRST_JOB, emptyState } from "../components/empty-state.js";
import { icon } from "../components/icon.js";
import { table } from "../components/table.js";
import { api, pathSegment } from "../lib/api.js";
import { h } from "../lib/dom.js";
import { NO_VALUE, atMost, duration, number, plural, rate } from "../lib/format.js";
import { refresher } from "../lib/live.js";
import { can } from "../lib/me.js";
import { href, query, setQuery } from "../lib/router.js";
import { clear, pause, resume } from "./queues/actions.js";
import { queueBadges } from "./queues/badges.js";
import { circuits } from "./queues/circuits.js";
import { limit } from "./queues/limits-form.js";
import { hourSparklines } from "./queues/sparklines.js";

//: Pages of 200 queues that are read at most.
const MAX_PAGES = 10;
const SORTS = {
  name: { label: "name", of: null },
  waiting: { label: "most waiting", of: ({ counts }) => counts.waiting },
  failed: { label: "most failed", of: ({ counts }) => counts.failed },
  out: { label: "most completed", of: ({ rates }) => rates.complete },
  wait: { label: "longest wait", of: ({ latency }) => latency?.p95 ?? -1 },
};
export const page = {
  path: "/queues",
  title: "Queues",
  nav: { label: "Queues", icon: "queues", order: 20, key: "q" },

  mount(root, ctx) {
    let all = [];
    let isMore = false;
    let { text = "", sort = "name" } = query();
    if (!(sort in SORTS)) sort = "name";
    const sparklines = hourSparklines();
    const breakers = circuits();
    const rows = table({
      caption: "Queues",
      key: ({ type }) => type,
      link: ({ type }) => `/queues/${pathSegment(type)}`,
      columns: columns(sparklines, act),
    });
    rows.node.classList.add("queues-table", "carded");
    const count = h("span", { class: "faint" });
    const pauseAll = h("button", { type: "button", onclick: toggleEverything });
    const search = h("input", {
      type: "search",
      dataset: { search: "" },
      value: text,
      placeholder: "Find a queue",
      "aria-label": "Find a queue",
      oninput: () => {
        text = search.value;
        applyFilter();
      },
    });
    const none = h("div", { hidden: true }, noQueues());
    const bar = h("div", { class: "page-bar" }, search, sortPicker(), count);
    root.append(
      h("header", { class: "page-head" }, h("h1", null, "Queues"), pauseAll),
      breakers.node,
      bar,
      none,
      rows.node,
    );

    function sortPicker() {
      return h(
        "label",
        { class: "inline" },
        "Sort by ",
        h(
          "select",
          {
            onchange: (event) => {
              sort = event.target.value;
              applyFilter();
            },
          },
          Object.entries(SORTS).map(([name, { label }]) =>
            h("option", { value: name, selected: name === sort }, label),
          ),
        ),
      );
    }

    function applyFilter() {
      setQuery({ text, sort: sort === "name" ? null : sort });
      show();
    }

    async function read(signal) {
      [all, isMore] = await readAll(signal);
      show();
    }

    function show() {
      const wanted = text.toLowerCase();
      const found = all.filter(({ type }) => type.toLowerCase().includes(wanted));
      const { of } = SORTS[sort];
      if (of) found.sort((a, b) => of(b) - of(a));
      rows.update(found);
      count.textContent = `${plural(found.length, "queue")}${isMore ? ", the first by name" : ""}`;
      none.hidden = all.length > 0;
      bar.hidden = rows.node.hidden = all.length === 0;
      pauseAll.hidden = !can("manage");
      pauseAll.textContent = isAllPaused() ? "Resume everything" : "Pause everything";
    }

    function isAllPaused() {
      return all.some(({ pauses }) => pauses.some(({ type }) => type === null));
    }

    async function toggleEverything() {
      await (isAllPaused() ? resume({}) : pause({}));
      await read();
    }

    //: Act on the queue in its current state, not in the state it was drawn in.
    async function act(what, type) {
      const queue = all.find((one) => one.type === type);
      if (queue && (await what(queue))) await read();
    }

    function toggleCurrent() {
      const queue = rows.current();
      if (queue && can("manage")) act(togglePause, queue.type);
    }

    ctx.keys({
      ...rows.keys,
      P: { label: "Pause or resume the queue", run: toggleCurrent },
    });
    if (can("manage")) {
      ctx.actions([
        { label: "Pause or resume everything", run: toggleEverything },
        { label: "Open a circuit", run: breakers.openAny },
      ]);
    }
    const stop = refresher(read, { minMs: 1_500, everyMs: 15_000 });
    return () => {
      stop();
      breakers.stop();
      sparklines.stop();
    };
  },
};

async function readAll(signal) {
  const found = [];
  let after;
  for (let pages = 0; pages < MAX_PAGES; pages += 1) {
    const { queues, next } = await api.get("/queues", { after }, { signal });
    found.push(...queues);
    if (next === null) return [found, false];
    after = next;
  }
  return [found, true];
}

//: Pause a queue, or resume it.
function togglePause(queue) {
  const { type } = queue;
  return isPaused(queue) ? resume({ type }) : pause({ type });
}

function isPaused({ pauses }) {
  return pauses.some(({ type }) => type !== null);
}

// -- columns -----------------------------------------------------------------------

function columns(sparklines, act) {
  const count = (state) => ({
    key: state,
    label: state.charAt(0).toUpperCase() + state.slice(1),
    end: true,
    render: ({ counts }) => number(counts[state]),
  });
  return [
    { key: "type", label: "Queue", render: queueName },
    count("waiting"),
    count("active"),
    count("delayed"),
    count("failed"),
    { key: "in", label: "In", end: true, render: ({ rates }) => rate(rates.added) },
    { key: "out", label: "Out", end: true, render: ({ rates }) => rate(rates.complete) },
    {
      key: "hour",
      label: "Last hour",
      class: "cell-spark",
      render: ({ type }) => sparklines.of(type),
    },
    {
      key: "latency",
      label: "Wait p95",
      end: true,
      title: "Wait time of jobs in the last five minutes",
      render: ({ latency }) => atMost(latency?.p95),
    },
    {
      key: "run_time",
      label: "Run p95",
      end: true,
      title: "Run time of jobs in the last five minutes",
      render: ({ run_time: run }) => atMost(run?.p95),
    },
    {
      key: "drain_ms",
      label: "Time to drain",
      end: true,
      title: "Until no job is waiting, at the current rate",
      render: ({ drain_ms: ms, counts }) => drain(ms, counts),
    },
    {
      key: "workers",
      label: "Workers",
      end: true,
      render: ({ workers }) => number(workers),
    },
    { key: "acts", label: "Actions", class: "cell-acts", render: (queue) => buttons(queue, act) },
  ];
}

//: A duration in one unit: a forecast is not more exact.
function rounded(ms) {
  const unit = [86_400_000, 3_600_000, 60_000].find((one) => ms >= one) ?? 1_000;
  return duration(Math.max(1, Math.round(ms / unit)) * unit);
}

function drain(ms, counts) {
  if (counts.waiting === 0) return "empty";
  return ms === null ? NO_VALUE : rounded(ms);
}

function queueName(queue) {
  const link = h("a", { href: href(`/queues/${pathSegment(queue.type)}`) }, queue.type);
  return h("span", { class: "named" }, link, queueBadges(queue, { isList: true }));
}

function buttons(queue, act) {
  const { type } = queue;
  const button = (label, name, iconName, what) =>
    h(
      "button",
      {
        type: "button",
        class: "plain",
        title: label,
        "aria-label": name,
        onclick: () => act(what, type),
      },
      icon(iconName),
    );
  const [word, iconName] = isPaused(queue) ? ["Resume", "play"] : ["Pause", "pause"];
  return [
    can("manage") && button(word, `${word} ${type}`, iconName, togglePause),
    can("manage") && button("Limits", `Limits of ${type}`, "settings", limit),
    can("remove") && button("Clear", `Clear ${type}`, "trash", clear),
  ];
}

function noQueues() {
  return emptyState({
    title: "No queues yet",
    text: "A queue is a job type. It appears when its first job is added.",
    code: FIRST_JOB,
  });
}
