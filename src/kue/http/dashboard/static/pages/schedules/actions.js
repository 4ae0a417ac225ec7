// Schedule actions: run now, pause, resume, remove.

import { confirm } from "../../components/dialog.js";
import { toast, toastDone, toastProblem } from "../../components/toast.js";
import { api, pathSegment } from "../../lib/api.js";
import { go } from "../../lib/router.js";

//: Add the job of a schedule now; the toast links to it.  Like the others it returns a
//: promise of whether it was done.
export async function runNow({ name }) {
  try {
    const { id, is_new: isNew } = await api.post(`${pathOf(name)}/run`);
    const text = isNew
      ? `Job ${id} of schedule ${name} is added`
      : `Job ${id} already has the unique key of schedule ${name}`;
    toast(text, { tone: "good", action: { label: "Open", run: () => go(`/jobs/${id}`) } });
    return true;
  } catch (error) {
    toastProblem(error);
    return false;
  }
}

//: Pause a schedule, or resume it.
export function togglePause({ name, paused }) {
  const [verb, word] = paused ? ["resume", "resumed"] : ["pause", "paused"];
  return toastDone(`Schedule ${name} is ${word}`, api.post(`${pathOf(name)}/${verb}`));
}

//: Delete a schedule, after a confirmation.
export async function remove({ name, declared_by: module }) {
  const text = module
    ? `It is declared in code, by ${module}, and comes back when a worker starts: pause it instead.`
    : "It adds no more jobs. Jobs that it has added stay.";
  const title = `Remove schedule ${name}?`;
  if (!(await confirm({ title, text, action: "Remove", danger: true }))) return false;
  return toastDone(`Schedule ${name} is removed`, api.delete(pathOf(name)));
}

//: The path of a schedule in the API.
export function pathOf(name) {
  return `/schedules/${pathSegment(name)}`;
}
