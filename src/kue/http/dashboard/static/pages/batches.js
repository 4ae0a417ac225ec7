// Batches page: batches with their progress, and actions on them.

import { emptyState } from "../components/empty-state.js";
import { icon } from "../components/icon.js";
import { stateBadge } from "../components/job-state.js";
import { progressBar } from "../components/progress-bar.js";
import { table } from "../components/table.js";
import { api } from "../lib/api.js";
import { h } from "../lib/dom.js";
import { number, timeAgo } from "../lib/format.js";
import { refresher } from "../lib/live.js";
import { can } from "../lib/me.js";
import { href } from "../lib/router.js";
import { cancelBatch, retryBatch } from "./batches/actions.js";

//: Batches per page.
const LIMIT = 50;
//: Code that shows how to have one.
const FIRST_BATCH = `batch = kue.batch("import").then(report.s())
await batch.enqueue(load.s(row) for row in rows)`;

export const page = {
  path: "/batches",
  title: "Batches",
  nav: { label: "Batches", icon: "batches", order: 42, key: "t" },

  mount(root, ctx) {
    let cursors = [null];
    const rows = table({
      caption: "Batches",
      key: ({ id }) => id,
      link: ({ id }) => `/flows/${id}`,
      columns: columns(act),
    });
    rows.node.classList.add("batches-table", "carded");
    const none = h("div", { hidden: true }, noBatches());
    const newer = h("button", { type: "button", onclick: back }, "Newer");
    const older = h("button", { type: "button", onclick: forth }, "Older");
    const pager = h("div", { class: "pager", hidden: true }, newer, older);
    root.append(
      h("header", { class: "page-head" }, h("h1", null, "Batches")),
      none,
      rows.node,
      pager,
    );
    let next = null;

    async function read(signal) {
      const query = { limit: LIMIT, cursor: cursors.at(-1) };
      const found = await api.get("/batches", query, { signal });
      next = found.cursor;
      rows.update(found.batches);
      const isEmpty = found.batches.length === 0 && cursors.length === 1;
      none.hidden = !isEmpty;
      rows.node.hidden = isEmpty;
      pager.hidden = next === null && cursors.length === 1;
      newer.disabled = cursors.length === 1;
      older.disabled = next === null;
    }

    function back() {
      cursors = cursors.slice(0, -1);
      return read();
    }

    function forth() {
      cursors = [...cursors, next];
      return read();
    }

    async function act(what, batch) {
      if (await what(batch)) await read();
    }

    ctx.keys(rows.keys);
    return refresher(read, { minMs: 1_500, everyMs: 5_000 });
  },
};

function columns(act) {
  return [
    { key: "name", label: "Batch", render: nameView },
    { key: "state", label: "State", render: stateView },
    { key: "progress", label: "Progress", class: "cell-progress", render: progressView },
    { key: "total", label: "Jobs", end: true, render: ({ total }) => number(total) },
    { key: "failed", label: "Failed", end: true, render: failedView },
    { key: "added", label: "Added", render: ({ created_at: at }) => timeAgo(at) },
    { key: "acts", label: "Actions", class: "cell-acts", render: (row) => buttons(row, act) },
  ];
}

function nameView({ id, name }) {
  return h("a", { href: href(`/flows/${id}`) }, name || `Batch ${id}`);
}

//: A batch is blocked while its jobs run: that is how it waits for them.
function stateView({ state, is_cancelled: isCancelled }) {
  if (isCancelled && state !== "cancelled") return h("span", { class: "note" }, "cancelling");
  if (state !== "blocked") return stateBadge(state);
  return h("span", { class: "state", dataset: { state: "active" } }, icon("active"), "in progress");
}

function progressView({ percent, name, id }) {
  return progressBar(percent, { label: `Progress of ${name || `batch ${id}`}`, text: true });
}

function failedView({ failed }) {
  return failed ? h("b", { class: "bad" }, number(failed)) : number(failed);
}

function buttons(batch, act) {
  if (!can("manage")) return null;
  const { id, name, done, total, failed, cancelled } = batch;
  const button = (label, iconName, run) =>
    h(
      "button",
      {
        type: "button",
        class: "plain",
        title: label,
        "aria-label": `${label}: ${name || id}`,
        onclick: run,
      },
      icon(iconName),
    );
  return [
    failed + cancelled > 0 && button("Retry failed", "retry", () => act(({ id }) => retryBatch(id), batch)),
    done < total && button("Cancel", "stop", () => act(cancelBatch, batch)),
  ];
}

function noBatches() {
  return emptyState({
    title: "No batches",
    text: "A batch is many jobs with one progress, and callbacks for when all have ended.",
    code: FIRST_BATCH,
  });
}
