// Dialog that sets limits, cap and order of a queue.

import { openDialog } from "../../components/dialog.js";
import { form } from "../../components/form.js";
import { toast } from "../../components/toast.js";
import { api, pathSegment } from "../../lib/api.js";
import { h } from "../../lib/dom.js";
import { durationText } from "../schedules/body.js";

const POLICIES = [
  ["refuse", "refuse new jobs"],
  ["wait", "wait for room"],
  ["drop-oldest", "cancel the oldest job"],
];
const ORDERS = [
  ["priority", "by priority, then first in, first out"],
  ["fair", "fair: the same, but groups take turns"],
  ["ageing", "ageing: waiting raises the priority"],
];
const NONE = { per: 1_000, when_full: "refuse", full_timeout: 30_000, weights: {}, ageing: null };
const TEXT =
  "Limits apply to all workers together, and a cap to all programs that add jobs. " +
  "Leave a field empty for no limit.";

//: Ask for limits and set them; empty fields remove them.  Returns a promise of whether it
//: was done.
export async function limit({ type, limits }) {
  const created = form({
    fields: fieldsOf(limits ?? NONE),
    cancel: () => dialog.close(),
    submit: async (values) => dialog.close(await save(type, values)),
  });
  const controls = Object.fromEntries(created.controls.map((one) => [one.name, one]));
  const { max_waiting: cap, when_full: policy, order } = controls;
  for (const { input } of [cap, policy, order]) input.addEventListener("input", showFields);
  showFields();
  const dialog = openDialog({
    title: `Limits of ${type}`,
    body: [h("p", null, TEXT), created.node],
  });
  created.focus();
  const message = await dialog.closed;
  if (message) toast(message, { tone: "good" });
  return Boolean(message);

  //: Show only the fields that have a meaning with the others.
  function showFields() {
    const hasCap = cap.input.value !== "";
    controls.when_full.row.hidden = !hasCap;
    controls.full_timeout.row.hidden = !hasCap || policy.input.value !== "wait";
    controls.weights.row.hidden = order.input.value !== "fair";
    controls.ageing.row.hidden = order.input.value !== "ageing";
  }
}

async function save(type, values) {
  const path = `/queues/${pathSegment(type)}/limits`;
  const body = bodyOf(values);
  if (body === null) {
    await api.delete(path);
    return `Limits of ${type} are removed`;
  }
  await api.put(path, body);
  return `Limits of ${type} are set`;
}

//: The body of the request, without fields that are hidden; null if nothing is set.
function bodyOf({ concurrency, rate, per, per_key, max_waiting, order, ...rest }) {
  const limits = { concurrency, rate, per_key, max_waiting };
  if (order === "priority" && Object.values(limits).every((value) => value === null)) return null;
  const { when_full, full_timeout: timeout, weights, ageing } = rest;
  return {
    ...limits,
    per: per.trim() || "1s",
    ...(max_waiting !== null && { when_full }),
    ...(max_waiting !== null && when_full === "wait" && { full_timeout: timeout.trim() || "30s" }),
    ...(order === "fair" && { fair: true, weights: weightsOf(weights) }),
    ...(order === "ageing" && { ageing: ageing.trim() }),
  };
}

function fieldsOf(limits) {
  return [...limitFields(limits), ...capFields(limits), ...orderFields(limits)];
}

function limitFields(limits) {
  const group = "Limits";
  return [
    count("concurrency", "Concurrency", limits.concurrency, { group, help: "Jobs that run at once." }),
    count("per_key", "Concurrency per group", limits.per_key, {
      group,
      help: "Jobs of one group that run at once.",
    }),
    count("rate", "Rate", limits.rate, { group, help: "Jobs that start in each period." }),
    {
      name: "per",
      label: "Period",
      group,
      value: durationText(limits.per),
      help: "For example 1s, 1m or 1h.",
    },
  ];
}

function capFields(limits) {
  const group = "Cap";
  return [
    count("max_waiting", "Waiting jobs", limits.max_waiting, {
      group,
      help: "How many may wait; delayed ones do not count.",
    }),
    {
      name: "when_full",
      label: "When that many wait",
      group,
      type: "select",
      options: POLICIES,
      value: limits.when_full,
    },
    {
      name: "full_timeout",
      label: "Longest wait for room",
      group,
      value: durationText(limits.full_timeout),
      help: "Then the job is refused.",
    },
  ];
}

function orderFields(limits) {
  const group = "Order";
  return [
    {
      name: "order",
      label: "Jobs start",
      group,
      wide: true,
      type: "select",
      options: ORDERS,
      value: limits.fair ? "fair" : limits.ageing !== null ? "ageing" : "priority",
    },
    {
      name: "weights",
      label: "Weights",
      group,
      wide: true,
      type: "area",
      rows: 3,
      value: Object.entries(limits.weights)
        .map(([name, weight]) => `${name}=${weight}`)
        .join("\n"),
      placeholder: "vip=3",
      help: "One group per line, with its turns where others get one: 1 to 60.",
    },
    {
      name: "ageing",
      label: "One step of priority",
      group,
      wide: true,
      value: durationText(limits.ageing ?? 600_000),
      help: "The wait that is worth one step, such as 10m. From low to normal are 10 steps.",
    },
  ];
}

function count(name, label, value, { group, help }) {
  return { name, label, group, type: "number", value: value ?? "", help };
}

//: {"vip": 3} of lines such as "vip=3".
function weightsOf(text) {
  const lines = text.split("\n").map((line) => line.trim());
  return Object.fromEntries(lines.filter(Boolean).map(weightOf));
}

function weightOf(line) {
  const [, group, weight] = /^(.+?)\s*=\s*(\d+)$/.exec(line) ?? [];
  if (group) return [group, Number(weight)];
  throw Object.assign(new Error(`“${line}” has no weight; write vip=3`), { field: "weights" });
}
