// Worker actions: stop, and show stack traces.

import { copyButton } from "../../components/clipboard.js";
import { confirm, openDialog } from "../../components/dialog.js";
import { toast, toastProblem } from "../../components/toast.js";
import { api, pathSegment } from "../../lib/api.js";
import { fill, h } from "../../lib/dom.js";
import { time } from "../../lib/format.js";

//: Milliseconds between two requests for the stacks, and the timeout.
const POLL = 1_000;
const TIMEOUT = 30_000;

//: Ask a worker to finish its jobs and exit.
export async function stop({ name, active }) {
  const text = active
    ? "It claims no new jobs, finishes those it runs, and exits."
    : "It claims no new jobs and exits.";
  const title = `Stop worker ${name}?`;
  if (!(await confirm({ title, text, action: "Stop", danger: true }))) return false;
  try {
    await api.post(`/workers/${pathSegment(name)}/stop`);
    toast(`Worker ${name} was asked to stop`, { tone: "good" });
    return true;
  } catch (error) {
    toastProblem(error);
    return false;
  }
}

//: Show the stack traces of a worker, in a dialog.
export async function stacks({ name }) {
  const status = h("p", { class: "faint", role: "status" });
  const text = h("pre", { class: "stacks", tabindex: 0, hidden: true });
  const again = h("button", { type: "button", onclick: request }, "Refresh");
  const copy = h("span", { hidden: true }, copyButton(() => text.textContent, "Copy the stacks"));
  const dialog = openDialog({
    title: `Stacks of ${name}`,
    body: [status, text],
    actions: [copy, again],
    wide: true,
  });
  let isOpen = true;
  dialog.closed.then(() => (isOpen = false));

  async function request() {
    again.disabled = true;
    try {
      const before = await latest(name);
      await api.post(`/workers/${pathSegment(name)}/stacks`);
      fill(status, "Requested. The worker responds with its next heartbeat.");
      const found = await waitForStacks(name, before?.at, () => isOpen);
      if (found === null) {
        fill(status, "No response: the worker may have stopped, or its process is blocked.");
      } else {
        fill(status, `As of ${time(found.at)}`);
        fill(text, found.text);
        text.hidden = copy.hidden = false;
      }
    } catch (error) {
      fill(status, error.isMissing ? "Not supported by this worker." : error.message);
    } finally {
      again.disabled = false;
    }
  }

  await request();
}

async function waitForStacks(name, before, isWanted) {
  const end = Date.now() + TIMEOUT;
  while (isWanted() && Date.now() < end) {
    await new Promise((resolve) => window.setTimeout(resolve, POLL));
    const found = await latest(name);
    if (found && found.at !== before) return found;
  }
  return null;
}

//: The last stacks that a worker reported; null if there are none.
async function latest(name) {
  try {
    return await api.get(`/workers/${pathSegment(name)}/stacks`);
  } catch (error) {
    if (error.isMissing) return null;
    throw error;
  }
}
