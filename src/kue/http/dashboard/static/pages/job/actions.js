// Actions on one job, with the dialogs that ask for data, priority or time.

import { formDialog } from "../../components/form.js";
import { toast } from "../../components/toast.js";
import { api } from "../../lib/api.js";
import { canDo, cancel, copyJob, promote, remove, retry } from "../../lib/job-actions.js";
import { can } from "../../lib/me.js";
import { go } from "../../lib/router.js";
import { PRIORITIES } from "../jobs/filters.js";

const REDACTED = "•••";

//: All possible actions on *job*, in the order of the menu: each {name, label, run,
//: danger?}.
export function jobActions(job) {
  if (!can("manage")) return [];
  const all = [
    canDo("retry", job) && act("retry", "Retry", () => retry(job)),
    canDo("promote", job) && act("promote", promoteLabel(job), () => promote(job)),
    canDo("cancel", job) && !job.cancelling && act("cancel", "Cancel", () => cancel(job)),
    act("copy", "Run a copy", () => copyJob(job)),
    canDo("retry", job) && act("retry-with", "Retry with different data…", () => retryWith(job)),
    act("copy-with", "Run a copy with different data…", () => copyWith(job)),
    act("edit", "Edit data…", () => editData(job)),
    act("priority", "Change priority…", () => changePriority(job)),
    canDo("cancel", job) && act("signal", "Send signal…", () => sendSignal(job)),
    job.state !== "active" && act("reschedule", "Reschedule…", () => reschedule(job)),
    canDo("remove", job) && act("remove", "Remove…", () => removeAndLeave(job), true),
  ];
  return all.filter(Boolean);
}

function promoteLabel({ state }) {
  return state === "blocked" ? "Run without waiting" : "Run now";
}

function act(name, label, run, danger = false) {
  return { name, label, run, danger };
}

function editData(job) {
  return formDialog({
    title: `Data of job ${job.id}`,
    text: job.state === "active" ? "The run in progress keeps the data it started with." : "",
    fields: [dataField(job)],
    submit: async ({ data }) => {
      await api.patch(`/jobs/${job.id}`, { data });
      toast(`Data of job ${job.id} is changed`, { tone: "good" });
    },
  });
}

function retryWith(job) {
  return formDialog({
    title: `Retry job ${job.id} with different data`,
    action: "Retry",
    fields: [dataField(job)],
    submit: async ({ data }) => {
      await api.post(`/jobs/${job.id}/retry`, { data, ended_at: job.ended_at });
      toast(`Job ${job.id} is requeued`, { tone: "good" });
    },
  });
}

function copyWith(job) {
  return formDialog({
    title: `Run a copy of job ${job.id} with different data`,
    action: "Run a copy",
    fields: [dataField(job)],
    submit: async ({ data }) => {
      const { id, is_new: isNew } = await api.post(`/jobs/${job.id}/copy`, { data });
      const text = isNew
        ? `Job ${id} is a copy of ${job.id}`
        : `Job ${id} already has this unique key`;
      toast(text, { tone: "good", action: { label: "Open", run: () => go(`/jobs/${id}`) } });
    },
  });
}

function dataField(job) {
  const text = JSON.stringify(job.data, null, 2);
  const isRedacted = text.includes(REDACTED);
  const help = isRedacted ? `JSON; values shown as ${REDACTED} are kept` : "JSON";
  return { name: "data", label: "Data", type: "json", rows: 14, value: text, help };
}

function changePriority(job) {
  const names = [...PRIORITIES].map(([number, name]) => `${name} is ${number}`);
  return formDialog({
    title: `Priority of job ${job.id}`,
    action: "Change",
    fields: [
      {
        name: "priority",
        label: "Priority",
        required: true,
        value: PRIORITIES.get(job.priority) ?? String(job.priority),
        help: `A name, or a number from -1024 (first) to 1023: ${names.join(", ")}`,
        parse: (text) => (/^[+-]?\d+$/.test(text.trim()) ? Number(text) : text.trim()),
      },
    ],
    submit: async ({ priority }) => {
      await api.post(`/jobs/${job.id}/priority`, { priority });
      toast(`Job ${job.id} has priority ${priority}`, { tone: "good" });
    },
  });
}

function reschedule(job) {
  return formDialog({
    title: `Reschedule job ${job.id}`,
    text: "Enter a delay or a start time.",
    action: "Reschedule",
    fields: [
      { name: "delay", label: "Delay", placeholder: "10m", help: "For example 30s, 10m or 1h30m" },
      { name: "at", label: "Start time", type: "datetime-local", help: "In your time zone" },
    ],
    submit: async ({ delay, at }) => {
      const time = at ? { at: new Date(at).toISOString() } : {};
      await api.post(`/jobs/${job.id}/reschedule`, { ...(delay && { delay }), ...time });
      toast(`Job ${job.id} is rescheduled`, { tone: "good" });
    },
  });
}

function sendSignal(job) {
  return formDialog({
    title: `Send a signal to job ${job.id}`,
    text: "It is kept until the job waits for it; a job that waits continues at once.",
    action: "Send",
    fields: [
      { name: "name", label: "Name", required: true, value: job.pending?.name ?? "" },
      { name: "data", label: "Data", type: "json", rows: 6, value: "null", help: "JSON" },
    ],
    submit: async ({ name, data }) => {
      await api.post(`/jobs/${job.id}/signals`, { name, data });
      toast(`Signal ${name} is sent to job ${job.id}`, { tone: "good" });
    },
  });
}

async function removeAndLeave(job) {
  if (await remove(job)) go("/jobs");
}
