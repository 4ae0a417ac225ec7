// One job: how it stands, what it did when, what went wrong, and what to do about it.

import { copyButton } from "../components/clipboard.js";
import { emptyState } from "../components/empty-state.js";
import { stateBadge } from "../components/job-state.js";
import { jsonTree } from "../components/json-tree.js";
import { menu, menuItem } from "../components/menu.js";
import { panel } from "../components/panel.js";
import { progressBar } from "../components/progress-bar.js";
import { api } from "../lib/api.js";
import { fill, h } from "../lib/dom.js";
import { timeAgo } from "../lib/format.js";
import { live, refresher } from "../lib/live.js";
import { href } from "../lib/router.js";
import { jobActions } from "./job/actions.js";
import { attemptsView, factList, keyOf } from "./job/attempts.js";
import { dependencies, hasDependencies } from "./job/dependencies.js";
import { detailsOf } from "./job/details.js";
import { logPanel } from "./job/log.js";
import { asBody, codeView } from "./job/snippets.js";
import { timeline } from "./job/timeline.js";

//: Buttons of their own; everything else is in the menu.
const FIRST = ["retry", "promote", "cancel"];
//: Characters of what a run says with its progress that fit on a line.
const SHORT = 120;
const KEYS = [
  ["r", "retry", "Retry"],
  ["n", "promote", "Run now"],
  ["c", "cancel", "Cancel"],
  ["e", "edit", "Edit the data"],
];

export const page = {
  path: "/jobs/:id",
  title: "Job",

  mount(root, ctx) {
    const { id } = ctx.params;
    ctx.setTitle(`Job ${id}`);
    if (!/^[1-9]\d{0,15}$/.test(id)) {
      root.append(...noJob(id));
      return () => {};
    }
    const jobId = Number(id);
    const view = new JobView(jobId, ctx);
    root.append(view.node);
    let stop = () => {};
    // Heard first, so that a job that is gone is not asked for again.
    const off = live.on((events) => {
      if (!events.some(({ kind }) => kind === "remove")) return;
      stop();
      view.leave();
    }, { kinds: ["remove"], jobIds: [jobId] });
    stop = refresher((signal) => view.read(signal), { minMs: 300, jobIds: [jobId] });
    return () => {
      off();
      stop();
      view.stop();
    };
  },
};

class JobView {
  constructor(id, ctx) {
    this._id = id;
    this._ctx = ctx;
    this._job = null;
    this._log = logPanel(api, id);
    this._timeline = timeline(() => Date.now());
    this._needs = dependencies();
    this._code = codeView();
    this.node = h("div", { class: "job-page" });
    this._parts = null;
  }

  async read(signal) {
    try {
      this._show(await api.get(`/jobs/${this._id}`, null, { signal }));
    } catch (problem) {
      if (problem.status !== 404) throw problem;
      this.leave();
    }
  }

  stop() {
    this._log.stop();
    this._timeline.stop();
    this._needs.stop();
  }

  _show(job) {
    this._job = job;
    if (!this._parts) this._build();
    for (const part of this._parts) part(job);
    this._timeline.show(job);
    this._log.follow(job.state);
    this._ctx.setTitle(`Job ${job.id}, ${job.state}`);
    this._ctx.actions(jobActions(job).map(({ label, run }) => ({ label, run })));
  }

  //: There is no such job, or no more; what was known of it stays.
  leave() {
    this.stop();
    this._ctx.actions([]);
    if (!this._job) {
      if (!this._parts) fill(this.node, noJob(this._id));
      return;
    }
    this._job = null;
    this.node.classList.add("is-gone");
    const told = h("span", { class: "note", role: "status" }, "This job was removed.");
    fill(this._heads.actions, told);
  }

  _build() {
    const heads = {
      title: h("div", { class: "job-title" }),
      actions: h("div", { class: "actions" }),
      notes: h("div", { class: "job-notes" }),
      progress: h("div", { class: "job-progress" }),
      attempts: h("div", { class: "endings" }),
      facts: h("div"),
      data: h("div"),
      result: h("div"),
    };
    const result = panel("Result", {}, heads.result);
    const links = panel("Dependencies", {}, this._needs.node);
    const text = () => JSON.stringify(this._job?.data ?? null, null, 2);
    const copyData = copyButton(text, "Copy the data");
    this._heads = heads;
    fill(
      this.node,
      h("header", { class: "page-head" }, heads.title, heads.actions),
      heads.notes,
      this._needs.notice,
      heads.progress,
      panel("Timeline", {}, this._timeline.node),
      h(
        "div",
        { class: "job-columns" },
        h(
          "div",
          { class: "job-main" },
          panel("Data", { aside: copyData }, heads.data),
          result,
          panel("Attempts", {}, heads.attempts),
          panel("Log", {}, this._log.node),
        ),
        h(
          "div",
          { class: "job-side" },
          panel("Details", {}, heads.facts),
          links,
          panel("Run a similar job", {}, this._code.node),
        ),
      ),
    );
    this._parts = [
      part(heads.title, titleOf, (job) => titleView(job)),
      part(heads.actions, buttonsOf, () => this._buttons()),
      part(heads.notes, notesOf, notesView),
      part(heads.progress, progressOf, progressView),
      part(heads.facts, ({ data, result: _, history, error, ...rest }) => rest, (job) =>
        factList(detailsOf(job)),
      ),
      part(heads.data, (job) => job.data, (job) => jsonTree(job.data)),
      part(heads.result, (job) => job.result, (job) => jsonTree(job.result)),
      part(heads.attempts, (job) => job.history, (job) => this._attempts(job)),
      once((job) => [job.after, job.parent, job.state], (job) => {
        links.hidden = !hasDependencies(job);
        if (hasDependencies(job)) this._needs.show(job);
      }),
      once(asBody, (job) => this._code.show(job)),
      once((job) => job.state, (job) => {
        result.hidden = job.state !== "complete" || job.result === null;
        this._log.refresh();
      }),
    ];
    this._ctx.keys(this._keys());
  }

  _buttons() {
    const all = jobActions(this._job);
    const run = (name) => this._run(name);
    // A blocked job waits for a reason: to run it all the same is not the first choice.
    const isBlocked = this._job.state === "blocked";
    const isFirst = ({ name }) => FIRST.includes(name) && !(isBlocked && name === "promote");
    const first = all.filter(isFirst);
    const rest = all.filter((one) => !isFirst(one));
    const item = ({ name, label, danger }) => menuItem(label, () => run(name), { danger });
    const button = ({ name, label }) => {
      const kind = name === "cancel" ? "" : "primary";
      return h("button", { class: kind, onclick: () => run(name) }, label);
    };
    const more = menu("More", () => rest.map(item), { name: "More actions", end: true });
    return [first.map(button), rest.length > 0 && more.node];
  }

  //: Do it to the job as it is by now.
  _run(name) {
    if (!this._job) return;
    jobActions(this._job).find((one) => one.name === name)?.run();
  }

  _keys() {
    const act = (name, label) => ({ label, run: () => this._run(name) });
    const acts = KEYS.map(([key, name, label]) => [key, act(name, label)]);
    const search = { label: "Search the log", run: () => this._log.search.focus() };
    return { ...Object.fromEntries(acts), l: search };
  }

  _attempts(job) {
    if (!job.history.length) return h("p", { class: "faint" }, "No run has finished yet.");
    const known = new Map(
      [...this._heads.attempts.querySelectorAll("details[data-key]")].map((node) => [
        node.dataset.key,
        node.open,
      ]),
    );
    return attemptsView(job, (entry, isLast) => {
      return known.get(keyOf(entry)) ?? (isLast && entry.error !== null);
    });
  }
}

//: Return show(job), which draws *node* anew when what it is about is another than before.
function part(node, about, draw) {
  return once(about, (job) => {
    const focused = document.activeElement;
    const hadFocus = node.contains(focused);
    fill(node, draw(job));
    if (!hadFocus) return;
    const again = [...node.querySelectorAll("a, button, summary")];
    again.find((one) => one.textContent === focused.textContent)?.focus();
  });
}

function once(about, act) {
  let last;
  return (job) => {
    const text = JSON.stringify(about(job) ?? null);
    if (text === last) return;
    last = text;
    act(job);
  };
}

function buttonsOf(job) {
  return [job.state, jobActions(job).map(({ name }) => name)];
}

function titleOf({ type, state, cancelling }) {
  return [type, state, cancelling];
}

function titleView(job) {
  const path = `/jobs?${new URLSearchParams({ type: job.type })}`;
  return [
    h("h1", null, `Job ${job.id}`),
    h("a", { class: "job-type", href: href(path) }, job.type),
    stateBadge(job.state),
    job.cancelling && h("span", { class: "note" }, "cancelling"),
  ];
}

function notesOf({ held, state, promote_at: due, error }) {
  return [held, state, due, error];
}

function notesView(job) {
  const due = job.state === "delayed" && job.promote_at;
  const like = job.fingerprint ? { fingerprint: job.fingerprint } : { error: job.error?.kind };
  const similar = new URLSearchParams({ state: "failed", type: job.type, ...like });
  return [
    job.held && h("p", { class: "job-note" }, `Held back: ${job.held}`),
    due && h("p", { class: "job-note" }, "Runs ", timeAgo(due)),
    job.error &&
      h(
        "div",
        { class: "job-error", role: "note" },
        h("b", null, job.error.kind),
        h("span", { class: "job-error-message" }, job.error.message.split("\n", 1)[0]),
        h("a", { href: href(`/jobs?${similar}`) }, "Similar failures"),
      ),
  ];
}

function progressOf({ state, progress, progress_data: data }) {
  return [state, progress, data];
}

function progressView({ state, progress, progress_data: data }) {
  if (state !== "active" && !(progress > 0 && progress < 100)) return null;
  return [
    progressBar(state === "active" && progress === 0 ? null : progress, { text: true }),
    data !== null && progressData(data),
  ];
}

function progressData(data) {
  const text = JSON.stringify(data);
  return text.length <= SHORT ? h("code", { class: "soft" }, text) : jsonTree(data);
}

function noJob(id) {
  const text = "It was never added, or it has been removed: finished jobs are kept for a while.";
  const action = h("a", { class: "button", href: href("/jobs") }, "All jobs");
  return [
    h("header", { class: "page-head" }, h("h1", null, `Job ${id}`)),
    emptyState({ title: "No such job", text, action }),
  ];
}
