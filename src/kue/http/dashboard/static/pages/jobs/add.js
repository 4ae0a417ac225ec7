// Adding a job by hand.

import { openDialog } from "../../components/dialog.js";
import { form } from "../../components/form.js";
import { toast } from "../../components/toast.js";
import { api } from "../../lib/api.js";
import { h, uid } from "../../lib/dom.js";
import { go } from "../../lib/router.js";
import { PRIORITIES } from "./filters.js";

const FIELDS = [
  { name: "type", label: "Type", required: true, placeholder: "email" },
  {
    name: "data",
    label: "Data",
    type: "json",
    rows: 6,
    placeholder: '{"to": "ann@example.com"}',
    help: "JSON; may be empty",
  },
  {
    name: "priority",
    label: "Priority",
    type: "select",
    options: [...PRIORITIES.values()],
    value: "normal",
  },
  { name: "delay", label: "Delay", placeholder: "10m", help: "How long to wait before it may run" },
  { name: "attempts", label: "Attempts", type: "number", value: "1" },
  { name: "backoff", label: "Backoff", placeholder: "30s", help: "Wait between attempts" },
  { name: "timeout", label: "Timeout", placeholder: "5m", help: "Longest time of one run" },
  { name: "unique", label: "Unique key", help: "Nothing is added while another job has this key" },
  { name: "group", label: "Group" },
  { name: "tags", label: "Tags", placeholder: "vip, import", help: "Separated by commas" },
];

//: Ask for a job and add it; what is *given* is filled in.  Returns a promise of its id,
//: or undefined.
export function addJob(given = {}) {
  const filled = (field) => ({ ...field, value: given[field.name] ?? field.value });
  const made = form({
    fields: FIELDS.map(filled),
    action: "Add job",
    cancel: () => dialog.close(),
    submit: async (values) => dialog.close(await added(values)),
  });
  made.node.classList.add("form-columns");
  const dialog = openDialog({ title: "Add a job", body: made.node, wide: true });
  offerTypes(made.node, made.controls[0].input);
  if (given.type) made.controls[1].input.focus();
  else made.focus();
  return dialog.closed;
}

async function added(values) {
  const { id, is_new: isNew } = await api.post("/jobs", bodyOf(values));
  const told = isNew ? `Job ${id} is added` : `Job ${id} already has this unique key`;
  toast(told, { tone: "good", action: { label: "Open", run: () => go(`/jobs/${id}`) } });
  return id;
}

//: What is left empty is left out, so that it is as usual.
function bodyOf({ tags, attempts, ...rest }) {
  const names = String(tags ?? "")
    .split(",")
    .map((tag) => tag.trim())
    .filter(Boolean);
  const body = { ...rest, attempts: Number(attempts) || 1 };
  if (names.length) body.tags = names;
  const isGiven = ([, value]) => value !== "" && value !== null && value !== undefined;
  return Object.fromEntries(Object.entries(body).filter(isGiven));
}

async function offerTypes(place, input) {
  const id = uid("types");
  const list = h("datalist", { id });
  place.append(list);
  input.setAttribute("list", id);
  try {
    const { queues } = await api.get("/queues");
    list.append(...queues.map((queue) => h("option", { value: queue.type })));
  } catch {
    // Then nothing is offered.
  }
}
