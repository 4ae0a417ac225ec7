// Dialog that adds or changes a schedule.

import { openDialog } from "../../components/dialog.js";
import { form } from "../../components/form.js";
import { toast } from "../../components/toast.js";
import { api } from "../../lib/api.js";
import { h, uid } from "../../lib/dom.js";
import { go } from "../../lib/router.js";
import { offerTypes } from "../jobs/add.js";
import { pathOf } from "./actions.js";
import { bodyOf, durationText, localTime, timeOf } from "./body.js";
import { preview } from "./preview.js";
import { MISSED, OVERLAP } from "./words.js";

const KINDS = [
  ["every", "at an interval"],
  ["cron", "by a cron expression"],
  ["at", "once"],
];
//: The fields that each kind of schedule has.
const SHOWN = {
  every: ["every", "start", "end", "jitter", "missed", "overlap"],
  cron: ["cron", "tz", "start", "end", "jitter", "missed", "overlap"],
  at: ["at", "missed"],
};
const ALWAYS = ["name", "type", "data", "kind"];

//: Ask for a schedule and add it; *names* are those that are taken.  Returns a promise of
//: whether it was done.
export function newSchedule(names = []) {
  return openForm({ title: "New schedule", action: "Add schedule", names: new Set(names) });
}

//: Show a schedule in a form and change it; one that is declared in code is read-only.
export async function editSchedule({ name }) {
  const schedule = await api.get(pathOf(name));
  const { declared_by: module } = schedule;
  const note = module && `It is declared in code, by ${module}: change it there.`;
  return openForm({ title: `Schedule ${name}`, action: "Save", schedule, note });
}

function openForm({ title, action, schedule = null, note = "", names = new Set() }) {
  const created = form({
    fields: fieldsOf(schedule, names),
    action,
    cancel: () => dialog.close(),
    submit: async (values) => dialog.close(await save(values, schedule)),
  });
  const controls = Object.fromEntries(created.controls.map((one) => [one.name, one]));
  const coming = preview(controls, SHOWN, schedule?.name);
  created.node.classList.add("form-columns", "schedule-form");
  controls.data.row.classList.add("field-wide");
  controls.tz.row.after(coming.node);
  created.node.prepend(...(note ? [h("p", { class: "notice" }, note)] : []));
  controls.kind.input.addEventListener("change", showFields);
  const dialog = openDialog({ title, body: created.node, wide: true });
  offerTypes(created.node, controls.type.input);
  offerZones(created.node, controls.tz.input);
  if (schedule) controls.name.input.disabled = true;
  if (note) makeReadOnly(created);
  showFields();
  if (note) dialog.node.querySelector("header button").focus();
  else (schedule ? controls.type : controls.name).input.focus();
  dialog.closed.then(coming.stop);
  return dialog.closed;

  function showFields() {
    const wanted = [...ALWAYS, ...SHOWN[controls.kind.input.value]];
    for (const { name, row } of created.controls) row.hidden = !wanted.includes(name);
    coming.update();
  }
}

function makeReadOnly({ node, controls }) {
  for (const { input } of controls) input.disabled = true;
  node.querySelector("[type=submit]").hidden = true;
}

async function save(values, schedule) {
  const shown = [...ALWAYS, ...SHOWN[values.kind]];
  await api.put(pathOf(values.name), bodyOf(values, shown, schedule));
  const path = pathOf(values.name);
  toast(`Schedule ${values.name} is ${schedule ? "changed" : "added"}`, {
    tone: "good",
    action: { label: "Open", run: () => go(path) },
  });
  return true;
}

function fieldsOf(schedule, names) {
  const { every = 0, cron = "", starts_at: start = null, ends_at: end = null } = schedule ?? {};
  const isOnce = schedule !== null && !every && !cron;
  return [
    {
      name: "name",
      label: "Name",
      required: true,
      value: schedule?.name,
      placeholder: "daily digest",
      parse: (text) => free(text, names),
    },
    {
      name: "type",
      label: "Type",
      required: true,
      value: schedule?.type,
      placeholder: "digest",
      help: "The type of its jobs",
    },
    {
      name: "data",
      label: "Data",
      type: "json",
      rows: 4,
      value: schedule?.data ?? undefined,
      placeholder: '{"region": "eu"}',
      help: "JSON; may be empty",
    },
    {
      name: "kind",
      label: "Runs",
      type: "select",
      options: KINDS,
      value: isOnce ? "at" : cron ? "cron" : "every",
    },
    {
      name: "every",
      label: "Interval",
      value: every ? durationText(every) : "",
      placeholder: "10m",
      help: "For example 30s, 10m or 1h30m",
    },
    {
      name: "cron",
      label: "Cron expression",
      value: cron,
      placeholder: "0 9 * * mon-fri",
      help: "Minute, hour, day of month, month, day of week",
    },
    momentField("at", "Time", isOnce ? start : null),
    {
      name: "tz",
      label: "Time zone",
      value: schedule?.tz ?? localZone(),
      placeholder: "Europe/Berlin",
    },
    // The first time of an interval is its start, too: without it the same interval stays
    // in step, and another one begins now.
    momentField("start", "Start", !isOnce && start > Date.now() + every ? start : null),
    momentField("end", "End", end),
    {
      name: "jitter",
      label: "Jitter",
      value: schedule?.jitter ? durationText(schedule.jitter) : "",
      placeholder: "30s",
      help: "Runs up to this much later",
    },
    {
      name: "missed",
      label: "After missed times",
      type: "select",
      options: Object.entries(MISSED),
      value: schedule?.missed ?? "once",
      help: "When no worker was running",
    },
    {
      name: "overlap",
      label: "While a job is unfinished",
      type: "select",
      options: Object.entries(OVERLAP),
      value: schedule?.overlap ?? "allow",
    },
  ];
}

//: A time in the zone of the browser; one that is not changed keeps its seconds.
function momentField(name, label, at) {
  const text = at === null ? "" : localTime(at);
  return {
    name,
    label,
    type: "datetime-local",
    value: text,
    help: `In your time zone, ${localZone()}`,
    parse: (given) => (given === text ? at : timeOf(given)),
  };
}

function free(text, names) {
  const name = text.trim();
  const isFolder = name === "." || name === "..";
  if (!isFolder && !names.has(name)) return name;
  const why = isFolder ? "cannot be a name" : "already exists: edit it, or choose another name";
  throw Object.assign(new Error(`${name} ${why}`), { field: "name" });
}

function localZone() {
  return new Intl.DateTimeFormat().resolvedOptions().timeZone ?? "UTC";
}

function offerZones(place, input) {
  const id = uid("zones");
  const zones = new Set(["UTC", ...(Intl.supportedValuesOf?.("timeZone") ?? [])]);
  place.append(h("datalist", { id }, [...zones].map((value) => h("option", { value }))));
  input.setAttribute("list", id);
}
