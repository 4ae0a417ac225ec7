// Dependencies of a job: its parent, the jobs it waits for, and a notice when one of them
// blocks it.

import { stateBadge } from "../../components/job-state.js";
import { api } from "../../lib/api.js";
import { fill, h } from "../../lib/dom.js";
import { canDo, retry, retryFrom } from "../../lib/job-actions.js";
import { refresher } from "../../lib/live.js";
import { href } from "../../lib/router.js";

//: Dependencies that are read at most; the others are counted.
const MAX_READ = 20;
//: Dependencies in the notice at most.
const MAX_NAMED = 3;
//: The type of batches: retrying one retries its jobs.
const BATCH = "kue.batch";
//: When it runs, by what it does when a dependency fails.
const CONDITIONS = {
  block: "Runs when these are complete:",
  cancel: "Runs when these are complete, and is cancelled when one fails:",
  run: "Runs when these have ended:",
  only: "Runs only when one of these fails:",
};

//: Return {node, notice, show(job), stop()}: a list with the state of each, and a notice
//: with a retry button for those that failed.
export function dependencies() {
  const node = h("div", { class: "needs" });
  const notice = h("div", { class: "job-notes" });
  let stop = () => {};

  function show(job) {
    stop();
    stop = () => {};
    const first = neededBy(job).slice(0, MAX_READ);
    // Once it is no longer blocked, they do not matter and may have been removed.
    if (job.state !== "blocked") {
      draw(job, first.map((id) => ({ id })));
      return;
    }
    // Events of the dependencies: those of this job do not report that one failed.
    stop = refresher(
      async (signal) => draw(job, await Promise.all(first.map((id) => readJob(id, signal)))),
      { jobIds: first },
    );
  }

  function draw(job, found) {
    const rest = neededBy(job).length - found.length;
    fill(
      node,
      job.parent !== null && h("p", null, "Part of ", jobLink(job.parent)),
      h("p", null, h("a", { href: href(`/flows/${job.id}`) }, "Graph of the flow")),
      neededBy(job).length > 0 && h("p", { class: "faint" }, CONDITIONS[job.on_parent_failure]),
      h("ul", null, found.map(item)),
      rest > 0 && h("p", { class: "faint" }, `and ${rest} more`),
    );
    const failed = job.on_parent_failure === "block" ? found.filter(isFailed) : [];
    fill(notice, failed.slice(0, MAX_NAMED).map(failedView));
  }

  return { node, notice, show, stop: () => stop() };
}

export function hasDependencies(job) {
  return job.parent !== null || job.flow !== null || job.after.length > 0;
}

//: The jobs that it waits for, first those that failed: they may be inserted ones.
function neededBy(job) {
  return [...new Set([...job.failed_parents, ...job.after])];
}

function isFailed({ state }) {
  return state === "failed" || state === "cancelled";
}

function failedView(parent) {
  const { id, type, state, error } = parent;
  const ended = state === "failed" ? "failed" : "was cancelled";
  const why = error ? ` (${error.kind}: ${error.message.split("\n", 1)[0]})` : "";
  const retryParent = () => (type === BATCH ? retryFrom(id) : retry(parent));
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
    canDo("retry", parent) &&
      h("button", { class: "primary", onclick: retryParent }, `Retry ${id}`),
  );
}

async function readJob(id, signal) {
  try {
    return await api.get(`/jobs/${id}`, null, { signal });
  } catch (problem) {
    if (!problem.isMissing) throw problem;
    return { id, state: null };
  }
}

function item({ id, type, state }) {
  if (state === null) {
    return h("li", null, String(id), h("span", { class: "faint" }, "was removed"));
  }
  return h("li", null, jobLink(id), type, state && stateBadge(state));
}

function jobLink(id) {
  return h("a", { href: href(`/jobs/${id}`) }, String(id));
}
