// Menus of the jobs page: saved views, columns, export as JSON and CSV.

import { formDialog } from "../../components/form.js";
import { menu, menuItem } from "../../components/menu.js";
import { h } from "../../lib/dom.js";
import { go, query } from "../../lib/router.js";
import { COLUMNS, chosenColumns, saveColumns } from "./columns.js";

export function viewsMenu() {
  const open = ({ search }) => go(`/jobs?${search}`);
  const item = (view) => menuItem(view.name, () => open(view));
  return menu(
    "Views",
    () => {
      const own = savedViews();
      return [
        own.map((view) => h("div", { class: "menu-row" }, item(view), deleteButton(view))),
        own.length > 0 && h("hr"),
        PRESETS.map(item),
        h("hr"),
        menuItem("Save this view…", saveThisView),
      ];
    },
    { end: true, lead: "star" },
  ).node;
}

function deleteButton({ name }) {
  const onclick = () => deleteView(name);
  return h("button", { class: "plain", "aria-label": `Delete ${name}`, onclick }, "×");
}

//: Ask for a name, and save the current query under it.
export function saveThisView() {
  return formDialog({
    title: "Save this view",
    text: "Saves state, filters and order in this browser.",
    fields: [{ name: "name", label: "Name", required: true }],
    submit: ({ name }) => saveView(name.trim().slice(0, 60), viewQuery(query())),
  });
}

//: *state()* is that of the jobs shown; *onChange()* is called when columns change.
export function columnsMenu(state, onChange) {
  const remember = (keys) => {
    saveColumns(keys);
    onChange();
  };
  return menu(
    "Columns",
    () => {
      const shown = new Set(chosenColumns(state()).map((column) => column.key));
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
        menuItem("Reset to defaults", () => remember(null)),
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

//: *jobs()* returns the jobs to export.
export function exportMenu(state, jobs) {
  return menu(
    "Export",
    () => [
      menuItem("As JSON", () => saveJson(jobs()), { hint: "everything" }),
      menuItem("As CSV", () => saveCsv(jobs(), chosenColumns(state())), { hint: "these columns" }),
    ],
    { end: true, lead: "download" },
  ).node;
}

// -- saved views ------------------------------------------------------------------

const KEY = "kue.views";
const MAX_VIEWS = 30;

//: Built-in views.
const PRESETS = [
  { name: "Failed in the last hour", search: "state=failed&since=1h" },
  { name: "Running now", search: "state=active" },
  { name: "Critical and waiting", search: "state=waiting&priority=critical" },
];

function savedViews() {
  try {
    const saved = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    return Array.isArray(saved) ? saved.filter(isView) : [];
  } catch {
    return [];
  }
}

//: Save a view, replacing one of the same name.
function saveView(name, search) {
  const others = savedViews().filter((view) => view.name !== name);
  storeViews([...others, { name, search }].slice(-MAX_VIEWS));
}

function deleteView(name) {
  storeViews(savedViews().filter((view) => view.name !== name));
}

//: The query of a view: without the cursor.
export function viewQuery(query) {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (name === "cursor") continue;
    for (const one of [value].flat()) search.append(name, one);
  }
  return search.toString();
}

function isView(view) {
  return typeof view?.name === "string" && typeof view?.search === "string";
}

function storeViews(views) {
  try {
    localStorage.setItem(KEY, JSON.stringify(views));
  } catch {
    // No storage; the address can still be bookmarked.
  }
}

// -- json and csv export ----------------------------------------------------------

export function saveJson(jobs) {
  save("jobs.json", "application/json", `${JSON.stringify(jobs, null, 2)}\n`);
}

export function saveCsv(jobs, columns) {
  save("jobs.csv", "text/csv", asCsv(jobs, columns));
}

function asCsv(jobs, columns) {
  const rows = [
    columns.map((column) => column.key),
    ...jobs.map((job) => columns.map((column) => column.text(job))),
  ];
  return rows.map((row) => `${row.map(field).join(",")}\r\n`).join("");
}

//: Spreadsheets run text that starts like a formula; job data is not trusted.
function field(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return String(value);
  const safe = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

function save(name, type, text) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  const link = h("a", { href: address, download: name, hidden: true });
  document.body.append(link);
  link.click();
  link.remove();
  // The download has started by then.
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}
