// What can be done to the jobs that are selected, or to all that match.

import { bulk, fits } from "../../lib/actions.js";
import { fill, h } from "../../lib/dom.js";
import { plural } from "../../lib/format.js";
import { can } from "../../lib/me.js";

const ACTS = [
  ["retry", "Retry"],
  ["promote", "Run now"],
  ["cancel", "Cancel"],
  ["remove", "Remove"],
];

//: A bar that is there while something is selected.
//:
//: *matching()* is what all that match means: {filter, count} or null when no one state
//: is chosen, which the server wants.  *clear()* ends the selection; *onDone()* is called
//: when an act is over.
export function bulkBar({ matching, clear, onDone }) {
  const node = h("div", { class: "bulkbar", role: "region", "aria-label": "Selection" });
  node.hidden = true;
  let jobs = [];
  let isAll = false;

  function show(selected) {
    jobs = selected;
    if (jobs.length === 0) isAll = false;
    node.hidden = jobs.length === 0;
    draw();
  }

  function draw() {
    const all = matching();
    const told = isAll ? howMany(all) : `${plural(jobs.length, "job")} selected`;
    fill(
      node,
      h("b", { class: "bulk-count", role: "status" }, told),
      all && isMore(all) && h("button", { class: "link", onclick: takeAll }, whole(all)),
      h("span", { class: "bulk-acts" }, ACTS.filter(([act]) => isFor(act)).map(button)),
      h("button", { class: "plain", onclick: clear }, "Clear"),
    );
  }

  function isMore({ count }) {
    return !isAll && (count === undefined || count > jobs.length);
  }

  function takeAll() {
    isAll = true;
    draw();
  }

  function isFor(act) {
    if (!can(act === "remove" ? "remove" : "manage")) return false;
    if (isAll) return fits(act, matching().filter.state);
    return jobs.some((job) => fits(act, job.state));
  }

  function button([act, label]) {
    const kind = act === "remove" ? "danger" : "";
    return h("button", { class: kind, onclick: () => run(act) }, label);
  }

  //: Do *act* to what is selected; nothing happens when it fits none of it.
  async function run(act) {
    if (!isFor(act)) return;
    const all = matching();
    const target = isAll ? { filter: all.filter } : { ids: idsFor(act) };
    const count = isAll ? all.count : target.ids.length;
    clear();
    await bulk(act, target, { count });
    onDone();
  }

  function idsFor(act) {
    return jobs.filter((job) => fits(act, job.state)).map((job) => job.id);
  }

  return { node, show, run };
}

function whole({ count }) {
  return count === undefined ? "Select all that match" : `Select all ${plural(count, "job")}`;
}

function howMany({ count }) {
  return count === undefined ? "All that match" : `All ${plural(count, "job")} selected`;
}
