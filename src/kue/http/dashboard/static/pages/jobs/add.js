// Dialog that adds a job.

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
  { name: "queue", label: "Queue", help: "Where it waits; else the queue of its type" },
  {
    name: "priority",
    label: "Priority",
    type: "select",
    options: [...PRIORITIES.values()],
    value: "normal",
  },
  { name: "delay", label: "Delay", placeholder: "10m", help: "Time before it may run" },
  { name: "attempts", label: "Attempts", type: "number", value: "1" },
  { name: "backoff", label: "Backoff", placeholder: "30s", help: "Wait between attempts" },
  { name: "timeout", label: "Timeout", placeholder: "5m", help: "Maximum time of one run" },
  { name: "unique", label: "Unique key", help: "No job is added while another has this key" },
  { name: "group", label: "Group" },
  { name: "tags", label: "Tags", placeholder: "vip, import", help: "Separated by commas" },
];

//: Ask for a job and add it; *given* values are filled in.  Returns a promise of its id,
//: or undefined.
export function addJob(given = {}) {
  const filled = (field) => ({ ...field, value: given[field.name] ?? field.value });
  const jobForm = form({
    fields: FIELDS.map(filled),
    action: "Add job",
    cancel: () => dialog.close(),
    submit: async (values) => dialog.close(await addFrom(values)),
  });
  jobForm.node.classList.add("form-columns");
  const dialog = openDialog({ title: "Add a job", body: jobForm.node, wide: true });
  offerTypes(jobForm.node, jobForm.controls[0].input);
  if (given.type) jobForm.controls[1].input.focus();
  else jobForm.focus();
  return dialog.closed;
}

async function addFrom(values) {
  const { id, is_new: isNew } = await api.post("/jobs", bodyOf(values));
  const text = isNew ? `Job ${id} is added` : `Job ${id} already has this unique key`;
  toast(text, { tone: "good", action: { label: "Open", run: () => go(`/jobs/${id}`) } });
  return id;
}

//: Empty fields are left out, so that the defaults apply.
function bodyOf({ tags, attempts, ...rest }) {
  const names = String(tags ?? "")
    .split(",")
    .map((tag) => tag.trim())
    .filter(Boolean);
  const body = { ...rest, attempts: Number(attempts) || 1 };
  if (names.length) body.tags = names;
  const isSet = ([, value]) => value !== "" && value !== null && value !== undefined;
  return Object.fromEntries(Object.entries(body).filter(isSet));
}

//: Suggest the types that are known in the field *input*.
export async function offerTypes(place, input) {
  const id = uid("types");
  const list = h("datalist", { id });
  place.append(list);
  input.setAttribute("list", id);
  try {
    const { queues } = await api.get("/queues");
    list.append(...queues.map((queue) => h("option", { value: queue.type })));
  } catch {
    // No suggestions then.
  }
}
