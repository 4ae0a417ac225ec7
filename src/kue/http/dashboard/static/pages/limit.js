// Limit page: the rule, the keys that are used, and the jobs of one named limit.

import { emptyState } from "../components/empty-state.js";
import { stateBadge } from "../components/job-state.js";
import { panel } from "../components/panel.js";
import { table } from "../components/table.js";
import { toastProblem } from "../components/toast.js";
import { api } from "../lib/api.js";
import { fill, fillIfChanged, h } from "../lib/dom.js";
import { NO_VALUE, number, timeAgo } from "../lib/format.js";
import { refresher } from "../lib/live.js";
import { can } from "../lib/me.js";
import { go, href } from "../lib/router.js";
import { factList } from "./job/details.js";
import { editLimit, limitPath, removeLimit } from "./limits/actions.js";
import { limitMarks } from "./limits/words.js";

export const page = {
  path: "/limits/:name",
  title: "Limit",

  mount(root, ctx) {
    const { name } = ctx.params;
    let limit = null;
    ctx.setTitle(name);
    const slots = {
      marks: h("span", { class: "marks" }),
      actions: h("div", { class: "actions" }),
      rule: h("p", { class: "limit-rule" }),
      details: h("div"),
    };
    const keys = listOf("Keys", keyColumns(), ({ key }) => `=${key}`, "No job runs or waits.");
    const jobs = listOf("Jobs", jobColumns(), ({ id }) => id, "No job was found.");
    const none = h("div", { hidden: true }, notFound(name));
    const body = h("div", { class: "pile", hidden: true }, slots.rule, panels(slots, keys, jobs));
    root.append(
      h("header", { class: "page-head" }, title(name, slots.marks), slots.actions),
      none,
      body,
    );

    async function read(signal) {
      try {
        limit = await api.get(limitPath(name), null, { signal });
      } catch (error) {
        if (error.status !== 404) throw error;
        limit = null;
      }
      none.hidden = limit !== null;
      body.hidden = limit === null;
      if (limit !== null) {
        show();
        return;
      }
      for (const slot of [slots.actions, slots.marks]) {
        delete slot.dataset.key;
        fill(slot);
      }
      ctx.actions([]);
    }

    //: Parts are replaced only when they change: a replaced button loses the focus.
    function show() {
      const { rule, declared, is_changed: isChanged } = limit;
      fillIfChanged(slots.marks, [isChanged, declared], () => limitMarks(limit));
      fillIfChanged(slots.actions, [true], buttons);
      fillIfChanged(slots.rule, [rule], () => rule.words);
      const facts = detailsOf(limit);
      fillIfChanged(slots.details, [facts], () => factList(facts));
      keys.update(limit.keys);
      jobs.update(limit.jobs);
    }

    function buttons() {
      const wanted = can("manage")
        ? [
            { label: "Edit", kind: "primary", run: () => run(editLimit) },
            { label: "Delete", kind: "danger", run: () => run(removeAndLeave) },
          ]
        : [];
      ctx.actions(wanted.map(({ label, run: act }) => ({ label: `${label}: ${name}`, run: act })));
      return wanted.map(({ label, kind, run: onclick }) =>
        h("button", { type: "button", class: kind, onclick }, label),
      );
    }

    async function run(what) {
      try {
        if (limit && (await what(limit))) await read();
      } catch (error) {
        toastProblem(error);
      }
    }

    //: Returns false: there is nothing left to read.
    async function removeAndLeave(given) {
      if (await removeLimit(given)) go("/limits");
      return false;
    }

    ctx.keys({ e: { label: "Edit", run: () => can("manage") && run(editLimit) } });
    return refresher(read, { minMs: 1_000, everyMs: 3_000 });
  },
};

function title(name, marks) {
  return h(
    "div",
    { class: "named" },
    h("a", { class: "faint crumb", href: href("/limits") }, "Limits"),
    h("h1", null, name),
    marks,
  );
}

function panels(slots, keys, jobs) {
  return h(
    "div",
    { class: "job-columns" },
    h(
      "div",
      { class: "job-main" },
      panel("Keys", { tight: true }, keys.node),
      panel("Running and waiting jobs", { tight: true }, jobs.node),
    ),
    h("div", { class: "job-side" }, panel("Details", {}, slots.details)),
  );
}

//: A table, and what to say while it is empty.
function listOf(caption, columns, key, text) {
  const rows = table({ caption, key, columns });
  const none = h("p", { class: "card-body faint" }, text);

  function update(found) {
    none.hidden = found.length > 0;
    rows.node.hidden = found.length === 0;
    rows.update(found);
  }

  return { node: [none, rows.node], update };
}

function keyColumns() {
  return [
    { key: "key", label: "Key", class: "name", render: ({ key }) => keyText(key) },
    { key: "running", label: "Running", end: true, render: ({ running }) => number(running) },
    {
      key: "waiting",
      label: "Waiting",
      end: true,
      title: "Jobs that it holds back",
      render: ({ waiting }) => number(waiting),
    },
    { key: "opens", label: "Next start", end: true, render: nextStart },
  ];
}

function jobColumns() {
  return [
    {
      key: "id",
      label: "Job",
      render: ({ id }) => h("a", { href: href(`/jobs/${id}`) }, `#${id}`),
    },
    { key: "type", label: "Type", class: "name", render: ({ type }) => type },
    { key: "key", label: "Key", class: "name", render: ({ key }) => keyText(key) },
    { key: "state", label: "State", render: jobState },
  ];
}

function keyText(key) {
  return key || h("span", { class: "faint" }, "without key");
}

function nextStart({ opens_at: at }) {
  if (at === null) return NO_VALUE;
  return at <= Date.now() ? "now" : timeAgo(at);
}

function jobState({ state, held, held_until: until }) {
  return [
    stateBadge(state),
    held && h("span", { class: "note", title: held }, " held"),
    until !== null && h("span", { class: "note" }, ", may start ", timeAgo(until)),
  ];
}

function detailsOf({ rule, declared, running, waiting }) {
  return [
    ["Rule", rule.words],
    ["Declared", declared === null ? "by no program" : declared.words],
    ["Running", number(running)],
    ["Waiting", number(waiting)],
  ];
}

function notFound(name) {
  return emptyState({
    title: "Limit not found",
    text: `There is no limit ${name}. Jobs that name it are not limited by it.`,
    action: h("a", { class: "button", href: href("/limits") }, "All limits"),
  });
}
