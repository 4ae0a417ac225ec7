// Connections by name: where they lead, and which of them answer.

import { emptyState } from "../../components/empty-state.js";
import { table } from "../../components/table.js";
import { report } from "../../lib/api.js";
import { fill, h, setText } from "../../lib/dom.js";
import { timeSince } from "../../lib/format.js";
import { badge } from "../queues/badges.js";

const EXAMPLE = "export KUE_CONNECTIONS='mail=redis://mail.internal/0'";
const DEFAULT_PREFIX = "kue";

const COLUMNS = [
  { key: "name", label: "Name", render: nameOf },
  { key: "store", label: "Store", class: "cell-store", render: storeOf },
  { key: "state", label: "State", class: "cell-answer", render: stateOf },
];

//: *signal* is aborted when the page is left.
export function connectionsPanel({ api }, signal) {
  const list = table({
    columns: COLUMNS,
    key: ({ name }) => name ?? "",
    caption: "Connections",
  });
  list.node.classList.add("connections-table");
  const hint = h("div", { class: "below-table" });
  const body = h(
    "div",
    { class: "flush as-cards" },
    h("p", { class: "card-body faint", role: "status" }, "Asking each store …"),
  );
  const again = h("button", { class: "small", onclick: read }, "Check again");
  const node = h(
    "section",
    { class: "card", "aria-label": "Connections" },
    h(
      "header",
      { class: "card-head" },
      h("h2", null, "Connections"),
      h("span", { class: "actions" }, again),
    ),
    body,
  );
  read();
  return node;

  async function read() {
    setText(again, "Checking …");
    try {
      const { connections, problem } = await api.get("/connections", null, { signal });
      list.update(connections);
      fill(hint, problem ? unreadable(problem) : connections.every((one) => one.is_own) && noOthers());
      fill(body, list.node, hint);
    } catch (error) {
      if (signal.aborted) return;
      report(error);
      fill(body, emptyState({ title: "Not known", text: error.message }));
    } finally {
      setText(again, "Check again");
    }
  }
}

function nameOf({ name, is_own: isOwn }) {
  if (name === null) return h("span", { class: "faint" }, "This dashboard’s queue");
  return h(
    "span",
    { class: "wrap" },
    h("strong", null, name),
    isOwn && h("span", { class: "faint" }, " (this dashboard)"),
  );
}

//: The URL, or the members of a fail-over in the order in which they are tried.
function storeOf({ url, prefix, members, current, since }) {
  if (!members.length) {
    const isOther = prefix && prefix !== DEFAULT_PREFIX;
    return h(
      "div",
      null,
      url && h("code", { class: "wrap" }, url),
      isOther && h("div", { class: "help wrap" }, `prefix ${prefix}`),
    );
  }
  return h(
    "div",
    null,
    "Fail-over to the first that answers:",
    h(
      "ol",
      { class: "member-list" },
      members.map((one) =>
        h(
          "li",
          null,
          h("span", { class: "wrap" }, one.name),
          answerBadge(one),
          one.name === current && used(since),
        ),
      ),
    ),
  );
}

function used(since) {
  return h(
    "span",
    { class: "faint nowrap" },
    badge("", "in use", "Jobs that this server adds go there"),
    since !== null && [" for ", timeSince(since)],
  );
}

function stateOf(one) {
  const silent = one.members.filter(({ answers }) => !answers).map(({ name }) => name);
  const verb = silent.length === 1 ? "does" : "do";
  const isPart = one.answers && silent.length > 0;
  return h(
    "div",
    { class: "answer" },
    isPart ? badge("warn", "answers in part") : answerBadge(one),
    isPart && h("span", { class: "help wrap" }, `${silent.join(", ")} ${verb} not`),
    one.problem && h("span", { class: "help wrap" }, one.problem),
  );
}

function answerBadge({ answers, problem }) {
  return answers
    ? badge("good", "answers", "The store can be reached")
    : badge("bad", "does not answer", problem);
}

function noOthers() {
  return emptyState({
    title: "No named connections",
    text:
      "Define another store in KUE_CONNECTIONS or with kue.configure(mail=…), and use it as " +
      'kue.connect("mail"): see “Queues and connections” in the guides.',
    code: EXAMPLE,
  });
}

function unreadable(problem) {
  return emptyState({ title: "KUE_CONNECTIONS cannot be read", text: problem });
}
