// What can be done to jobs, by whoever may, from several pages.

import { confirm, confirmTyping } from "../components/dialog.js";
import { toast, toastProblem } from "../components/toast.js";
import { api } from "./api.js";
import { number, plural } from "./format.js";
import { can } from "./me.js";
import { go } from "./router.js";

//: Milliseconds in which a destructive act on many jobs can be called off.
const UNDO = 5_000;
//: Milliseconds between two looks at how far an act on many jobs is.
const LOOK = 400;

//: What waits for its moment of undo to pass, and is sent at once when the page goes away.
const pending = new Set();
window.addEventListener("pagehide", () => {
  for (const send of [...pending]) send();
});

const ENDED = ["complete", "failed", "cancelled"];
const UNFINISHED = ["waiting", "active", "delayed", "blocked"];
//: The states from which each act is possible.
const STATES = {
  retry: ENDED,
  cancel: UNFINISHED,
  promote: ["delayed", "blocked"],
  remove: ["waiting", "delayed", "blocked", ...ENDED],
  copy: [...UNFINISHED, ...ENDED],
};
const PAST = {
  retry: "Retried",
  cancel: "Cancelled",
  promote: "Promoted",
  remove: "Removed",
};
const DOING = {
  retry: "Retrying",
  cancel: "Cancelling",
  promote: "Promoting",
  remove: "Removing",
};

//: Whether *act* ("retry", "cancel", "promote", "remove", "copy") is possible here.
export function canDo(act, job) {
  if (!can(act === "remove" ? "remove" : "manage")) return false;
  return STATES[act].includes(job.state);
}

//: Whether jobs in *state* can be acted on so; null for any state.
export function isPossible(act, state) {
  return state === null || STATES[act].includes(state);
}

//: Put an ended job back in line, with different data if some is given.
export async function retry(job, data) {
  // Of two who press the button on the same failure, one retries it.
  const body = { data, ended_at: job.ended_at };
  return done(`Job ${job.id} is queued again`, api.post(`/jobs/${job.id}/retry`, body));
}

export async function promote(job) {
  return done(`Job ${job.id} runs next`, api.post(`/jobs/${job.id}/promote`));
}

export async function cancel(job) {
  if (job.state === "active") {
    const text = "It is running: its worker is asked to stop it.";
    const title = `Cancel job ${job.id}?`;
    if (!(await confirm({ title, text, action: "Cancel the job", danger: true })))
      return false;
  }
  try {
    const { ended } = await api.post(`/jobs/${job.id}/cancel`);
    const told = ended
      ? `Job ${job.id} is cancelled`
      : `Job ${job.id} is being cancelled`;
    toast(told, { tone: "good" });
    return true;
  } catch (error) {
    toastProblem(error);
    return false;
  }
}

//: Delete a job for good, once that is confirmed.
export async function remove(job) {
  const isSure = await confirmTyping({
    title: `Remove job ${job.id}?`,
    text: "The job and its log are deleted permanently.",
    word: "remove",
    action: "Remove",
  });
  if (!isSure) return false;
  return done(`Job ${job.id} is removed`, api.delete(`/jobs/${job.id}`));
}

//: Add a job like this one; the message leads to it.
export async function copyJob(job, data) {
  try {
    const body = data === undefined ? undefined : { data };
    const { id, is_new } = await api.post(`/jobs/${job.id}/copy`, body);
    const told = is_new
      ? `Job ${id} is a copy of ${job.id}`
      : `Job ${id} already has this unique key`;
    toast(told, {
      tone: "good",
      action: { label: "Open", run: () => go(`/jobs/${id}`) },
    });
    return id;
  } catch (error) {
    toastProblem(error);
    return null;
  }
}

//: Do *act* to many jobs: {ids} or {filter}.  Shows how far it is and can be stopped;
//: removing and cancelling wait a moment in which they can be undone.  *count* is how
//: many there are, if known.  Returns a promise of the last status, or null.
export async function bulk(act, target, { count = target.ids?.length } = {}) {
  if (act === "remove" && !(await isSure(count))) return null;
  const what = count === undefined ? "all that match" : plural(count, "job");
  const isDestructive = act === "remove" || act === "cancel";
  const body = { action: act, ...target };
  if (isDestructive && !(await notUndone(`${DOING[act]} ${what}`, body))) return null;
  const message = toast(`${DOING[act]} ${what}`, { ms: 0 });
  message.progress(0, undefined);
  try {
    const { id } = await api.post("/jobs/bulk", body);
    const stop = () => api.delete(`/jobs/bulk/${id}`).catch(toastProblem);
    message.act({ label: "Stop", run: stop });
    return await follow(id, act, count, message);
  } catch (error) {
    message.close();
    toastProblem(error);
    return null;
  }
}

async function follow(id, act, count, message) {
  for (;;) {
    const status = await api.get(`/jobs/bulk/${id}`);
    const { looked_at: seen, done: made, changed, held } = status;
    message.progress(seen, count && Math.max(count, seen));
    message.update(
      `${DOING[act]}: ${number(made)}${count ? ` of ${number(count)}` : ""}`,
    );
    if (status.state !== "running") {
      message.act(null);
      message.progress(null);
      const left = changed + held;
      const rest = left ? `, ${number(left)} unchanged` : "";
      const end = {
        done: "",
        stopped: " (stopped)",
        failed: ` (failed: ${status.error})`,
      };
      const tone = status.state === "failed" ? "bad" : "good";
      message.update(`${PAST[act]} ${plural(made, "job")}${rest}${end[status.state]}`, {
        tone,
        ms: 6_000,
      });
      return status;
    }
    await new Promise((resolve) => window.setTimeout(resolve, LOOK));
  }
}

function isSure(count) {
  const what = count === undefined ? "All jobs that match" : plural(count, "job");
  const text = `${what} and their logs will be deleted permanently.`;
  return confirmTyping({
    title: "Remove jobs?",
    text,
    word: "remove",
    action: "Remove",
  });
}

//: Wait for a moment; false when it was undone, or the page went away and *body* was sent.
function notUndone(text, body) {
  return new Promise((resolve) => {
    const action = { label: "Undo", run: () => end(false) };
    const message = toast(`${text} in a few seconds`, { ms: 0, action });
    const began = Date.now();
    const timer = window.setInterval(() => {
      const passed = Date.now() - began;
      message.progress(passed, UNDO);
      if (passed >= UNDO) end(true);
    }, 100);

    function end(isMeant) {
      window.clearInterval(timer);
      pending.delete(leave);
      message.close();
      resolve(isMeant);
    }

    function leave() {
      end(false);
      sendLast("/jobs/bulk", body);
    }

    pending.add(leave);
  });
}

//: Send what outlives the page; nobody reads the answer.
function sendLast(path, body) {
  const headers = { "Content-Type": "application/json" };
  const options = { method: "POST", headers, body: JSON.stringify(body), keepalive: true };
  fetch(api.url(path), options).catch(() => {});
}

async function done(told, promise) {
  try {
    await promise;
    toast(told, { tone: "good" });
    return true;
  } catch (error) {
    toastProblem(error);
    return false;
  }
}
