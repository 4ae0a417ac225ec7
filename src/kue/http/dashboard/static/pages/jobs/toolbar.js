// One tab for each state, with how many jobs are in it.

import { STATES } from "../../components/job-state.js";
import { fill, h } from "../../lib/dom.js";
import { number, plural, short } from "../../lib/format.js";
import { bulk, isPossible } from "../../lib/job-actions.js";
import { can } from "../../lib/me.js";

const ALL = "";
const WITHOUT = " without the filters: how many match is not counted";

//: Tabs that lead to the same list in another state.  *address(state)* is where a tab
//: leads; *onChoose(state)* is called on a plain click.
//:
//: Returns {node, show(state, counts, isFiltered)}; counts are null when they are not
//: known, and those of all jobs when only some are shown.
export function stateTabs(address, onChoose) {
  const tabs = [ALL, ...STATES].map((state) => {
    const count = h("span", { class: "tab-count" });
    const node = h(
      "a",
      { class: "tab", href: address(state), dataset: { state: state || "all" }, onclick },
      h("span", { class: "tab-name" }, state || "all"),
      count,
    );
    function onclick(event) {
      if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
      event.preventDefault();
      onChoose(state);
    }
    return { state, node, count };
  });
  const node = h(
    "nav",
    { class: "tabs", "aria-label": "States" },
    tabs.map((tab) => tab.node),
  );

  let revealed = "";

  //: Scroll to the current tab, once for each and once more when it has its count: a
  //: phone has not room for all.
  function reveal(current, counts) {
    const key = `${current} ${counts !== null}`;
    if (key === revealed) return;
    revealed = key;
    window.requestAnimationFrame(() => {
      const tab = node.querySelector("[aria-current]")?.getBoundingClientRect();
      const { left, right } = node.getBoundingClientRect();
      if (tab) node.scrollLeft += (tab.left + tab.right - left - right) / 2;
    });
  }

  function show(current, counts, isFiltered = false) {
    node.classList.toggle("is-filtered", isFiltered);
    const sum = counts && Object.values(counts).reduce((all, one) => all + one, 0);
    for (const tab of tabs) {
      const count = tab.state === ALL ? sum : counts?.[tab.state] ?? 0;
      tab.count.textContent = counts ? `${isFiltered ? "of " : ""}${short(count)}` : "";
      tab.node.classList.toggle("is-empty", count === 0);
      tab.count.title = counts ? `${number(count)}${isFiltered ? WITHOUT : ""}` : "";
      tab.node.href = address(tab.state);
      if (tab.state === current) tab.node.setAttribute("aria-current", "true");
      else tab.node.removeAttribute("aria-current");
    }
    reveal(current, counts);
  }

  return { node, show };
}

// -- order ------------------------------------------------------------------------

//: What the two orders are in each state; lists are sorted by what matters there.
const ORDERS = {
  waiting: { asc: "Next to run first", desc: "Last to run first" },
  delayed: { asc: "Due first", desc: "Due last" },
};
const BY_AGE = { asc: "Oldest first", desc: "Newest first" };

//: What runs next is first, and what happened last.
export function defaultOrder(state) {
  return state in ORDERS ? "asc" : "desc";
}

//: Return {node, show(state, order)}; *onChange(order)* hears of another, null as usual.
export function orderPicker(onChange) {
  let usual = "desc";
  const node = h("select", { "aria-label": "Order", onchange });

  function onchange() {
    onChange(node.value === usual ? null : node.value);
  }

  function show(state, order) {
    usual = defaultOrder(state);
    const options = Object.entries(ORDERS[state] ?? BY_AGE);
    fill(node, options.map(([value, label]) => h("option", { value }, label)));
    node.value = order;
  }

  return { node, show };
}

// -- bulk actions -----------------------------------------------------------------

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
    if (isAll) return isPossible(act, matching().filter.state);
    return jobs.some((job) => isPossible(act, job.state));
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
    return jobs.filter((job) => isPossible(act, job.state)).map((job) => job.id);
  }

  return { node, show, run };
}

function whole({ count }) {
  return count === undefined ? "Select all that match" : `Select all ${plural(count, "job")}`;
}

function howMany({ count }) {
  return count === undefined ? "All that match" : `All ${plural(count, "job")} selected`;
}
