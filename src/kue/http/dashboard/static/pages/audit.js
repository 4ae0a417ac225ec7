// Who changed what, and when.

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
    label: "Who",
    render: (act) => act.who || h("span", { class: "faint" }, "nobody"),
  },
  {
    key: "what",
    label: "What",
    render: (act) => h("span", { class: "mono" }, act.what),
  },
  {
    key: "target",
    label: "On",
    render: (act) => h("span", { class: "wrap" }, act.target || NO_VALUE),
  },
  { key: "status", label: "Answer", render: answer },
  {
    key: "address",
    label: "From",
    class: "nowrap",
    render: (act) => act.address || NO_VALUE,
  },
  {
    key: "detail",
    label: "Detail",
    render: (act) => h("span", { class: "wrap soft" }, told(act.detail)),
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
      caption: "What was changed",
    });
    list.node.classList.add("carded");
    const more = h("button", { onclick: older, hidden: true }, "Older");
    const place = h("div", { class: "as-cards" });
    let rest = [];
    let cursor = null;
    root.append(
      h("header", { class: "page-head" }, h("h1", null, "Audit")),
      h(
        "p",
        { class: "lead" },
        "Every change made over HTTP, done or refused: who, what, when, from where.",
      ),
      place,
      h("div", { class: "actions" }, more),
    );
    keys(list.keys);

    async function read(signal) {
      let found;
      try {
        found = await api.get("/audit", { limit: PAGE }, { signal });
      } catch (error) {
        if (!error.isMissing && error.status !== 403) throw error;
        fill(place, unavailable(error));
        return;
      }
      // What was paged to stays below what is new.
      if (!rest.length) cursor = found.cursor;
      show(found.acts);
    }

    async function older() {
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
      fill(place, byId.size ? list.node : NONE());
      more.hidden = !cursor;
    }

    return refresher(read, { minMs: 2_000, everyMs: 10_000 });
  },
};

function answer({ status }) {
  const isDone = status < 400;
  const words = {
    401: "refused",
    403: "refused",
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

function told(detail) {
  if (detail === null || detail === undefined || detail === "") return "";
  return typeof detail === "string" ? detail : JSON.stringify(detail);
}

function NONE() {
  return emptyState({
    title: "No changes yet",
    text: "Retries, pauses, logins and other changes are recorded here.",
  });
}

function unavailable(error) {
  const text = error.isMissing ? "This server keeps no audit log." : error.message;
  return emptyState({ title: "No audit log", text });
}
