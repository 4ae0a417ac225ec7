// Default thresholds, silenced types and tags, and monitored tags.

import { formDialog } from "../../components/form.js";
import { toast, toastProblem } from "../../components/toast.js";
import { pathSegment, report } from "../../lib/api.js";
import { fill, h } from "../../lib/dom.js";
import { duration, number } from "../../lib/format.js";
import { can } from "../../lib/me.js";
import { editThresholds, setSilenced } from "../queue/alerts.js";

const KINDS = [
  ["types", "type"],
  ["tags", "tag"],
];

export function alertsPanel({ api }) {
  const body = h("dl", { class: "card-body facts facts-tall" });
  const edit = h("button", { class: "small", onclick: editDefault }, "Default thresholds");
  const silence = h("button", { class: "small", onclick: askSilence }, "Silence");
  const monitor = h("button", { class: "small", onclick: askTag }, "Monitor a tag");
  const node = h(
    "section",
    { class: "card", "aria-label": "Alerts" },
    h(
      "header",
      { class: "card-head" },
      h("h2", null, "Alerts"),
      can("manage") && h("span", { class: "actions" }, edit, silence, monitor),
    ),
    body,
  );
  let known = null;
  read();
  return node;

  async function read() {
    try {
      const [alerts, tags] = await Promise.all([api.get("/alerts"), api.get("/tags")]);
      known = alerts.default;
      fill(
        body,
        h("dt", null, "Default"),
        h("dd", null, known ? textOf(known) : "No thresholds"),
        KINDS.map(([kind, word]) => [
          h("dt", null, `Silenced ${kind}`),
          h("dd", null, names(alerts.silenced[kind], (name) => unsilence(kind, name), word)),
        ]),
        h("dt", null, "Monitored tags"),
        h("dd", null, names(tags.map(({ tag }) => tag), unmonitor, "monitored tag")),
      );
    } catch (error) {
      if (!error.isMissing) report(error);
      node.hidden = error.isMissing;
    }
  }

  async function editDefault() {
    const isDone = await editThresholds({
      title: "Default thresholds",
      path: "/alerts/default",
      known,
      empty: "Only queues with thresholds of their own have alerts",
    });
    if (isDone) read();
  }

  async function askSilence() {
    const answer = await formDialog({
      title: "Silence",
      text: "Its jobs cause no alerts and warnings. They run as before.",
      action: "Silence",
      fields: [
        { name: "kind", label: "What", type: "select", options: KINDS },
        { name: "name", label: "Name", required: true },
      ],
      submit: ({ kind, name }) => api.put(`/silenced/${kind}/${pathSegment(name)}`, undefined),
    });
    if (answer) read();
  }

  async function askTag() {
    const answer = await formDialog({
      title: "Monitor a tag",
      text: "The overview counts the jobs with it.",
      action: "Monitor",
      fields: [{ name: "tag", label: "Tag", required: true }],
      submit: ({ tag }) => api.put(`/tags/${pathSegment(tag)}`, undefined),
    });
    if (answer) read();
  }

  async function unsilence(kind, name) {
    if (await setSilenced(kind, name, false)) read();
  }

  async function unmonitor(tag) {
    try {
      await api.delete(`/tags/${pathSegment(tag)}`);
      toast(`${tag} is no longer monitored`, { tone: "good" });
    } catch (error) {
      toastProblem(error);
    }
    read();
  }
}

//: Names, each with a button that removes it.
function names(found, remove, word) {
  if (found.length === 0) return h("span", { class: "faint" }, "None");
  return h(
    "ul",
    { class: "name-list" },
    found.map((name) =>
      h(
        "li",
        null,
        h("span", null, name),
        can("manage") &&
          h(
            "button",
            { class: "small", "aria-label": `Remove ${word} ${name}`, onclick: () => remove(name) },
            "Remove",
          ),
      ),
    ),
  );
}

function textOf({ oldest, backlog, failures, no_worker: noWorker, webhook }) {
  const parts = [
    oldest !== null && `oldest ${duration(oldest)}`,
    backlog !== null && `backlog ${number(backlog)}`,
    failures !== null && `failures ${Math.round(failures * 10_000) / 100} %`,
    noWorker !== null && `no worker ${duration(noWorker)}`,
    webhook !== null && `webhook ${webhook}`,
  ];
  return parts.filter(Boolean).join(", ") || "No thresholds";
}
