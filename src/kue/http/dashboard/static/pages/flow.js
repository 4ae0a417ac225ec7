// Flow page: the graph of a flow with live states, and actions on parts of it.

import { confirm } from "../components/dialog.js";
import { emptyState } from "../components/empty-state.js";
import { flowGraph } from "../components/flow-graph.js";
import { menu, menuItem } from "../components/menu.js";
import { panel } from "../components/panel.js";
import { progressBar } from "../components/progress-bar.js";
import { toast, toastProblem } from "../components/toast.js";
import { api } from "../lib/api.js";
import { fill, fillIfChanged, h, setText } from "../lib/dom.js";
import { number, plural } from "../lib/format.js";
import { refresher } from "../lib/live.js";
import { can } from "../lib/me.js";
import { href } from "../lib/router.js";
import { cancelBatch, retryBatch } from "./batches/actions.js";

const UNFINISHED = ["waiting", "active", "delayed", "blocked"];

export const page = {
  path: "/flows/:id",
  title: "Flow",

  mount(root, ctx) {
    const { id } = ctx.params;
    const title = h("h1", null, `Flow ${id}`);
    const actions = h("div", { class: "actions" });
    const progress = h("div", { class: "flow-progress" });
    const more = h("p", { class: "faint" });
    const graph = flowGraph({ menuOf: (node) => nodeMenu(node, retryFrom, cancelFrom) });
    const body = h("div", { class: "pile", hidden: true }, progress);
    body.append(panel("Jobs", {}, graph.node, more));
    root.append(h("header", { class: "page-head" }, title, actions), body);
    let flow = null;

    async function read(signal) {
      try {
        show(await api.get(`/flows/${id}`, null, { signal }));
      } catch (problem) {
        if (problem.status !== 404 && problem.status !== 400) throw problem;
        stop();
        fill(root, noFlow(id));
      }
    }

    function show(found) {
      flow = found;
      const text = `${flow.is_batch ? "Batch" : "Flow"} ${flow.id}`;
      setText(title, flow.name ? `${text}: ${flow.name}` : text);
      ctx.setTitle(title.textContent);
      graph.update(flow);
      body.hidden = false;
      const done = flow.complete + flow.failed + flow.cancelled;
      fillIfChanged(progress, [done, flow.total, flow.failed], () => progressView(flow, done));
      more.textContent = flow.more ? `and ${plural(flow.more, "more job")}` : "";
      const failed = flow.nodes.some(({ state }) => state === "failed");
      const left = flow.total - done;
      fillIfChanged(actions, [failed, left > 0], () => [
        failed && can("manage") && button("Retry failed", "primary", retryAll),
        left > 0 && can("manage") && button("Cancel the rest", "", cancelAll),
      ]);
    }

    async function retryAll() {
      if (flow.is_batch) await retryBatch(flow.id);
      else await retry();
      await read();
    }

    async function retryFrom({ id: job }) {
      await retry(job);
      await read();
    }

    async function retry(job) {
      try {
        const { retried, restored } = await api.post(`/flows/${flow.id}/retry`, { job });
        const again = restored.length ? `, ${plural(restored.length, "job")} restored` : "";
        toast(`${plural(retried.length, "job")} requeued${again}`, { tone: "good" });
      } catch (error) {
        toastProblem(error);
      }
    }

    async function cancelAll() {
      const isDone = flow.is_batch ? await cancelBatch(flow) : await cancel();
      if (isDone) await read();
    }

    async function cancelFrom({ id: job }) {
      if (await cancel(job)) await read();
    }

    async function cancel(job) {
      const title = job ? `Cancel job ${job} and everything after it?` : "Cancel the rest?";
      const text = "Jobs that have not ended are cancelled; running ones are asked to stop.";
      if (!(await confirm({ title, text, action: "Cancel the jobs", danger: true }))) return false;
      try {
        const { cancelled } = await api.post(`/flows/${flow.id}/cancel`, { job });
        toast(`${plural(cancelled, "job")} cancelled`, { tone: "good" });
        return true;
      } catch (error) {
        toastProblem(error);
        return false;
      }
    }

    const stop = refresher(read, { minMs: 1_000, everyMs: 5_000 });
    return () => stop();
  },
};

function button(label, kind, onclick) {
  return h("button", { type: "button", class: kind, onclick }, label);
}

function progressView({ total, complete, failed, cancelled }, done) {
  const parts = [
    `${number(done)} of ${plural(total, "job")} ended`,
    `${number(complete)} complete`,
    failed > 0 && `${number(failed)} failed`,
    cancelled > 0 && `${number(cancelled)} cancelled`,
  ];
  return [
    total > 0 && progressBar((100 * done) / total, { text: true }),
    h("p", { class: "faint" }, parts.filter(Boolean).join(" · ")),
  ];
}

//: The actions on one job; null if there are none.
function nodeMenu(node, retryFrom, cancelFrom) {
  const isOne = node.count === 1;
  const items = [
    isOne && node.state === "failed" && ["Retry from here", () => retryFrom(node), {}],
    isOne &&
      UNFINISHED.includes(node.state) && [
        "Cancel from here",
        () => cancelFrom(node),
        { danger: true },
      ],
  ].filter(Boolean);
  if (!can("manage") || !items.length) return null;
  const name = `Actions: job ${node.id}`;
  const list = () => items.map((one) => menuItem(...one));
  return menu("", list, { name, iconName: "more", end: true }).node;
}

function noFlow(id) {
  const text = "The job was never added, or it was removed.";
  const action = h("a", { class: "button", href: href("/jobs") }, "All jobs");
  return [
    h("header", { class: "page-head" }, h("h1", null, `Flow ${id}`)),
    emptyState({ title: "Flow not found", text, action }),
  ];
}
