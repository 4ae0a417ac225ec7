// The jobs that a job belongs to or waits for.

import { stateBadge } from "../../components/state.js";
import { api } from "../../lib/api.js";
import { fill, h } from "../../lib/dom.js";
import { href } from "../../lib/router.js";

//: Looked up at most; the others are named.
const MOST = 20;

//: Return {node, show(job)}: a list with the state that each of them is in.
export function needs() {
  const node = h("div", { class: "needs" });

  async function show(job) {
    const first = job.after.slice(0, MOST);
    // Once it is blocked no more they may be gone, and do not matter.
    const isBlocked = job.state === "blocked";
    const found = isBlocked ? await Promise.all(first.map(look)) : first.map((id) => ({ id }));
    const rest = job.after.length - first.length;
    const how = job.after_any ? "in any way" : "well";
    fill(
      node,
      job.parent !== null && h("p", null, "Part of ", jobLink(job.parent)),
      job.after.length > 0 &&
        h("p", { class: "faint" }, `Runs when these ended ${how}:`),
      h("ul", null, found.map(line)),
      rest > 0 && h("p", { class: "faint" }, `and ${rest} more`),
    );
  }

  return { node, show };
}

export function hasNeeds(job) {
  return job.parent !== null || job.after.length > 0;
}

async function look(id) {
  try {
    return await api.get(`/jobs/${id}`);
  } catch {
    return { id, state: null };
  }
}

function line({ id, type, state }) {
  if (state === null) {
    return h("li", null, String(id), h("span", { class: "faint" }, "is gone"));
  }
  return h("li", null, jobLink(id), type, state && stateBadge(state));
}

function jobLink(id) {
  return h("a", { href: href(`/jobs/${id}`) }, String(id));
}
