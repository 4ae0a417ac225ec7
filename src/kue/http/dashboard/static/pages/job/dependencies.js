// The jobs that a job belongs to or waits for, and a notice when one keeps it from running.

import { stateBadge } from "../../components/job-state.js";
import { api } from "../../lib/api.js";
import { fill, h } from "../../lib/dom.js";
import { canDo, retry } from "../../lib/job-actions.js";
import { refresher } from "../../lib/live.js";
import { href } from "../../lib/router.js";

//: Looked up at most; the others are counted.
const MOST = 20;
//: Named in the notice at most.
const NAMED = 3;

//: Return {node, notice, show(job), stop()}: a list with the state of each, and what to
//: do about those that failed.
export function dependencies() {
  const node = h("div", { class: "needs" });
  const notice = h("div", { class: "job-notes" });
  let stop = () => {};

  function show(job) {
    stop();
    stop = () => {};
    const first = job.after.slice(0, MOST);
    // Once it is no longer blocked they may be gone, and do not matter.
    if (job.state !== "blocked") {
      draw(job, first.map((id) => ({ id })));
      return;
    }
    // It hears of the others' events: those of this job do not say that one failed.
    stop = refresher(
      async (signal) => draw(job, await Promise.all(first.map((id) => look(id, signal)))),
      { jobIds: first },
    );
  }

  function draw(job, found) {
    const rest = job.after.length - found.length;
    const how = job.after_any ? "have ended" : "are complete";
    fill(
      node,
      job.parent !== null && h("p", null, "Part of ", jobLink(job.parent)),
      job.after.length > 0 && h("p", { class: "faint" }, `Runs when these ${how}:`),
      h("ul", null, found.map(line)),
      rest > 0 && h("p", { class: "faint" }, `and ${rest} more`),
    );
    const dead = job.after_any ? [] : found.filter(isDead);
    fill(notice, dead.slice(0, NAMED).map(deadView));
  }

  return { node, notice, show, stop: () => stop() };
}

export function hasDependencies(job) {
  return job.parent !== null || job.after.length > 0;
}

function isDead({ state }) {
  return state === "failed" || state === "cancelled";
}

function deadView(parent) {
  const { id, type, state, error } = parent;
  const ended = state === "failed" ? "failed" : "was cancelled";
  const why = error ? ` (${error.kind}: ${error.message.split("\n", 1)[0]})` : "";
  const again = () => retry(parent);
  return h(
    "div",
    { class: "job-error job-stuck", role: "note" },
    h("b", null, "Blocked"),
    h(
      "span",
      { class: "job-error-message" },
      "Job ",
      jobLink(id),
      ` of type ${type} ${ended}${why}. This job runs once job ${id} is complete.`,
    ),
    canDo("retry", parent) && h("button", { class: "primary", onclick: again }, `Retry ${id}`),
  );
}

async function look(id, signal) {
  try {
    return await api.get(`/jobs/${id}`, null, { signal });
  } catch (problem) {
    if (!problem.isMissing) throw problem;
    return { id, state: null };
  }
}

function line({ id, type, state }) {
  if (state === null) {
    return h("li", null, String(id), h("span", { class: "faint" }, "was removed"));
  }
  return h("li", null, jobLink(id), type, state && stateBadge(state));
}

function jobLink(id) {
  return h("a", { href: href(`/jobs/${id}`) }, String(id));
}
