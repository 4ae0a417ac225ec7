// Table: rows are reused while their content changes, so that selection, focus and scroll
// position are kept.

import { fill, h } from "../lib/dom.js";
import { go } from "../lib/router.js";

//: Make a table.
//:   columns: [{key, label, render(row) → node or text, end?, class?, title?}]; *end*
//:     aligns right, for numbers
//:   key(row) → the id of the row
//:   caption: name of the table for screen readers
//:   link(row) → the path that Enter and a click on the row open; or open(row)
//:   selectable: rows can be selected; onSelect(Set of keys) is called on a change
//:   rowClass(row) → a class
//: Returns {node, update(rows), rows, selected, select(keys), clear(), show(columns),
//: current(), keys}; the last are shortcuts for ctx.keys.
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
  let focused = null;
  const lines = new Map();
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

  //: A table that is too wide scrolls, also by keyboard; the header of any other one is
  //: sticky.
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

  //: Show *next*; unchanged rows keep their elements.
  function update(next) {
    rows = next;
    const present = new Set(rows.map((row) => key(row)));
    for (const [id, one] of lines) {
      if (!present.has(id)) {
        one.node.remove();
        lines.delete(id);
      }
    }
    const gone = [...selected].filter((id) => !present.has(id));
    for (const id of gone) selected.delete(id);
    let following = body.firstElementChild;
    for (const row of rows) {
      const line = lineOf(row);
      if (line.node === following) following = following.nextElementSibling;
      else body.insertBefore(line.node, following);
    }
    if (!present.has(focused)) focused = null;
    mark();
    if (gone.length) onSelect(selected);
  }

  function lineOf(row) {
    const id = key(row);
    let line = lines.get(id);
    if (!line) {
      line = { node: h("tr", { tabindex: -1 }), row: null, text: "" };
      addListeners(line, id);
      lines.set(id, line);
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
      fill(line.node, selectable && checkbox(id), cells);
      return;
    }
    // Unchanged cells are left alone: something in them may have the focus.
    const old = [...line.node.children].slice(selectable ? 1 : 0);
    cells.forEach((cell, index) => {
      if (!cell.isEqualNode(old[index])) old[index].replaceWith(cell);
    });
  }

  function checkbox(id) {
    const box = h("input", {
      type: "checkbox",
      "aria-label": `Select ${id}`,
      checked: selected.has(id),
      onclick: (event) => {
        event.stopPropagation();
        toggle(id, box.checked, event.shiftKey);
      },
    });
    return h("td", { class: "cell-select" }, box);
  }

  function addListeners(line, id) {
    line.node.addEventListener("click", (event) => {
      if (!open || event.target.closest("a, button, input, label, select, summary"))
        return;
      if (event.target.closest(".cell-select")) return;
      // Selecting text does not open the row.
      if (String(window.getSelection())) return;
      open(line.row);
    });
    line.node.addEventListener("focusin", () => {
      focused = id;
      mark();
    });
  }

  function toggle(id, isOn, isRange) {
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

  //: Select exactly these.
  function select(ids) {
    selected.clear();
    for (const id of ids) selected.add(id);
    mark();
    onSelect(selected);
  }

  function mark() {
    for (const [id, line] of lines) {
      const isOn = selected.has(id);
      line.node.classList.toggle("selected", isOn);
      line.node.classList.toggle("current", id === focused);
      line.node.tabIndex = id === focused || (focused === null && line.row === rows[0]) ? 0 : -1;
      if (selectable) line.node.firstElementChild.firstElementChild.checked = isOn;
    }
    all.checked = rows.length > 0 && selected.size === rows.length;
    all.indeterminate = selected.size > 0 && !all.checked;
  }

  function step(by) {
    if (!rows.length) return;
    const index = rows.findIndex((row) => key(row) === focused);
    const next = index < 0 ? (by > 0 ? 0 : rows.length - 1) : index + by;
    const row = rows[Math.max(0, Math.min(rows.length - 1, next))];
    lines.get(key(row)).node.focus();
  }

  //: The row with the focus, or undefined.
  function current() {
    return rows.find((row) => key(row) === focused);
  }

  const keys = {
    j: { label: "Next row", run: () => step(1) },
    k: { label: "Previous row", run: () => step(-1) },
    ...(open && {
      Enter: { label: "Open row", run: () => current() && open(current()) },
    }),
    ...(selectable && {
      x: {
        label: "Select row",
        run: (event) => focused !== null && toggle(focused, !selected.has(focused), event.shiftKey),
      },
      X: {
        label: "Select range up to row",
        run: () => focused !== null && toggle(focused, true, true),
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

//: A column of buttons has a name for screen readers only.
function nameOf({ label }) {
  return label || h("span", { class: "offscreen" }, "Actions");
}
