// Queue actions: pause, resume, clear, retry failed, promote delayed.

import { formDialog } from "../../components/form.js";
import { STATES } from "../../components/job-state.js";
import { toast, toastProblem } from "../../components/toast.js";
import { api, pathSegment } from "../../lib/api.js";
import { number, plural } from "../../lib/format.js";
import { bulk } from "../../lib/job-actions.js";

//: Ask for reason and duration, then pause a type, a worker or (with neither) everything.
//: Returns a promise of whether it was done.
export async function pause({ type = null, worker = null }) {
  const name = targetName({ type, worker });
  const isPaused = await formDialog({
    title: `Pause ${name}`,
    text: "Running jobs finish and jobs can still be added, but no new job starts.",
    fields: [
      { name: "reason", label: "Reason", placeholder: "shown with the pause" },
      {
        name: "for",
        label: "Duration",
        placeholder: "2h",
        help: "For example 30m, 2h or 1d. Leave empty to pause until someone resumes.",
      },
    ],
    action: "Pause",
    submit: ({ reason, for: lasts }) =>
      api.post(`${targetPath({ type, worker })}/pause`, {
        reason: reason.trim(),
        ...(lasts.trim() && { for: lasts.trim() }),
      }),
  });
  if (isPaused) toast(`${capitalized(name)} is paused`, { tone: "good" });
  return Boolean(isPaused);
}

//: Resume a type, a worker or everything.
export async function resume({ type = null, worker = null }) {
  try {
    await api.post(`${targetPath({ type, worker })}/resume`, {});
    toast(`${capitalized(targetName({ type, worker }))} is resumed`, { tone: "good" });
    return true;
  } catch (error) {
    toastProblem(error);
    return false;
  }
}

//: Ask for states and the name of the queue, then remove those jobs permanently.
export async function clear({ type, counts }) {
  const states = STATES.filter((state) => state !== "active" && counts[state] > 0);
  if (states.length === 0) {
    toast("Nothing to clear", { tone: "info" });
    return false;
  }
  const answer = await formDialog({
    title: `Clear ${type}`,
    text: "Jobs in the chosen states and their logs are deleted permanently.",
    danger: true,
    action: "Clear",
    fields: [
      ...states.map((state) => ({
        name: state,
        label: `${state} (${number(counts[state])})`,
        type: "check",
      })),
      { name: "word", label: `Type ${type} to continue`, parse: (text) => matching(text, type) },
    ],
    submit: (values) => {
      const chosen = states.filter((state) => values[state]);
      if (chosen.length === 0) throw new Error("choose at least one state");
      return api.post(`/queues/${pathSegment(type)}/clear`, { states: chosen });
    },
  });
  if (!answer) return false;
  toast(`Removed ${plural(answer.removed, "job")} of ${type}`, { tone: "good" });
  return true;
}

//: Retry all failed jobs of a queue, with progress.
export function retryFailed({ type, counts }) {
  return bulk("retry", { filter: { state: "failed", type } }, { count: counts.failed });
}

//: Promote all delayed jobs of a queue, with progress.
export function promoteDelayed({ type, counts }) {
  return bulk("promote", { filter: { state: "delayed", type } }, { count: counts.delayed });
}

// -- paths and names ---------------------------------------------------------------

function targetPath({ type, worker }) {
  if (type !== null) return `/queues/${pathSegment(type)}`;
  return worker !== null ? `/workers/${pathSegment(worker)}` : "";
}

function targetName({ type, worker }) {
  if (type !== null) return `queue ${type}`;
  return worker !== null ? `worker ${worker}` : "everything";
}

function capitalized(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function matching(text, word) {
  if (text.trim() === word) return text;
  throw Object.assign(new Error(`type ${word} to continue`), { field: "word" });
}
