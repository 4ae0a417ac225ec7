// Rows that stay the same elements while their content changes, so that selection,
// focus and scrolling stay where they are.

import { fill, h } from "../lib/dom.js";
import { go } from "../lib/router.js";

//: Make a table.
//:   columns: [{key, label, render(row) → node or text, end?, class?, title?}]; *end* puts
//:     numbers to the right
//:   key(row) → what the row is known by
//:   caption: what the table has, for those who cannot see it
//:   link(row) → the path that Enter and a click on the row open; or open(row)
//:   selectable: rows can be chosen; onSelect(Set of keys) hears of it
//:   rowClass(row) → a class
//: Returns {node, update(rows), rows, selected, select(keys), clear(), show(columns),
//: current(), keys}; the last is what ctx.keys takes.
export function table({
  columns,
  key,
  caption,
  link = null,
  open = link && ((row) => go(link(row))),
  selectable = false,
  onSelect = () => {},
  rowClass = () => "",
}) {
  let visible = columns;
  let rows = [];
  let anchor = null;
  let at = null;
  const made = new Map();
  const selected = new Set();
  const all = h("input", {
    type: "checkbox",
    "aria-label": "Select all rows",
    onchange: toggleAll,
  });
  const head = h("tr");
  const body = h("tbody");
  const inner = h(
    "table",
    { class: open ? "table table-open" : "table" },
    h("caption", { class: "offscreen" }, caption),
    h("thead", null, head),
    body,
  );
  const node = h(
    "div",
    { class: "table-box", role: "region", "aria-label": caption },
    inner,
  );
  const sizes = new ResizeObserver(fit);
  sizes.observe(node);
  sizes.observe(inner);
  header();

  //: A table that is too wide scrolls, also by keys; the head of any other one stays in
  //: sight while the page scrolls.
  function fit() {
    const isWide = inner.offsetWidth > node.clientWidth;
    node.classList.toggle("fits", !isWide);
    if (isWide) node.tabIndex = 0;
    else node.removeAttribute("tabindex");
  }

  function header() {
    fill(
      head,
      selectable && h("th", { class: "cell-select" }, all),
      visible.map((one) =>
        h(
          "th",
          { scope: "col", class: [one.end && "end", one.class], title: one.title },
          nameOf(one),
        ),
      ),
    );
  }

  //: Show *next*; what is the same stays the same element.
  function update(next) {
    rows = next;
    const present = new Set(rows.map((row) => key(row)));
    for (const [id, one] of made) {
      if (!present.has(id)) {
        one.node.remove();
        made.delete(id);
      }
    }
    const gone = [...selected].filter((id) => !present.has(id));
    for (const id of gone) selected.delete(id);
    let place = body.firstElementChild;
    for (const row of rows) {
      const line = lineOf(row);
      if (line.node === place) place = place.nextElementSibling;
      else body.insertBefore(line.node, place);
    }
    if (!present.has(at)) at = null;
    mark();
    if (gone.length) onSelect(selected);
  }

  function lineOf(row) {
    const id = key(row);
    let line = made.get(id);
    if (!line) {
      line = { node: h("tr", { tabindex: -1 }), row: null, text: "" };
      listen(line, id);
      made.set(id, line);
    }
    const text = JSON.stringify(row);
    if (line.text !== text || line.visible !== visible) draw(line, row, id);
    Object.assign(line, { row, text, visible });
    return line;
  }

  function draw(line, row, id) {
    line.node.className = rowClass(row) ?? "";
    const cells = visible.map((one) =>
      h(
        "td",
        { class: [one.end && "end", one.class], dataset: { key: one.key, label: one.label } },
        one.render(row),
      ),
    );
    if (line.visible !== visible) {
      fill(line.node, selectable && picker(id), cells);
      return;
    }
    // A cell that looks the same is left alone: something in it may have the focus.
    const old = [...line.node.children].slice(selectable ? 1 : 0);
    cells.forEach((cell, index) => {
      if (!cell.isEqualNode(old[index])) old[index].replaceWith(cell);
    });
  }

  function picker(id) {
    const box = h("input", {
      type: "checkbox",
      "aria-label": `Select ${id}`,
      checked: selected.has(id),
      onclick: (event) => {
        event.stopPropagation();
        pick(id, box.checked, event.shiftKey);
      },
    });
    return h("td", { class: "cell-select" }, box);
  }

  function listen(line, id) {
    line.node.addEventListener("click", (event) => {
      if (!open || event.target.closest("a, button, input, label, select, summary"))
        return;
      if (event.target.closest(".cell-select")) return;
      // Whoever marks text does not want to leave.
      if (String(window.getSelection())) return;
      open(line.row);
    });
    line.node.addEventListener("focusin", () => {
      at = id;
      mark();
    });
  }

  function pick(id, isOn, isRange) {
    const ids = rows.map((row) => key(row));
    const from = isRange && anchor !== null ? ids.indexOf(anchor) : ids.indexOf(id);
    const to = ids.indexOf(id);
    for (const one of ids.slice(Math.min(from, to), Math.max(from, to) + 1)) {
      if (isOn) selected.add(one);
      else selected.delete(one);
    }
    anchor = id;
    mark();
    onSelect(selected);
  }

  function toggleAll() {
    select(all.checked ? rows.map((row) => key(row)) : []);
  }

  //: Choose exactly these.
  function select(ids) {
    selected.clear();
    for (const id of ids) selected.add(id);
    mark();
    onSelect(selected);
  }

  function mark() {
    for (const [id, line] of made) {
      const isOn = selected.has(id);
      line.node.classList.toggle("selected", isOn);
      line.node.classList.toggle("current", id === at);
      line.node.tabIndex = id === at || (at === null && line.row === rows[0]) ? 0 : -1;
      if (selectable) line.node.firstElementChild.firstElementChild.checked = isOn;
    }
    all.checked = rows.length > 0 && selected.size === rows.length;
    all.indeterminate = selected.size > 0 && !all.checked;
  }

  function step(by) {
    if (!rows.length) return;
    const index = rows.findIndex((row) => key(row) === at);
    const next = index < 0 ? (by > 0 ? 0 : rows.length - 1) : index + by;
    const row = rows[Math.max(0, Math.min(rows.length - 1, next))];
    made.get(key(row)).node.focus();
  }

  //: The row the keys are at, or undefined.
  function current() {
    return rows.find((row) => key(row) === at);
  }

  const keys = {
    j: { label: "Next row", run: () => step(1) },
    k: { label: "Row before", run: () => step(-1) },
    ...(open && {
      Enter: { label: "Open the row", run: () => current() && open(current()) },
    }),
    ...(selectable && {
      x: {
        label: "Select the row",
        run: (event) => at !== null && pick(at, !selected.has(at), event.shiftKey),
      },
      X: {
        label: "Select up to the row",
        run: () => at !== null && pick(at, true, true),
      },
    }),
  };

  return {
    node,
    update,
    get rows() {
      return rows;
    },
    selected,
    select,
    clear: () => select([]),
    //: Show only the columns with these keys, in the order they were given.
    show(names) {
      visible = columns.filter((one) => names.includes(one.key));
      header();
      update(rows);
    },
    current,
    keys,
  };
}

//: A column of buttons has a name for those alone who do not see what is in it.
function nameOf({ label }) {
  return label || h("span", { class: "offscreen" }, "Actions");
}
