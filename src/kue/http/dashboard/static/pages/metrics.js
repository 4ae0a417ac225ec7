// Metrics page: throughput, failures, wait and run times over an hour up to 90 days.

import { chart, inStep } from "../components/chart.js";
import { panel } from "../components/panel.js";
import { tile } from "../components/tile.js";
import { DEFAULT_RANGE, RANGES, rangeButtons, rangeOf, stepText } from "../components/time-range.js";
import { api } from "../lib/api.js";
import { fill, h, uid } from "../lib/dom.js";
import { duration, number, percent, short } from "../lib/format.js";
import { combinedCharts, comparedCharts, history, totals } from "../lib/stats-history.js";
import { refresher } from "../lib/live.js";
import { query, setQuery } from "../lib/router.js";

export const page = {
  path: "/metrics",
  title: "Metrics",
  nav: { label: "Metrics", icon: "metrics", order: 60, key: "m" },

  mount(root) {
    const params = query();
    let range = rangeOf(params.range);
    let stop = () => {};
    const queues = queuePicker({ types: [params.type ?? []].flat(), onChange: choose });
    const plots = makePlots();
    const sums = makeSums();
    const buttons = rangeButtons(range, (next) => {
      range = next;
      choose();
    });
    root.append(
      h("header", { class: "page-head" }, h("h1", null, "Metrics"), buttons),
      queues.node,
      h("div", { class: "tiles tiles-few" }, sums.nodes),
      h("div", { class: "columns columns-even" }, plots.nodes),
    );

    function choose() {
      setQuery({ range: range === DEFAULT_RANGE ? null : range, type: queues.chosen() });
      start();
    }

    async function read(signal) {
      const { step, length, fold } = RANGES[range];
      const types = queues.chosen();
      const of = types.length ? types : [null];
      const pasts = await Promise.all(
        of.map((type) => history({ step, length, fold, type }, signal)),
      );
      plots.update(
        types.length > 1 ? comparedCharts(types, pasts) : combinedCharts(pasts[0]),
        stepText(RANGES[range]),
        types.length > 1,
      );
      sums.update(totals(pasts));
    }

    function start() {
      stop();
      const { everyMs } = RANGES[range];
      stop = refresher(read, { minMs: everyMs, everyMs });
    }

    const stopNames = refresher(queues.load, { minMs: 30_000 });
    start();
    return () => {
      stop();
      stopNames();
      plots.destroy();
    };
  },
};

// -- charts ----------------------------------------------------------------------

const PLOTS = [
  { name: "flow", title: "Throughput", compared: "Complete, by queue", format: short },
  { name: "failures", title: "Failures", compared: "Failed, by queue", format: short },
  {
    name: "wait",
    title: "Wait time",
    compared: "Wait time, p95",
    unit: "ms",
    format: duration,
  },
  { name: "run", title: "Run time", compared: "Run time, p95", unit: "ms", format: duration },
];

function makePlots() {
  const plots = PLOTS.map(({ name, title, compared, unit, format }) => {
    const one = chart({ title, unit, format });
    const stepNote = h("span", { class: "faint" });
    const node = panel(title, { aside: stepNote }, one.node);
    return { name, title, compared, chart: one, stepNote, node, heading: node.querySelector("h2") };
  });
  inStep(...plots.map(({ chart: one }) => one));

  function update(data, steps, isCompared) {
    for (const { name, title, compared, chart: one, stepNote, heading } of plots) {
      heading.textContent = isCompared ? compared : title;
      stepNote.textContent = steps;
      one.update(data[name]);
    }
  }

  function destroy() {
    plots.forEach(({ chart: one }) => one.destroy());
  }

  return { nodes: plots.map(({ node }) => node), update, destroy };
}

function makeSums() {
  const [added, complete, failed] = ["Added", "Complete", "Failed"].map((label) =>
    tile({ label }),
  );

  function update(sums) {
    const ended = sums.complete + sums.failed;
    added.update({ value: number(sums.added) });
    complete.update({ value: number(sums.complete) });
    failed.update({
      value: number(sums.failed),
      note: ended > 0 ? `${percent(sums.failed / ended)} of finished jobs` : "",
      tone: sums.failed > 0 ? "bad" : "",
    });
  }

  return { nodes: [added, complete, failed].map(({ node }) => node), update };
}

// -- queue picker -----------------------------------------------------------------

//: Queues that are compared at most: more colours cannot be distinguished.
const MAX_QUEUES = 6;

//: Return {node, chosen(), load(signal)}; onChange(types) is called when they change.
function queuePicker({ types, onChange }) {
  let chosen = types.slice(0, MAX_QUEUES);
  let known = [];
  const id = uid("queues");
  const options = h("datalist", { id });
  const chips = h("ul", { class: "picked", "aria-label": "Queues shown" });
  const input = h("input", {
    type: "text",
    list: id,
    maxlength: 500,
    placeholder: "Add a queue",
    "aria-label": "Add a queue",
    autocomplete: "off",
    // A choice from the list fires input, a typed name fires change on Enter.
    oninput: () => known.includes(input.value) && add(input.value),
    onchange: () => add(input.value),
  });

  function add(type) {
    input.value = "";
    if (!known.includes(type) || chosen.includes(type)) return;
    setChosen([...chosen, type].slice(-MAX_QUEUES));
  }

  function setChosen(next) {
    chosen = next;
    show();
    onChange(chosen);
  }

  function show() {
    const parts = chosen.map((type, index) =>
      h(
        "li",
        { class: "picked-queue" },
        h("span", { class: `swatch tone-${index + 1}` }),
        type,
        h(
          "button",
          {
            type: "button",
            class: "picked-drop",
            "aria-label": `Remove ${type}`,
            onclick: () => {
              setChosen(chosen.filter((one) => one !== type));
              input.focus();
            },
          },
          "×",
        ),
      ),
    );
    fill(chips, parts.length ? parts : h("li", { class: "faint" }, "All queues"));
  }

  async function load(signal) {
    const { queues } = await api.get("/queues", null, { signal });
    known = queues.map(({ type }) => type);
    fill(options, known.map((type) => h("option", { value: type })));
  }

  show();
  const node = h("div", { class: "picker" }, chips, input, options);
  return { node, chosen: () => chosen, load };
}
