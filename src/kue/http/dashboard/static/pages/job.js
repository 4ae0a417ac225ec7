// Job page: state, timeline, data, result, attempts, log and actions of one job.

import { copyButton } from "../components/clipboard.js";
import { emptyState } from "../components/empty-state.js";
import { stateBadge } from "../components/job-state.js";
import { jsonTree } from "../components/json-tree.js";
import { menu, menuItem } from "../components/menu.js";
import { panel } from "../components/panel.js";
import { progressBar } from "../components/progress-bar.js";
import { api, pathSegment } from "../lib/api.js";
import { fill, h } from "../lib/dom.js";
import { nameAndQueue, time, timeAgo } from "../lib/format.js";
import { live, refresher } from "../lib/live.js";
import { can } from "../lib/me.js";
import { href } from "../lib/router.js";
import { deadLetterOf, letterLink, replay } from "./errors/dead-letters.js";
import { jobActions } from "./job/actions.js";
import { attemptsView, keyOf } from "./job/attempts.js";
import { dependencies, hasDependencies } from "./job/dependencies.js";
import { detailsOf, factList } from "./job/details.js";
import { logPanel } from "./job/log.js";
import { asBody, codeView } from "./job/snippets.js";
import { pendingNote, stepsView } from "./job/steps.js";
import { streamView } from "./job/stream.js";
import { timeline } from "./job/timeline.js";
import { heldNote } from "./limits/words.js";

//: Actions with a button; all others are in the menu.
const FIRST = ["retry", "promote", "cancel"];
//: Milliseconds between reads of a job that waits.
const HELD_POLL = 5_000;
//: Characters of progress data that fit on a line.
const SHORT = 120;
//: What the tag of a schedule's jobs begins with, before its name.
const SCHEDULE_TAG = "schedule:";
const NO_STEPS = { steps: [], signals: [], pending: null };
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
    // Subscribed first, so that a removed job is not requested again.
    const off = live.on((events) => {
      if (!events.some(({ kind }) => kind === "remove")) return;
      stop();
      view.showRemoved();
    }, { kinds: ["remove"], jobIds: [jobId] });
    // There is no event when a limit begins to hold a job, nor when others run under it.
    const isDue = () => view.isWaiting;
    stop = refresher((signal) => view.read(signal), {
      minMs: 300,
      everyMs: HELD_POLL,
      isDue,
      jobIds: [jobId],
    });
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
    this._dependencies = dependencies();
    this._code = codeView();
    this._steps = stepsView();
    this._stream = streamView(api, id, () => (this._streamPanel.hidden = false));
    this.node = h("div", { class: "job-page" });
    this._sections = null;
  }

  async read(signal) {
    try {
      const [job, steps] = await Promise.all([
        api.get(`/jobs/${this._id}`, null, { signal }),
        // The rest of the page is worth showing without them.
        api.get(`/jobs/${this._id}/steps`, null, { signal }).catch(() => NO_STEPS),
      ]);
      this._show({ ...job, pending: job.state === "delayed" ? steps.pending : null });
      this._stepsPanel.hidden = !this._steps.show(steps);
    } catch (problem) {
      if (problem.status !== 404) throw problem;
      this.showRemoved();
    }
  }

  get isWaiting() {
    return this._job?.state === "waiting";
  }

  stop() {
    this._log.stop();
    this._stream.stop();
    this._timeline.stop();
    this._dependencies.stop();
  }

  _show(job) {
    this._job = job;
    if (!this._sections) this._build();
    for (const show of this._sections) show(job);
    this._timeline.show(job);
    this._log.follow(job.state);
    this._stream.follow(job.state);
    this._ctx.setTitle(`Job ${job.id}, ${job.state}`);
    this._ctx.actions(jobActions(job).map(({ label, run }) => ({ label, run })));
  }

  //: The job does not exist, or not any more; its last known data stays on the page.
  showRemoved() {
    this.stop();
    this._ctx.actions([]);
    if (!this._job) {
      if (!this._sections) fill(this.node, noJob(this._id));
      return;
    }
    this._job = null;
    this.node.classList.add("is-gone");
    const note = h("span", { class: "note", role: "status" }, "This job was removed.");
    fill(this._slots.actions, note);
  }

  _build() {
    const slots = {
      title: h("div", { class: "job-title" }),
      actions: h("div", { class: "actions" }),
      notes: h("div", { class: "job-notes" }),
      letter: h("div", { class: "job-notes" }),
      progress: h("div", { class: "job-progress" }),
      attempts: h("div", { class: "endings" }),
      details: h("div"),
      data: h("div"),
      result: h("div"),
    };
    const result = panel("Result", {}, slots.result);
    this._stepsPanel = panel("Steps", {}, this._steps.node);
    this._streamPanel = panel("Stream", {}, this._stream.node);
    this._streamPanel.hidden = true;
    const links = panel("Dependencies", {}, this._dependencies.node);
    const text = () => JSON.stringify(this._job?.data ?? null, null, 2);
    const copyData = copyButton(text, "Copy the data");
    this._slots = slots;
    fill(
      this.node,
      h("header", { class: "page-head" }, slots.title, slots.actions),
      slots.notes,
      slots.letter,
      this._dependencies.notice,
      slots.progress,
      panel("Timeline", {}, this._timeline.node),
      h(
        "div",
        { class: "job-columns" },
        h(
          "div",
          { class: "job-main" },
          panel("Data", { aside: copyData }, slots.data),
          this._streamPanel,
          result,
          this._stepsPanel,
          panel("Attempts", {}, slots.attempts),
          panel("Log", {}, this._log.node),
        ),
        h(
          "div",
          { class: "job-side" },
          panel("Details", {}, slots.details),
          links,
          panel("Run a similar job", {}, this._code.node),
        ),
      ),
    );
    this._sections = [
      section(slots.title, titleOf, (job) => titleView(job)),
      section(slots.actions, buttonsOf, () => this._buttons()),
      section(slots.notes, notesOf, notesView),
      section(slots.progress, progressOf, progressView),
      section(slots.details, ({ data, result: _, history, error, pending, ...rest }) => rest, (job) =>
        factList(detailsOf(job)),
      ),
      section(slots.data, (job) => job.data, (job) => jsonTree(job.data)),
      section(slots.result, (job) => job.result, (job) => jsonTree(job.result)),
      section(slots.attempts, (job) => job.history, (job) => this._attempts(job)),
      onChange((job) => [job.after, job.parent, job.state], (job) => {
        links.hidden = !hasDependencies(job);
        if (hasDependencies(job)) this._dependencies.show(job);
      }),
      onChange(asBody, (job) => this._code.show(job)),
      onChange(({ state }) => state, async (job) => {
        // Without it the page is complete all the same.
        fill(slots.letter, await letterLink(job).catch(() => null));
      }),
      onChange((job) => job.state, (job) => {
        result.hidden = job.state !== "complete" || job.result === null;
        this._log.refresh();
      }),
    ];
    this._ctx.keys(this._keys());
  }

  _buttons() {
    const all = jobActions(this._job);
    const run = (name) => this._run(name);
    // A blocked job waits for a reason: running it now is not the first choice.
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

  //: Act on the job in its current state.
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
    const openByKey = new Map(
      [...this._slots.attempts.querySelectorAll("details[data-key]")].map((node) => [
        node.dataset.key,
        node.open,
      ]),
    );
    return attemptsView(job, (entry, isLast) => {
      return openByKey.get(keyOf(entry)) ?? (isLast && entry.error !== null);
    });
  }
}

//: Return show(job), which redraws *node* when the fields that *select* returns change.
function section(node, select, draw) {
  return onChange(select, (job) => {
    const focused = document.activeElement;
    const hadFocus = node.contains(focused);
    fill(node, draw(job));
    if (!hadFocus) return;
    const candidates = [...node.querySelectorAll("a, button, summary")];
    candidates.find((one) => one.textContent === focused.textContent)?.focus();
  });
}

function onChange(select, act) {
  let last;
  return (job) => {
    const text = JSON.stringify(select(job) ?? null);
    if (text === last) return;
    last = text;
    act(job);
  };
}

function buttonsOf(job) {
  return [job.state, jobActions(job).map(({ name }) => name)];
}

function titleOf({ name, type, state, cancelling }) {
  return [name, type, state, cancelling];
}

function titleView(job) {
  const path = `/jobs?${new URLSearchParams({ type: job.type })}`;
  return [
    h("h1", null, `Job ${job.id}`),
    h("a", { class: "job-type", href: href(path) }, nameAndQueue(job)),
    stateBadge(job.state),
    job.cancelling && h("span", { class: "note" }, "cancelling"),
  ];
}

function notesOf(job) {
  const { held, held_until: until, state, promote_at: due, error, tags, data, pending } = job;
  return [held, until, state, due, error, tags, data, pending];
}

//: "Added by schedule NAME, for 09:00:00"; null for other jobs.
function scheduleNote({ tags, meta }) {
  const tag = tags.find((one) => one.startsWith(SCHEDULE_TAG));
  const at = Date.parse(meta.scheduled_for ?? "");
  if (!tag || Number.isNaN(at)) return null;
  const name = tag.slice(SCHEDULE_TAG.length);
  const link = h("a", { href: href(`/schedules/${pathSegment(name)}`) }, name);
  return h("p", { class: "job-note" }, "Added by schedule ", link, `, for ${time(at)}`);
}

//: "Dead letter of job 7 (email)", with the way back; null for other jobs.
function deadLetterNote(job) {
  const letter = deadLetterOf(job);
  if (!letter) return null;
  const link = h("a", { href: href(`/jobs/${letter.job_id}`) }, `job ${letter.job_id}`);
  const back = () => replay(job.type, [job.id]);
  return h(
    "p",
    { class: "job-note" },
    "Dead letter of ",
    link,
    ` (${letter.type}), which failed: ${letter.error.kind}: ${letter.error.message} `,
    can("manage") && h("button", { onclick: back }, "Replay"),
  );
}

function notesView(job) {
  const due = job.state === "delayed" && !job.pending && job.promote_at;
  const like = job.fingerprint ? { fingerprint: job.fingerprint } : { error: job.error?.kind };
  const similar = new URLSearchParams({ state: "failed", type: job.type, ...like });
  return [
    scheduleNote(job),
    deadLetterNote(job),
    job.held && heldNote(job),
    due && h("p", { class: "job-note" }, "Due ", timeAgo(due)),
    pendingNote(job.pending),
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
  const hasBar = state === "active" || (progress > 0 && progress < 100);
  const known = state === "active" && progress === 0 ? null : progress;
  return [
    hasBar && progressBar(known, { text: true }),
    data !== null && progressData(data),
  ];
}

function progressData(data) {
  const text = JSON.stringify(data);
  return text.length <= SHORT ? h("code", { class: "soft" }, text) : jsonTree(data);
}

function noJob(id) {
  const text = "It was never added, or it was removed. Finished jobs are kept only for a while.";
  const action = h("a", { class: "button", href: href("/jobs") }, "All jobs");
  return [
    h("header", { class: "page-head" }, h("h1", null, `Job ${id}`)),
    emptyState({ title: "Job not found", text, action }),
  ];
}
