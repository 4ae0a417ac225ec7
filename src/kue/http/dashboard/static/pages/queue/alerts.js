// Alerts of a queue: thresholds, alerts in force, and the form that changes them.

import { formDialog } from "../../components/form.js";
import { panel } from "../../components/panel.js";
import { toast, toastProblem } from "../../components/toast.js";
import { api, pathSegment } from "../../lib/api.js";
import { fill, h } from "../../lib/dom.js";
import { duration, number, timeAgo } from "../../lib/format.js";
import { can } from "../../lib/me.js";
import { durationText } from "../schedules/body.js";

//: Thresholds of a new form: durations are text there.
const NEW = { within: 300_000, least: 20, remind: 3_600_000 };

//: Return {node, read(signal)}.
export function queueAlerts(type) {
  const list = h("ul", { class: "lines alert-lines" });
  const facts = h("dl", { class: "facts" });
  const note = h("p", { class: "faint" });
  let own = null;
  let isSilenced = false;

  async function read(signal) {
    const found = await api.get("/alerts", null, { signal });
    own = found.types.find((one) => one.type === type) ?? null;
    isSilenced = found.silenced.types.includes(type);
    const used = own ?? found.default;
    const raised = found.alerts.filter((one) => one.type === type);
    const key = JSON.stringify([used, own === null, isSilenced, raised]);
    if (list.dataset.key === key) return;
    list.dataset.key = key;
    fill(list, raised.map(alertLine));
    fill(facts, factsOf(used));
    fill(note, noteOf(used, own, isSilenced));
  }

  async function edit() {
    const isDone = await editThresholds({
      title: `Alerts of ${type}`,
      path: `/queues/${pathSegment(type)}/alert`,
      known: own,
      empty: "The default applies",
    });
    if (isDone) await read();
    return isDone;
  }

  async function silence() {
    const isDone = await setSilenced("types", type, !isSilenced);
    if (isDone) await read();
    return isDone;
  }

  const actions = can("manage") && [
    h("button", { type: "button", class: "small", onclick: edit }, "Edit"),
    h("button", { type: "button", class: "small", onclick: silence }, "Silence"),
  ];
  const aside = actions && h("span", { class: "actions" }, actions);
  const node = panel("Alerts", { aside: aside || null }, list, note, facts);
  return { node, read };

  function noteOf(used, isOwn, silenced) {
    setLabel(silenced);
    if (silenced) return "Silenced: no alerts and warnings.";
    if (!used) return "No thresholds.";
    return isOwn ? "" : "The default thresholds.";
  }

  function setLabel(silenced) {
    if (actions) actions[1].textContent = silenced ? "Unsilence" : "Silence";
  }
}

//: Silence a type or tag ("types", "tags"), or no longer.  Returns whether it was done.
export async function setSilenced(kind, name, isSilenced) {
  const path = `/silenced/${kind}/${pathSegment(name)}`;
  try {
    await (isSilenced ? api.put(path, undefined) : api.delete(path));
    toast(`${name} is ${isSilenced ? "silenced" : "no longer silenced"}`, { tone: "good" });
    return true;
  } catch (error) {
    toastProblem(error);
    return false;
  }
}

//: Ask for thresholds and set them; empty ones are removed.  Returns whether it was done.
export async function editThresholds({ title, path, known, empty }) {
  const now = known ?? NEW;
  const message = await formDialog({
    title,
    text: "An alert is raised when a value is reached. Leave a field empty for no alert.",
    fields: [
      span("oldest", "Oldest waiting", now.oldest, "How long a job may wait, such as 5m."),
      count("backlog", "Backlog", now.backlog, "How many jobs may wait."),
      count("failures", "Failures, %", percent(now.failures), "Share of the jobs that ended."),
      span("within", "Failures within", now.within, "From 1m to 1h."),
      span("no_worker", "No worker", now.no_worker, "How long jobs may have none."),
      span("remind", "Remind", now.remind, "When an alert is reported again; 0s for never."),
      webhookField(now.webhook),
    ].filter(Boolean),
    submit: async (values) => {
      const body = bodyOf(values, now);
      const kinds = ["oldest", "backlog", "failures", "no_worker"];
      if (kinds.some((name) => body[name] !== null)) {
        await api.put(path, body);
        return "Thresholds are set";
      }
      if (known) await api.delete(path);
      return `Thresholds are removed. ${empty}`;
    },
  });
  if (message) toast(message, { tone: "good" });
  return Boolean(message);
}

//: Only administrators can change it.
function webhookField(value) {
  if (!can("admin")) return null;
  const help = "A URL that reports are posted to. Its path is hidden once it is stored.";
  return { name: "webhook", label: "Webhook", value: value ?? "", help };
}

function bodyOf({ webhook, ...values }, now) {
  const text = (name) => values[name].trim() || null;
  return {
    oldest: text("oldest"),
    backlog: values.backlog,
    failures: values.failures === null ? null : values.failures / 100,
    no_worker: text("no_worker"),
    within: text("within") ?? "5m",
    least: now.least,
    remind: text("remind") ?? "1h",
    ...(webhook !== undefined && { webhook: webhook.trim() || null }),
  };
}

function percent(share) {
  return typeof share === "number" ? Math.round(share * 10_000) / 100 : null;
}

function span(name, label, ms, help) {
  const value = typeof ms === "number" ? durationText(ms) : "";
  return { name, label, value, help };
}

function count(name, label, value, help) {
  return { name, label, type: "number", value: value ?? "", help };
}

function alertLine({ message, since }) {
  return h(
    "li",
    { class: "alert-line" },
    h("b", { class: "bad" }, "Alert"),
    h("span", null, message),
    h("span", { class: "faint" }, "raised ", timeAgo(since)),
  );
}

function factsOf(used) {
  if (!used) return [];
  const found = [
    ["Oldest waiting", used.oldest === null ? null : duration(used.oldest)],
    ["Backlog", used.backlog === null ? null : number(used.backlog)],
    ["Failures", used.failures === null ? null : `${percent(used.failures)} %`],
    ["No worker", used.no_worker === null ? null : duration(used.no_worker)],
    ["Webhook", used.webhook],
  ].filter(([, value]) => value !== null);
  if (found.length === 0) return [h("dt", null, "Thresholds"), h("dd", null, "none")];
  return found.flatMap(([name, value]) => [h("dt", null, name), h("dd", null, value)]);
}
