// The values that filters are known to have.

import { api } from "../../lib/api.js";
import { PRIORITIES } from "./filter.js";

const TIMES = ["15m", "1h", "24h", "7d", "30d"];

//: Values of the filter *name*: as the server lists them, or as the *jobs* shown have them.
export async function suggest(name, jobs) {
  switch (name) {
    case "type":
      return (await listed("/queues", "queues")).map((queue) => queue.type);
    case "worker":
      return (await listed("/workers", "workers")).map((worker) => worker.name);
    case "priority":
      return [...PRIORITIES.values()];
    case "since":
    case "until":
      return TIMES;
    case "tag":
      return distinct(jobs.flatMap((job) => job.tags));
    case "group":
      return distinct(jobs.map((job) => job.group));
    case "error":
      return distinct(jobs.map((job) => job.error?.kind));
    case "data.":
      return distinct(jobs.flatMap((job) => namesIn(job.data)));
    default:
      return [];
  }
}

//: What the server lists; nothing when it does not answer.
async function listed(path, name) {
  try {
    const answer = await api.get(path);
    return Array.isArray(answer) ? answer : (answer[name] ?? []);
  } catch {
    return [];
  }
}

//: The names at the top of *data* that a filter can say; texts and lists have none.
function namesIn(data) {
  const isNamed = data !== null && typeof data === "object" && !Array.isArray(data);
  return isNamed ? Object.keys(data).filter((name) => /^[^=:.\s]+$/.test(name)) : [];
}

function distinct(values) {
  return [...new Set(values.filter(Boolean))].sort();
}
