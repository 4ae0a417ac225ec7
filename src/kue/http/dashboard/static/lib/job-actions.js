// Job actions: retry, cancel, promote, remove and copy, one job or many.

import { confirm, confirmTyping } from "../components/dialog.js";
import { toast, toastDone, toastProblem } from "../components/toast.js";
import { api } from "./api.js";
import { number, plural } from "./format.js";
import { can } from "./me.js";
import { go } from "./router.js";

//: Milliseconds within which a destructive bulk action can be undone.
const UNDO = 5_000;
//: Milliseconds between two requests for the progress of a bulk action.
const POLL = 400;

//: Actions that can still be undone; they are sent at once when the page is left.
const pending = new Set();
window.addEventListener("pagehide", () => {
  for (const send of [...pending]) send();
});

const FINISHED = ["complete", "failed", "cancelled"];
const UNFINISHED = ["waiting", "active", "delayed", "blocked"];
//: The states in which each action is possible.
const STATES = {
  retry: FINISHED,
  cancel: UNFINISHED,
  promote: ["delayed", "blocked"],
  remove: ["waiting", "delayed", "blocked", ...FINISHED],
  copy: [...UNFINISHED, ...FINISHED],
};
const PAST = {
  retry: "Retried",
  cancel: "Cancelled",
  promote: "Promoted",
  remove: "Removed",
};
const PRESENT = {
  retry: "Retrying",
  cancel: "Cancelling",
  promote: "Promoting",
  remove: "Removing",
};

//: Whether the user may do *action* ("retry", "cancel", "promote", "remove", "copy") to
//: this job in its current state.
export function canDo(action, job) {
  if (!can(action === "remove" ? "remove" : "manage")) return false;
  return STATES[action].includes(job.state);
}

//: Whether *action* is possible for jobs in *state*; null for any state.
export function isPossible(action, state) {
  return state === null || STATES[action].includes(state);
}

//: Requeue a finished job, with different data if some is given.
export async function retry(job, data) {
  // With ended_at, two users who press the button retry the same failure only once.
  const body = { data, ended_at: job.ended_at };
  return toastDone(`Job ${job.id} is requeued`, api.post(`/jobs/${job.id}/retry`, body));
}

//: Requeue a failed job that others wait for; of a batch, all its failed jobs.
export async function retryFrom(id) {
  return toastDone(`Job ${id} is requeued`, api.post(`/flows/${id}/retry`, { job: id }));
}

export async function promote(job) {
  return toastDone(`Job ${job.id} is promoted`, api.post(`/jobs/${job.id}/promote`));
}

export async function cancel(job) {
  if (job.state === "active") {
    const text = "It is running; its worker will be asked to stop it.";
    const title = `Cancel job ${job.id}?`;
    if (!(await confirm({ title, text, action: "Cancel the job", danger: true })))
      return false;
  }
  try {
    const { ended } = await api.post(`/jobs/${job.id}/cancel`);
    const text = ended
      ? `Job ${job.id} is cancelled`
      : `Job ${job.id} is being cancelled`;
    toast(text, { tone: "good" });
    return true;
  } catch (error) {
    toastProblem(error);
    return false;
  }
}

//: Delete a job permanently, after a confirmation.
export async function remove(job) {
  const isSure = await confirmTyping({
    title: `Remove job ${job.id}?`,
    text: "The job and its log are deleted permanently.",
    word: "remove",
    action: "Remove",
  });
  if (!isSure) return false;
  return toastDone(`Job ${job.id} is removed`, api.delete(`/jobs/${job.id}`));
}

//: Add a copy of a job; the toast links to it.
export async function copyJob(job, data) {
  try {
    const body = data === undefined ? undefined : { data };
    const { id, is_new } = await api.post(`/jobs/${job.id}/copy`, body);
    const text = is_new
      ? `Job ${id} is a copy of ${job.id}`
      : `Job ${id} already has this unique key`;
    toast(text, {
      tone: "good",
      action: { label: "Open", run: () => go(`/jobs/${id}`) },
    });
    return id;
  } catch (error) {
    toastProblem(error);
    return null;
  }
}

//: Do *action* to many jobs: {ids} or {filter}.  Shows progress and can be stopped;
//: removing and cancelling can be undone for a few seconds before they start.  *count*
//: is how many there are, if known.  Returns a promise of the last status, or null.
export async function bulk(action, target, { count = target.ids?.length } = {}) {
  if (action === "remove" && !(await isSure(count))) return null;
  const what = count === undefined ? "all matching jobs" : plural(count, "job");
  const isDestructive = action === "remove" || action === "cancel";
  const body = { action, ...target };
  if (isDestructive && !(await isNotUndone(`${PRESENT[action]} ${what}`, body))) return null;
  const message = toast(`${PRESENT[action]} ${what}`, { ms: 0 });
  message.progress(0, undefined);
  try {
    const { id } = await api.post("/jobs/bulk", body);
    const stop = () => api.post(`/jobs/bulk/${id}/stop`).catch(toastProblem);
    message.setAction({ label: "Stop", run: stop });
    return await follow(id, action, count, message);
  } catch (error) {
    message.close();
    toastProblem(error);
    return null;
  }
}

async function follow(id, action, count, message) {
  for (;;) {
    const status = await api.get(`/jobs/bulk/${id}`);
    const { looked_at: processed, done: succeeded, changed, held } = status;
    message.progress(processed, count && Math.max(count, processed));
    message.update(
      `${PRESENT[action]}: ${number(succeeded)}${count ? ` of ${number(count)}` : ""}`,
    );
    if (status.state !== "running") {
      message.setAction(null);
      message.progress(null);
      const left = changed + held;
      const rest = left ? `, ${number(left)} unchanged` : "";
      const end = {
        done: "",
        stopped: " (stopped)",
        failed: ` (failed: ${status.error})`,
      };
      const tone = status.state === "failed" ? "bad" : "good";
      message.update(`${PAST[action]} ${plural(succeeded, "job")}${rest}${end[status.state]}`, {
        tone,
        ms: 6_000,
      });
      return status;
    }
    await new Promise((resolve) => window.setTimeout(resolve, POLL));
  }
}

function isSure(count) {
  const what = count === undefined ? "All matching jobs" : plural(count, "job");
  const text = `${what} and their logs will be deleted permanently.`;
  return confirmTyping({
    title: "Remove jobs?",
    text,
    word: "remove",
    action: "Remove",
  });
}

//: Wait for an undo; false when it was undone, or the page was left and *body* was sent.
function isNotUndone(text, body) {
  return new Promise((resolve) => {
    const action = { label: "Undo", run: () => end(false) };
    const message = toast(`${text} in a few seconds`, { ms: 0, action });
    const began = Date.now();
    const timer = window.setInterval(() => {
      const passed = Date.now() - began;
      message.progress(passed, UNDO);
      if (passed >= UNDO) end(true);
    }, 100);

    function end(isConfirmed) {
      window.clearInterval(timer);
      pending.delete(leave);
      message.close();
      resolve(isConfirmed);
    }

    function leave() {
      end(false);
      sendOnLeave("/jobs/bulk", body);
    }

    pending.add(leave);
  });
}

//: Send a request that outlives the page; its response is not read.
function sendOnLeave(path, body) {
  const headers = { "Content-Type": "application/json" };
  const options = { method: "POST", headers, body: JSON.stringify(body), keepalive: true };
  fetch(api.url(path), options).catch(() => {});
}
