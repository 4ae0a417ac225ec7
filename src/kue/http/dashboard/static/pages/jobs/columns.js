// Columns of the list of jobs, and the user's choice of them.

import { stateBadge } from "../../components/job-state.js";
import { progressBar } from "../../components/progress-bar.js";
import { h } from "../../lib/dom.js";
import { duration, nameAndQueue, number, timeAgo, timeSince } from "../../lib/format.js";
import { href } from "../../lib/router.js";
import { PRIORITIES } from "./filters.js";

const KEY = "kue.columns";
//: Default columns for each state, and for the list of all states.
const DEFAULTS = {
  waiting: ["type", "state", "data", "priority", "attempts", "created_at"],
  active: ["type", "state", "data", "attempts", "worker", "run"],
  delayed: ["type", "state", "data", "priority", "attempts", "promote_at"],
  blocked: ["type", "state", "data", "priority", "created_at"],
  complete: ["type", "data", "priority", "attempts", "run", "ended_at"],
  failed: ["type", "error", "data", "attempts", "run", "ended_at"],
  cancelled: ["type", "data", "priority", "attempts", "ended_at"],
};
const DEFAULTS_OF_ALL = ["type", "state", "data", "priority", "attempts", "run", "updated_at"];
//: Characters of the data in a row.
const DATA_LENGTH = 90;

//: *render* returns the content of a cell, *text* that of an exported file.
export const COLUMNS = [
  {
    key: "id",
    label: "Job",
    end: true,
    fixed: true,
    render: (job) => h("a", { href: href(`/jobs/${job.id}`) }, String(job.id)),
    text: (job) => job.id,
  },
  {
    key: "type",
    label: "Type",
    class: "name",
    render: (job) => nameCell(nameAndQueue(job)),
    text: (job) => nameAndQueue(job),
  },
  {
    key: "state",
    label: "State",
    render: (job) => [
      stateBadge(job.state),
      job.cancelling && h("span", { class: "note" }, " cancelling"),
      job.held && h("span", { class: "note", title: job.held }, " held"),
    ],
    text: (job) => job.state,
  },
  {
    key: "error",
    label: "Error",
    class: "wide cause",
    render: (job) => (job.error ? shortened(`${job.error.kind}: ${job.error.message}`) : ""),
    text: (job) => (job.error ? `${job.error.kind}: ${job.error.message}` : ""),
  },
  {
    key: "data",
    label: "Data",
    class: "code wide",
    render: (job) => shortened(job.data),
    text: (job) => json(job.data),
  },
  {
    key: "priority",
    label: "Priority",
    render: (job) => priorityName(job.priority),
    text: (job) => job.priority,
  },
  {
    key: "attempts",
    label: "Attempts",
    end: true,
    render: (job) => `${number(job.attempts)}/${job.max_attempts ? number(job.max_attempts) : "∞"}`,
    text: (job) => job.attempts,
  },
  {
    key: "run",
    label: "Run",
    end: true,
    class: "run",
    render: runCell,
    text: (job) => job.duration,
  },
  {
    key: "worker",
    label: "Worker",
    class: "name",
    render: (job) => nameCell(job.worker),
    text: (job) => job.worker,
  },
  {
    key: "tags",
    label: "Tags",
    render: (job) => job.tags.map((tag) => h("span", { class: "tag" }, tag)),
    text: (job) => job.tags.join(" "),
  },
  {
    key: "group",
    label: "Group",
    class: "name",
    render: (job) => nameCell(job.group),
    text: (job) => job.group,
  },
  timeColumn("created_at", "Created"),
  timeColumn("updated_at", "Changed"),
  timeColumn("promote_at", "Due"),
  timeColumn("ended_at", "Ended"),
];

//: The chosen columns, or the defaults for jobs in *state*, in order.
export function chosenColumns(state) {
  let keys = DEFAULTS[state] ?? DEFAULTS_OF_ALL;
  try {
    const saved = JSON.parse(localStorage.getItem(KEY) ?? "null");
    if (Array.isArray(saved)) keys = saved;
  } catch {
    // No storage, or its content is invalid.
  }
  return COLUMNS.filter((column) => column.fixed || keys.includes(column.key));
}

//: Save the chosen columns; null for the defaults.
export function saveColumns(keys) {
  try {
    if (keys === null) localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, JSON.stringify(keys));
  } catch {
    // No storage: the defaults apply next time.
  }
}

export function priorityName(priority) {
  return PRIORITIES.get(priority) ?? String(priority);
}

function json(value) {
  return value === null || value === undefined ? "" : JSON.stringify(value);
}

function nameCell(name) {
  return name ? h("span", { title: name }, name) : "";
}

function shortened(value) {
  const whole = typeof value === "string" ? value : json(value);
  const line = whole.split("\n", 1)[0];
  if (line.length <= DATA_LENGTH) return line;
  return h("span", { title: line.slice(0, 1000) }, `${line.slice(0, DATA_LENGTH)}…`);
}

function runCell(job) {
  if (job.state !== "active") return job.duration === null ? "" : duration(job.duration);
  return [timeSince(job.started_at), job.progress > 0 && progressBar(job.progress)];
}

function timeColumn(key, label) {
  return {
    key,
    label,
    render: (job) => (job[key] === null ? "" : timeAgo(job[key])),
    text: (job) => (job[key] === null ? "" : new Date(job[key]).toISOString()),
  };
}
