// Controls above the list of jobs: state tabs with counts, order, bulk actions.

import { STATES } from "../../components/job-state.js";
import { fill, h } from "../../lib/dom.js";
import { number, plural, short } from "../../lib/format.js";
import { bulk, isPossible } from "../../lib/job-actions.js";
import { can } from "../../lib/me.js";

const ALL = "";
const UNFILTERED = " without the filters; matching jobs are not counted";

//: One tab per state.  *address(state)* is the link of a tab; *onChoose(state)* is called
//: on a plain click.
//:
//: Returns {node, show(state, counts, isFiltered)}; counts are null when they are not
//: known; of a filtered list they include jobs that do not match.
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

  //: Scroll to the current tab when it changes, and again when its count is known: on
  //: phones not all tabs fit.
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
      tab.count.title = counts ? `${number(count)}${isFiltered ? UNFILTERED : ""}` : "";
      tab.node.href = address(tab.state);
      if (tab.state === current) tab.node.setAttribute("aria-current", "true");
      else tab.node.removeAttribute("aria-current");
    }
    reveal(current, counts);
  }

  return { node, show };
}

// -- order ------------------------------------------------------------------------

//: Labels of the two orders in states that are not sorted by age.
const ORDERS = {
  waiting: { asc: "Next to run first", desc: "Last to run first" },
  delayed: { asc: "Next due first", desc: "Last due first" },
};
const BY_AGE = { asc: "Oldest first", desc: "Newest first" };

//: Waiting and delayed jobs: next to run first; all others: newest first.
export function defaultOrder(state) {
  return state in ORDERS ? "asc" : "desc";
}

//: Return {node, show(state, order)}; *onChange(order)* is called with the chosen order,
//: null for the default.
export function orderPicker(onChange) {
  let defaultValue = "desc";
  const node = h("select", { "aria-label": "Order", onchange });

  function onchange() {
    onChange(node.value === defaultValue ? null : node.value);
  }

  function show(state, order) {
    defaultValue = defaultOrder(state);
    const options = Object.entries(ORDERS[state] ?? BY_AGE);
    fill(node, options.map(([value, label]) => h("option", { value }, label)));
    node.value = order;
  }

  return { node, show };
}

// -- bulk actions -----------------------------------------------------------------

const ACTIONS = [
  ["retry", "Retry"],
  ["promote", "Run now"],
  ["cancel", "Cancel"],
  ["remove", "Remove"],
];

//: A bar that is shown while jobs are selected.
//:
//: *matching()* returns {filter, count} of all matching jobs, or null when no state is
//: chosen, which the server requires.  *clear()* clears the selection; *onDone()* is
//: called after an action.
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
    const text = isAll ? allLabel(all) : `${plural(jobs.length, "job")} selected`;
    fill(
      node,
      h("b", { class: "bulk-count", role: "status" }, text),
      all &&
        hasMore(all) &&
        h("button", { class: "link", onclick: selectAll }, selectAllLabel(all)),
      h("span", { class: "bulk-acts" }, ACTIONS.filter(([action]) => canRun(action)).map(button)),
      h("button", { class: "plain", onclick: clear }, "Clear"),
    );
  }

  function hasMore({ count }) {
    return !isAll && (count === undefined || count > jobs.length);
  }

  function selectAll() {
    isAll = true;
    draw();
  }

  function canRun(action) {
    if (!can(action === "remove" ? "remove" : "manage")) return false;
    if (isAll) return isPossible(action, matching().filter.state);
    return jobs.some((job) => isPossible(action, job.state));
  }

  function button([action, label]) {
    const kind = action === "remove" ? "danger" : "";
    return h("button", { class: kind, onclick: () => run(action) }, label);
  }

  //: Do *act* to the selected jobs, if it is possible for one of them.
  async function run(action) {
    if (!canRun(action)) return;
    const all = matching();
    const target = isAll ? { filter: all.filter } : { ids: idsFor(action) };
    const count = isAll ? all.count : target.ids.length;
    clear();
    await bulk(action, target, { count });
    onDone();
  }

  function idsFor(action) {
    return jobs.filter((job) => isPossible(action, job.state)).map((job) => job.id);
  }

  return { node, show, run };
}

function selectAllLabel({ count }) {
  return count === undefined ? "Select all matching jobs" : `Select all ${plural(count, "job")}`;
}

function allLabel({ count }) {
  return count === undefined ? "All matching jobs" : `All ${plural(count, "job")} selected`;
}
