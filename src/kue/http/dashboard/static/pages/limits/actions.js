// Limit actions: set, edit, delete.

import { confirm, openDialog } from "../../components/dialog.js";
import { form } from "../../components/form.js";
import { toast, toastDone } from "../../components/toast.js";
import { api, pathSegment } from "../../lib/api.js";
import { h } from "../../lib/dom.js";
import { go } from "../../lib/router.js";
import { durationText } from "../schedules/body.js";

const KINDS = [
  ["concurrency", "how many run at once"],
  ["rate", "how many start in a time"],
];
//: The fields that each kind of limit has.
const SHOWN = {
  concurrency: ["concurrency"],
  rate: ["rate", "per", "burst"],
};
const ALWAYS = ["name", "kind"];

//: Ask for a limit and set it; *names* are those that are taken.  Like the others it
//: returns a promise of whether it was done.
export function newLimit(names = []) {
  return openForm({ title: "New limit", action: "Set limit", names: new Set(names) });
}

//: Show a limit in a form and change its rule.
export function editLimit(limit) {
  const { name, declared } = limit;
  const note = declared
    ? `Programs declare ${declared.words}. What is set here stays until that changes.`
    : "";
  return openForm({ title: `Limit ${name}`, action: "Save", limit, note });
}

//: Delete a limit, after a confirmation.
export async function removeLimit({ name, declared }) {
  const text = declared
    ? `Programs declare it (${declared.words}): it comes back when a worker starts.`
    : "Its jobs are no longer limited, and those that wait for it can start.";
  const title = `Delete limit ${name}?`;
  if (!(await confirm({ title, text, action: "Delete", danger: true }))) return false;
  return toastDone(`Limit ${name} is deleted`, api.delete(limitPath(name)));
}

//: The path of a limit in the API, and of its page.
export function limitPath(name) {
  return `/limits/${pathSegment(name)}`;
}

function openForm({ title, action, limit = null, note = "", names = new Set() }) {
  const created = form({
    fields: fieldsOf(limit, names),
    action,
    cancel: () => dialog.close(),
    submit: async (values) => dialog.close(await save(values, limit)),
  });
  const controls = Object.fromEntries(created.controls.map((one) => [one.name, one]));
  const text = "A limit holds in all workers together, and for each of its keys, from now on.";
  const dialog = openDialog({
    title,
    body: [h("p", null, text), note && h("p", { class: "notice" }, note), created.node],
  });
  controls.kind.input.addEventListener("change", showFields);
  controls.name.row.hidden = limit !== null;
  showFields();
  (limit ? controls[kindOf(limit)] : controls.name).input.focus();
  return dialog.closed;

  function showFields() {
    const wanted = [...ALWAYS, ...SHOWN[controls.kind.input.value]];
    for (const { name, row } of created.controls) {
      row.hidden = !wanted.includes(name) || (name === "name" && limit !== null);
    }
  }
}

async function save({ name, kind, per, ...numbers }, limit) {
  const body = Object.fromEntries(
    SHOWN[kind].filter((one) => one in numbers).map((one) => [one, numbers[one]]),
  );
  if (body[kind] === null) {
    throw Object.assign(new Error("give a number"), { field: kind });
  }
  await api.put(limitPath(name), kind === "rate" ? { ...body, per: per.trim() || "1s" } : body);
  toast(`Limit ${name} is ${limit ? "changed" : "set"}`, {
    tone: "good",
    action: { label: "Open", run: () => go(limitPath(name)) },
  });
  return true;
}

function kindOf({ rule }) {
  return rule.rate === null ? "concurrency" : "rate";
}

function fieldsOf(limit, names) {
  const { concurrency = null, rate = null, per = 1_000, burst = null } = limit?.rule ?? {};
  return [
    {
      name: "name",
      label: "Name",
      required: true,
      value: limit?.name,
      placeholder: "stripe",
      help: "Jobs name it: limited_by, or the limits of a task",
      parse: (text) => free(text, names),
    },
    {
      name: "kind",
      label: "Limits",
      type: "select",
      options: KINDS,
      value: limit ? kindOf(limit) : "concurrency",
    },
    numberField("concurrency", "Concurrency", concurrency, "Jobs that run at once"),
    numberField("rate", "Rate", rate, "Jobs that start in any such time"),
    {
      name: "per",
      label: "Time",
      value: durationText(per),
      help: "For example 1s, 1m or 1h",
    },
    numberField("burst", "Burst", burst, "May be empty. How many may start at once; the rate is the average"),
  ];
}

function numberField(name, label, value, help) {
  return { name, label, type: "number", value: value ?? "", help };
}

function free(text, names) {
  const name = text.trim();
  if (!names.has(name)) return name;
  throw Object.assign(new Error(`${name} already exists: edit it, or choose another name`), {
    field: "name",
  });
}
