// API tokens with their scopes: create, revoke.

import { confirm, openDialog } from "../../components/dialog.js";
import { codeSample, emptyState } from "../../components/empty-state.js";
import { formDialog } from "../../components/form.js";
import { table } from "../../components/table.js";
import { toast, toastProblem } from "../../components/toast.js";
import { pathSegment, report } from "../../lib/api.js";
import { fill, h } from "../../lib/dom.js";
import { NO_VALUE, timeAgo } from "../../lib/format.js";

const SCOPES = [
  ["read", "Read: see everything"],
  ["enqueue", "Enqueue: add jobs"],
  ["manage", "Manage: retry, cancel, pause"],
  ["admin", "Admin: remove jobs, manage users and tokens"],
];
//: Lifetimes of a token.
const LIFETIMES = [
  ["1d", "1 day"],
  ["30d", "30 days"],
  ["90d", "90 days"],
  ["365d", "1 year"],
  ["", "Never"],
];

export function tokensPanel({ api, me }) {
  const columns = [
    { key: "name", label: "Name", render: (token) => token.name },
    { key: "scopes", label: "Scopes", render: (token) => (token.scopes ?? []).join(", ") },
    { key: "used", label: "Last used", render: (token) => timeAgo(token.used_at) },
    {
      key: "until",
      label: "Expires",
      render: (token) => (token.until ? timeAgo(token.until) : "never"),
    },
    { key: "by", label: "Created by", render: (token) => token.by || NO_VALUE },
    {
      key: "acts",
      label: "",
      class: "end",
      render: (token) =>
        me.open_mode
          ? null
          : h(
              "button",
              { class: "small danger", onclick: () => revoke(token) },
              "Revoke",
            ),
    },
  ];
  const list = table({ columns, key: (token) => token.id, caption: "Tokens" });
  const container = h("div", { class: "flush as-cards" });
  const add = h("button", { class: "small", onclick: create }, "Create a token");
  // Without login, tokens are created on the command line.
  add.hidden = me.open_mode;
  const node = h(
    "section",
    { class: "card" },
    h(
      "header",
      { class: "card-head" },
      h("h2", null, "Tokens"),
      h("span", { class: "actions" }, add),
    ),
    container,
  );
  read();
  return node;

  async function read() {
    try {
      const found = await api.get("/tokens");
      const all = found.tokens ?? found;
      list.update(all);
      fill(container, all.length ? list.node : noTokens(me));
    } catch (error) {
      if (!error.isMissing) report(error);
      node.hidden = error.isMissing;
    }
  }

  function create() {
    return formDialog({
      title: "Create a token",
      action: "Create",
      fields: [
        { name: "name", label: "Name", required: true, help: "Purpose" },
        {
          name: "expires",
          label: "Expires after",
          type: "select",
          options: LIFETIMES,
          value: "90d",
        },
        ...SCOPES.map(([name, label]) => ({
          name,
          label,
          type: "check",
          value: name === "read",
        })),
      ],
      submit: async (values) => {
        const scopes = SCOPES.map(([name]) => name).filter((name) => values[name]);
        if (!scopes.length) throw new Error("choose at least one scope");
        const expires = values.expires || null;
        const created = await api.post("/tokens", { name: values.name, scopes, expires });
        showSecret(created.secret);
        read();
      },
    });
  }

  async function revoke(token) {
    const isSure = await confirm({
      title: `Revoke ${token.name}?`,
      text: "Programs that use it will be rejected.",
      action: "Revoke",
      danger: true,
    });
    if (!isSure) return;
    try {
      await api.delete(`/tokens/${pathSegment(token.id)}`);
      toast(`${token.name} is revoked`, { tone: "good" });
      read();
    } catch (error) {
      toastProblem(error);
    }
  }
}

function showSecret(secret) {
  openDialog({
    title: "Your token",
    body: [
      h("p", null, "Copy it now: it is shown only once."),
      codeSample(secret),
      h(
        "p",
        { class: "help" },
        "Programs send it as the header ",
        h("code", null, "Authorization: Bearer …"),
        ".",
      ),
    ],
  });
}

function noTokens(me) {
  const use =
    'curl -H "Authorization: Bearer $KUE_TOKEN" https://example.com/api/v1/stats';
  return emptyState({
    title: "No tokens",
    text: "Programs authenticate to the REST API with a token.",
    code: me.open_mode ? "kue token add NAME --scope read" : use,
  });
}
