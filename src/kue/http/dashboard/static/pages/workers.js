// Workers page: all workers with their running jobs, slots and health.

import { emptyState } from "../components/empty-state.js";
import { keyedList } from "../components/keyed-list.js";
import { tile } from "../components/tile.js";
import { api } from "../lib/api.js";
import { h } from "../lib/dom.js";
import { bytes, number } from "../lib/format.js";
import { refresher } from "../lib/live.js";
import { query, setQuery } from "../lib/router.js";
import { card } from "./workers/card.js";

//: The search field is shown from this many workers on.
const MANY = 6;

export const page = {
  path: "/workers",
  title: "Workers",
  nav: { label: "Workers", icon: "workers", order: 50, key: "w" },

  mount(root) {
    let workers = [];
    let { text = "" } = query();
    const sums = makeSums();
    const list = h("div", { class: "cards" });
    const show = keyedList(list, ({ name }) => name, (worker) => card(worker, () => read()));
    const skew = h("p", { class: "notice", dataset: { tone: "warn" }, hidden: true });
    const none = h("div", { hidden: true }, noWorkers());
    const search = h("input", {
      type: "search",
      value: text,
      dataset: { search: "" },
      placeholder: "Find by name, host or queue",
      "aria-label": "Find a worker",
      oninput: () => {
        text = search.value;
        setQuery({ text });
        fillList();
      },
    });
    root.append(
      h("header", { class: "page-head" }, h("h1", null, "Workers"), search),
      none,
      h("div", { class: "tiles tiles-few" }, sums.nodes),
      skew,
      list,
    );

    async function read(signal) {
      ({ workers } = await api.get("/workers", null, { signal }));
      sums.update(workers);
      const versions = versionSkew(workers);
      skew.hidden = versions === "";
      skew.textContent = versions;
      none.hidden = workers.length > 0;
      search.hidden = workers.length < MANY && text === "";
      fillList();
    }

    function fillList() {
      const wanted = text.toLowerCase();
      const found = workers.filter(({ name, host, slots }) =>
        [name, host ?? "", ...Object.keys(slots)].some((one) =>
          one.toLowerCase().includes(wanted),
        ),
      );
      // Lost workers first, then those that are gone.
      show(found.sort((a, b) => rank(a) - rank(b) || (a.name < b.name ? -1 : 1)));
    }

    return refresher(read, { minMs: 1_000, everyMs: 5_000 });
  },
};

function rank({ lost, alive }) {
  if (lost) return 0;
  return alive ? 2 : 1;
}

function versionSkew(workers) {
  const versions = new Map();
  for (const { alive, version } of workers) {
    if (alive && version) versions.set(version, (versions.get(version) ?? 0) + 1);
  }
  if (versions.size < 2) return "";
  const texts = [...versions].map(([version, count]) => `${version} (${number(count)})`);
  return `Workers run different versions: ${texts.sort().join(", ")}`;
}

function makeSums() {
  const [alive, busy, lost, memory] = ["Alive", "Slots used", "Lost", "Memory"].map((label) =>
    tile({ label }),
  );

  function update(workers) {
    const here = workers.filter((one) => one.alive);
    const quiet = here.filter(({ paused }) => paused).length;
    const gone = workers.filter((one) => one.lost).length;
    const slots = sum(here, ({ slots: of }) => sum(Object.values(of), (count) => count));
    alive.update({
      value: number(here.length),
      note: quiet ? `${number(quiet)} quiet` : "",
      tone: here.length ? "" : "warn",
    });
    busy.update({ value: `${number(sum(here, ({ active }) => active))} of ${number(slots)}` });
    lost.update({
      value: number(gone),
      note: gone ? "stopped with running jobs" : "",
      tone: gone ? "bad" : "",
    });
    memory.update({ value: bytes(sum(here, (one) => one.memory ?? 0)), note: "in total" });
  }

  return { nodes: [alive, busy, lost, memory].map(({ node }) => node), update };
}

function sum(items, of) {
  return items.reduce((total, item) => total + of(item), 0);
}

function noWorkers() {
  return emptyState({
    title: "No workers",
    text: "No worker is running. This starts one for the tasks of q in app.py:",
    code: "kue worker app:q",
  });
}
