// Circuits that are not closed: a panel, hidden while there are none.

import { formDialog } from "../../components/form.js";
import { panel } from "../../components/panel.js";
import { table } from "../../components/table.js";
import { toast, toastDone } from "../../components/toast.js";
import { api, pathSegment } from "../../lib/api.js";
import { h } from "../../lib/dom.js";
import { NO_VALUE, time, timeAgo } from "../../lib/format.js";
import { refresher } from "../../lib/live.js";
import { can } from "../../lib/me.js";
import { href } from "../../lib/router.js";
import { badge } from "./badges.js";

//: Return {node, stop(), openAny()}; the last asks for the name of a circuit to open.
export function circuits() {
  const rows = table({ caption: "Circuits", key: ({ name }) => name, columns: columns(act) });
  rows.node.classList.add("circuits-table", "carded", "carded-flat");
  const node = panel("Circuits", { tight: true }, rows.node);
  node.hidden = true;

  async function read(signal) {
    const found = (await api.get("/circuits", null, { signal })).circuits;
    const shown = found.filter(({ state }) => state !== "closed");
    rows.update(shown);
    node.hidden = shown.length === 0;
  }

  async function act(what, circuit) {
    if (await what(circuit)) await read();
  }

  const stop = refresher(read, { minMs: 1_500, everyMs: 15_000 });
  return { node, stop, openAny: () => act(open, { name: null }) };
}

//: Close a circuit.  Like the other one it returns a promise of whether it was done.
export function close({ name }) {
  return toastDone(`Circuit ${name} is closed`, api.post(`${pathOf(name)}/close`));
}

//: Ask for duration and reason, then open a circuit; without a name, ask for that, too.
async function open({ name }) {
  const opened = await formDialog({
    title: name === null ? "Open a circuit" : `Reopen circuit ${name}`,
    text: "Its jobs wait and spend no attempt; running jobs finish. Then one job tests it.",
    fields: [
      ...(name === null ? [{ name: "name", label: "Circuit", parse: required }] : []),
      { name: "for", label: "Duration", value: "5m", help: "For example 30m, 2h or 1d." },
      { name: "reason", label: "Reason", placeholder: "shown with the circuit" },
    ],
    action: name === null ? "Open" : "Reopen",
    submit: ({ name: given = name, for: lasts, reason }) =>
      api.post(`${pathOf(given)}/open`, { for: lasts.trim(), reason: reason.trim() }),
  });
  if (opened) toast(`Circuit ${opened.name} is open`, { tone: "good" });
  return Boolean(opened);
}

function columns(act) {
  return [
    { key: "name", label: "Circuit", render: named },
    { key: "until", label: "Until", render: until },
    { key: "cause", label: "Cause", class: "cell-text", render: ({ cause }) => cause },
    {
      key: "error",
      label: "Last error",
      class: "cell-text",
      render: ({ last_error: error }) => error || NO_VALUE,
    },
    { key: "acts", label: "Actions", class: "cell-acts", render: (one) => buttons(one, act) },
  ];
}

function named({ name, state }) {
  const [tone, title] =
    state === "open"
      ? ["bad", "Jobs wait until it may be tested"]
      : ["warn", "One job tests it; the others wait"];
  return h("span", { class: "named" }, h("strong", null, name), badge(tone, state, title));
}

function until({ until: at, probe }) {
  if (at !== null) return [`${time(at)} (`, timeAgo(at), ")"];
  if (probe === null) return "the next job tests it";
  return [h("a", { href: href(`/jobs/${probe}`) }, `job ${probe}`), " tests it"];
}

function buttons(circuit, act) {
  const button = (word, label, what) =>
    h(
      "button",
      { type: "button", class: "small", "aria-label": label, onclick: () => act(what, circuit) },
      word,
    );
  return (
    can("manage") && [
      button("Close", `Close circuit ${circuit.name}`, close),
      button("Reopen", `Reopen circuit ${circuit.name}`, open),
    ]
  );
}

function pathOf(name) {
  return `/circuits/${pathSegment(name)}`;
}

function required(text) {
  if (text.trim()) return text.trim();
  throw Object.assign(new Error("give the name of a circuit"), { field: "name" });
}
