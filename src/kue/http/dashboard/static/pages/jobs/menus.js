// The menus above the list: saved views, columns, files to take away.

import { formDialog } from "../../components/form.js";
import { menu, menuItem } from "../../components/menu.js";
import { h } from "../../lib/dom.js";
import { go, query } from "../../lib/router.js";
import { COLUMNS, choose, chosen } from "./columns.js";
import { saveCsv, saveJson } from "./files.js";
import { READY_MADE, forgetView, saveView, savedViews, searchOf } from "./views.js";

export function viewsMenu() {
  const open = ({ search }) => go(`/jobs?${search}`);
  const item = (view) => menuItem(view.name, () => open(view));
  return menu(
    "Views",
    () => {
      const own = savedViews();
      return [
        own.map((view) => h("div", { class: "menu-row" }, item(view), forgetButton(view))),
        own.length > 0 && h("hr"),
        READY_MADE.map(item),
        h("hr"),
        menuItem("Save this view…", saveThisView),
      ];
    },
    { end: true, lead: "star" },
  ).node;
}

function forgetButton({ name }) {
  const onclick = () => forgetView(name);
  return h("button", { class: "plain", "aria-label": `Forget ${name}`, onclick }, "×");
}

//: Ask for a name, and keep what the address says under it.
export function saveThisView() {
  return formDialog({
    title: "Save this view",
    text: "State, filters and order get a name, in this browser.",
    fields: [{ name: "name", label: "Name", required: true }],
    submit: ({ name }) => saveView(name.trim().slice(0, 60), searchOf(query())),
  });
}

//: *state()* is that of the jobs shown; *onChange()* is called when others were chosen.
export function columnsMenu(state, onChange) {
  const remember = (keys) => {
    choose(keys);
    onChange();
  };
  return menu(
    "Columns",
    () => {
      const shown = new Set(chosen(state()).map((column) => column.key));
      const toggle = (key, isOn) => {
        if (isOn) shown.add(key);
        else shown.delete(key);
        remember([...shown]);
      };
      const boxes = COLUMNS.filter((column) => !column.fixed).map((column) =>
        checkbox(column.label, shown.has(column.key), (isOn) => toggle(column.key, isOn)),
      );
      return [
        h("div", { dataset: { stay: "" } }, boxes),
        h("hr"),
        menuItem("As usual", () => remember(null)),
      ];
    },
    { end: true, lead: "columns" },
  ).node;
}

function checkbox(label, checked, onChange) {
  const onchange = (event) => onChange(event.target.checked);
  return h(
    "label",
    { class: "menu-check" },
    h("input", { type: "checkbox", checked, onchange }),
    label,
  );
}

//: *jobs()* are those to be taken away.
export function exportMenu(state, jobs) {
  return menu(
    "Export",
    () => [
      menuItem("As JSON", () => saveJson(jobs()), { hint: "everything" }),
      menuItem("As CSV", () => saveCsv(jobs(), chosen(state())), { hint: "these columns" }),
    ],
    { end: true, lead: "download" },
  ).node;
}
