// The jobs of a queue that are next, and which priorities wait.

import { keyed } from "../../components/keyed.js";
import { panel } from "../../components/panel.js";
import { jobsPath } from "../../components/states.js";
import { api } from "../../lib/api.js";
import { fill, h } from "../../lib/dom.js";
import { number, timeAgo } from "../../lib/format.js";
import { href } from "../../lib/router.js";
import { PRIORITIES } from "../jobs/filter.js";

const SHOWN = 6;
//: Jobs whose priorities are counted.
const LOOKED_AT = 100;

//: Return {node, read(signal)}.
export function line(type) {
  const list = h("ol", { class: "lines" });
  const none = h("p", { class: "faint" }, "No waiting jobs.");
  const priorities = h("div", { class: "histogram" });
  const show = keyed(list, ({ id }) => id, entry);
  const all = h("a", { class: "more", href: jobsPath("waiting", type) }, "All waiting");

  async function read(signal) {
    const wanted = { state: "waiting", type, order: "asc", limit: LOOKED_AT };
    const { jobs, cursor } = await api.get("/jobs", wanted, { signal });
    none.hidden = jobs.length > 0;
    show(jobs.slice(0, SHOWN));
    fill(priorities, histogram(jobs, cursor === null));
  }

  return { node: panel("Next to run", { aside: all }, none, list, priorities), read };
}

function entry(job) {
  const node = h(
    "li",
    null,
    h("a", { href: href(`/jobs/${job.id}`) }, `#${job.id}`),
    h("span", null, spoken(job.priority)),
    h("span", { class: "faint" }, "added ", timeAgo(job.created_at)),
  );
  return { node, update: () => {} };
}

function histogram(jobs, isAll) {
  if (jobs.length === 0) return null;
  const counts = new Map();
  for (const { priority } of jobs) counts.set(priority, (counts.get(priority) ?? 0) + 1);
  const most = Math.max(...counts.values());
  const rows = [...counts]
    .sort(([a], [b]) => a - b)
    .map(([priority, count]) => {
      const bar = h("span", { class: "histogram-bar" });
      bar.style.width = `${(100 * count) / most}%`;
      return h(
        "div",
        { class: "histogram-row" },
        h("span", null, spoken(priority)),
        h("span", { class: "histogram-space" }, bar),
        h("span", { class: "end" }, number(count)),
      );
    });
  const whose = isAll ? "Priorities" : `Priorities of the first ${LOOKED_AT}`;
  return [h("h3", null, whose), rows];
}

function spoken(priority) {
  return PRIORITIES.get(priority) ?? String(priority);
}
