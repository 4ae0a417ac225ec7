// Limits page: which limits are in force: those shared by name, and those of types.

import { emptyState } from "../components/empty-state.js";
import { icon } from "../components/icon.js";
import { panel } from "../components/panel.js";
import { table } from "../components/table.js";
import { toastProblem } from "../components/toast.js";
import { api, pathSegment } from "../lib/api.js";
import { h } from "../lib/dom.js";
import { number } from "../lib/format.js";
import { refresher } from "../lib/live.js";
import { can } from "../lib/me.js";
import { href } from "../lib/router.js";
import { editLimit, limitPath, newLimit, removeLimit } from "./limits/actions.js";
import { limitLink, limitMarks } from "./limits/words.js";
import { ruleText } from "./queues/badges.js";
import { limit as limitType } from "./queues/limits-form.js";

//: Pages of 200 that are read at most.
const MAX_PAGES = 5;
//: Code that shows how to have limits.
const FIRST_LIMIT = `@q.task(limits=[
    kue.rate("10/s", by="customer_id"),
    kue.concurrency(5, name="stripe"),
])
async def charge(customer_id: int) -> None: ...

# or for any jobs, without a deployment:
# kue limit set stripe --concurrency 5
# kue job add charge --limited-by stripe`;

export const page = {
  path: "/limits",
  title: "Limits",
  nav: { label: "Limits", icon: "limits", order: 46, key: "l" },

  mount(root, ctx) {
    let limits = [];
    let queues = [];
    const named = table({
      caption: "Named limits",
      key: ({ name }) => name,
      link: ({ name }) => limitPath(name),
      columns: namedColumns(actOnLimit),
    });
    const typed = table({
      caption: "Limits of types",
      key: ({ type }) => type,
      link: ({ type }) => `/queues/${pathSegment(type)}`,
      columns: typeColumns(actOnType),
    });
    for (const { node } of [named, typed]) node.classList.add("limits-table", "carded");
    const create = h("button", { type: "button", class: "primary", onclick: add }, "New limit");
    create.hidden = !can("manage");
    const none = h("div", { hidden: true }, noLimits(add));
    const noTypes = h("p", { class: "card-body faint" }, noTypesText());
    const body = h(
      "div",
      { class: "pile", hidden: true },
      none,
      panel("Named limits", { tight: true }, named.node),
      panel("Limits of types", { tight: true }, noTypes, typed.node),
    );
    root.append(h("header", { class: "page-head" }, h("h1", null, "Limits"), create), body);

    async function read(signal) {
      const [foundLimits, foundQueues] = await Promise.all([
        readAll("limits", signal),
        readAll("queues", signal),
      ]);
      limits = foundLimits;
      queues = foundQueues.filter((queue) => queue.limits !== null).map(limitedType);
      show();
    }

    function show() {
      named.update(limits);
      typed.update(queues);
      body.hidden = false;
      none.hidden = limits.length > 0;
      named.node.closest("section").hidden = limits.length === 0;
      noTypes.hidden = queues.length > 0;
      typed.node.hidden = queues.length === 0;
    }

    async function add() {
      if (await newLimit(limits.map(({ name }) => name))) await read();
    }

    //: Act on a limit in its current state, not in the state it was drawn in.
    function actOnLimit(what, name) {
      return act(what, limits.find((one) => one.name === name));
    }

    function actOnType(what, type) {
      return act(what, queues.find((one) => one.type === type));
    }

    async function act(what, found) {
      try {
        if (found && (await what(found))) await read();
      } catch (error) {
        toastProblem(error);
      }
    }

    ctx.keys({ ...named.keys, n: { label: "New limit", run: () => can("manage") && add() } });
    if (can("manage")) ctx.actions([{ label: "New limit", icon: "plus", run: add }]);
    return refresher(read, { minMs: 1_500, everyMs: 5_000 });
  },
};

async function readAll(what, signal) {
  const found = [];
  let after;
  for (let pages = 0; pages < MAX_PAGES; pages += 1) {
    const answer = await api.get(`/${what}`, { after }, { signal });
    found.push(...answer[what]);
    if (answer.next === null) break;
    after = answer.next;
  }
  return found;
}

//: What a row shows of a type: the rest changes with every job.
function limitedType({ type, limits, counts }) {
  return { type, limits, running: counts.active, waiting: counts.waiting };
}

// -- columns -----------------------------------------------------------------------

function namedColumns(act) {
  return [
    { key: "name", label: "Limit", render: limitName },
    { key: "rule", label: "Rule", class: "cell-rule", render: ({ rule }) => rule.words },
    ...countColumns("Jobs that it holds back"),
    actionsColumn((limit) => [
      button("Edit", limit.name, "edit", () => act(editLimit, limit.name)),
      button("Delete", limit.name, "trash", () => act(removeLimit, limit.name)),
    ]),
  ];
}

function typeColumns(act) {
  return [
    {
      key: "type",
      label: "Type",
      render: ({ type }) => h("a", { href: href(`/queues/${pathSegment(type)}`) }, type),
    },
    { key: "rule", label: "Limits", class: "cell-rule", render: (row) => ruleText(row.limits) },
    ...countColumns("Jobs of the type that wait, for whatever reason"),
    actionsColumn(({ type }) => [
      button("Limits", type, "edit", () => act(limitType, type)),
    ]),
  ];
}

function countColumns(title) {
  return [
    { key: "running", label: "Running", end: true, render: ({ running }) => number(running) },
    { key: "waiting", label: "Waiting", end: true, title, render: waitingCount },
  ];
}

function waitingCount({ waiting }) {
  return waiting ? h("b", null, number(waiting)) : number(waiting);
}

function actionsColumn(buttons) {
  return {
    key: "acts",
    label: "Actions",
    class: "cell-acts",
    render: (row) => (can("manage") ? buttons(row) : null),
  };
}

function button(label, name, iconName, onclick) {
  const named = { title: label, "aria-label": `${label}: ${name}` };
  return h("button", { type: "button", class: "plain", ...named, onclick }, icon(iconName));
}

function limitName(limit) {
  return h("span", { class: "named" }, limitLink(limit.name), limitMarks(limit));
}

function noTypesText() {
  return "No type has limits. They are set on the page of a queue, or with kue queue limit.";
}

function noLimits(add) {
  return emptyState({
    title: "No named limits yet",
    text: "It limits how many jobs, of any types, run at once or start in a time.",
    code: FIRST_LIMIT,
    action: can("manage") ? { label: "New limit", run: add } : null,
  });
}
