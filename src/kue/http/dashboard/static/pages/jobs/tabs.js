// One tab for each state, with how many jobs are in it.

import { STATES } from "../../components/state.js";
import { h } from "../../lib/dom.js";
import { number, short } from "../../lib/format.js";

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
