// Audit page: who changed what, and when.

import { emptyState } from "../components/empty-state.js";
import { table } from "../components/table.js";
import { isAbort, report } from "../lib/api.js";
import { fill, h } from "../lib/dom.js";
import { NO_VALUE, timeAgo } from "../lib/format.js";

const PAGE = 100;

const COLUMNS = [
  { key: "at", label: "When", class: "nowrap", render: (act) => timeAgo(act.at) },
  {
    key: "who",
    label: "User",
    render: (act) => act.who || h("span", { class: "faint" }, "none"),
  },
  {
    key: "what",
    label: "Action",
    render: (act) => h("span", { class: "mono" }, act.what),
  },
  {
    key: "target",
    label: "Target",
    render: (act) => h("span", { class: "wrap" }, act.target || NO_VALUE),
  },
  { key: "status", label: "Result", render: result },
  {
    key: "address",
    label: "From",
    class: "nowrap",
    render: (act) => act.address || NO_VALUE,
  },
  {
    key: "detail",
    label: "Detail",
    render: (act) => h("span", { class: "wrap soft" }, detailText(act.detail)),
  },
];

export const page = {
  path: "/audit",
  title: "Audit",
  nav: { label: "Audit", icon: "audit", order: 80, key: "a", needs: "admin" },

  mount(root, { api, keys, refresher }) {
    const list = table({
      columns: COLUMNS,
      key: (act) => act.id,
      caption: "Audit log",
    });
    list.node.classList.add("carded");
    const more = h("button", { onclick: loadOlder, hidden: true }, "Older");
    const container = h("div", { class: "as-cards" });
    let rest = [];
    let cursor = null;
    root.append(
      h("header", { class: "page-head" }, h("h1", null, "Audit")),
      h(
        "p",
        { class: "lead" },
        "Every change over HTTP, done or rejected: who, what, when, from where.",
      ),
      container,
      h("div", { class: "actions" }, more),
    );
    keys(list.keys);

    async function read(signal) {
      let found;
      try {
        found = await api.get("/audit", { limit: PAGE }, { signal });
      } catch (error) {
        if (!error.isMissing && error.status !== 403) throw error;
        fill(container, unavailable(error));
        return;
      }
      // Older pages that were loaded stay below the new entries.
      if (!rest.length) cursor = found.cursor;
      show(found.acts);
    }

    async function loadOlder() {
      more.disabled = true;
      try {
        const found = await api.get("/audit", { limit: PAGE, cursor });
        rest = [...rest, ...found.acts];
        cursor = found.cursor;
        show(list.rows);
      } catch (error) {
        if (!isAbort(error)) report(error);
      } finally {
        more.disabled = false;
      }
    }

    function show(newest) {
      const byId = new Map([...newest, ...rest].map((act) => [act.id, act]));
      list.update([...byId.values()]);
      fill(container, byId.size ? list.node : noEntries());
      more.hidden = !cursor;
    }

    return refresher(read, { minMs: 2_000, everyMs: 10_000 });
  },
};

function result({ status }) {
  const isDone = status < 400;
  const words = {
    401: "rejected",
    403: "rejected",
    404: "not found",
    409: "conflict",
    429: "rate limited",
  };
  const text = isDone ? "done" : (words[status] ?? "failed");
  return h(
    "span",
    { class: ["nowrap", isDone ? "good" : "bad"], title: `Status ${status}` },
    text,
  );
}

function detailText(detail) {
  if (detail === null || detail === undefined || detail === "") return "";
  return typeof detail === "string" ? detail : JSON.stringify(detail);
}

function noEntries() {
  return emptyState({
    title: "No changes yet",
    text: "Retries, pauses, logins and other changes are recorded here.",
  });
}

function unavailable(error) {
  const text = error.isMissing ? "This server has no audit log." : error.message;
  return emptyState({ title: "No audit log", text });
}
