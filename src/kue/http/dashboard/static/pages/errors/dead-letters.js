// Dead letters: where failed jobs are forwarded to, how many there are, and the way back.

import { confirm } from "../../components/dialog.js";
import { formDialog } from "../../components/form.js";
import { panel } from "../../components/panel.js";
import { toast, toastProblem } from "../../components/toast.js";
import { api, pathSegment } from "../../lib/api.js";
import { fill, h } from "../../lib/dom.js";
import { plural } from "../../lib/format.js";
import { can } from "../../lib/me.js";
import { href } from "../../lib/router.js";

//: States in which a dead letter waits for somebody.
const OPEN = ["waiting", "delayed", "failed"];

//: The failed job that *job* is the dead letter of; null if it is not one.
export function deadLetterOf({ data, parent }) {
  const isLetter = parent !== null && data?.job_id === parent && data.error?.kind && data.type;
  return isLetter ? data : null;
}

//: A link to the dead letter of a failed job; null if its type has no dead letters.
export async function letterLink({ id, type, state }) {
  if (state !== "failed") return null;
  const rules = await api.get("/failures/rules");
  const of = (wanted) => rules.find((rule) => rule.type === wanted)?.dead_letter;
  const dead = of(type) || of(null);
  if (!dead || dead === type) return null;
  const search = new URLSearchParams({ type: dead, "data.job_id": id });
  const link = h("a", { href: href(`/jobs?${search}`) }, dead);
  return h("p", { class: "job-note" }, "Forwarded as a dead letter to ", link, ".");
}

//: Put dead letters back to where they came from: all of a type, or those with *ids*.
export async function replay(type, ids = null) {
  try {
    const { replayed } = await api.post("/failures/replay", { dead_letter: type, ids });
    toast(`${plural(replayed, "dead letter")} replayed`, { tone: "good" });
  } catch (problem) {
    toastProblem(problem);
  }
}

async function replayAll(type, count) {
  const text = "Jobs that failed are retried, or added again if they are gone.";
  const title = `Replay ${plural(count, "dead letter")} of ${type}?`;
  if (await confirm({ title, text, action: "Replay" })) await replay(type);
}

//: Return {node, read(signal)}: a panel with the rules about failed jobs.
export function deadLetters() {
  const list = h("ul", { class: "failure-rules" });
  const set = h("button", { onclick: () => setRule().then(() => read()) }, "Set a rule…");
  const node = panel("After a failure", { aside: can("manage") && set }, list);

  async function read(signal) {
    const rules = await api.get("/failures/rules", null, { signal });
    const { queues } = await api.get("/queues", null, { signal });
    const counts = new Map(queues.map((queue) => [queue.type, openJobs(queue)]));
    const types = [...new Set(rules.map((rule) => rule.dead_letter))].filter(Boolean);
    fill(
      list,
      rules.map((rule) => h("li", null, ruleText(rule))),
      types.map((type) => letters(type, counts.get(type) ?? 0)),
      rules.length === 0 &&
        h("li", { class: "faint" }, "Failed jobs are kept, and nothing else is done about them."),
    );
  }

  return { node, read };
}

function openJobs({ counts }) {
  return OPEN.reduce((sum, state) => sum + (counts[state] ?? 0), 0);
}

function letters(type, count) {
  const path = `/jobs?${new URLSearchParams({ type })}`;
  return h(
    "li",
    { class: "dead-letters" },
    h("a", { href: href(path) }, plural(count, "dead letter")),
    ` in ${type} `,
    count > 0 &&
      can("manage") &&
      h("button", { onclick: () => replayAll(type, count) }, "Replay all"),
  );
}

function ruleText({ type, hooks, dead_letter: dead, webhook }) {
  const who =
    type === null
      ? "any type"
      : h("a", { href: href(`/queues/${pathSegment(type)}`) }, type);
  const parts = [
    hooks && "call failure hooks",
    dead && `are forwarded to ${dead}`,
    webhook && `are reported to ${webhook}`,
  ];
  return ["Failed jobs of ", who, ` ${parts.filter(Boolean).join(", ")}.`];
}

function setRule() {
  return formDialog({
    title: "What is done about failed jobs",
    text: "It applies to jobs that fail from now on. An empty field removes what was set.",
    action: "Set",
    fields: [
      { name: "type", label: "Queue", help: "Empty for all queues without their own rule" },
      { name: "dead", label: "Dead letter queue", help: "Failed jobs are forwarded to it" },
      can("admin") && { name: "webhook", label: "Webhook", placeholder: "https://…" },
    ].filter(Boolean),
    submit: async ({ type, dead, webhook }) => {
      const path = type ? `/queues/${pathSegment(type)}/failures` : "/failures/default";
      const body = { dead_letter: dead || null };
      await api.put(path, webhook === undefined ? body : { ...body, webhook: webhook || null });
      toast("The rule is set", { tone: "good" });
    },
  });
}
