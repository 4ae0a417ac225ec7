// Schedule page: next and last runs, policies, job and actions of one schedule.

import { emptyState } from "../components/empty-state.js";
import { jsonTree } from "../components/json-tree.js";
import { panel } from "../components/panel.js";
import { table } from "../components/table.js";
import { toastProblem } from "../components/toast.js";
import { api, pathSegment } from "../lib/api.js";
import { fill, fillIfChanged, h } from "../lib/dom.js";
import { NO_VALUE, duration, time, timeAgo } from "../lib/format.js";
import { refresher } from "../lib/live.js";
import { can } from "../lib/me.js";
import { go, href } from "../lib/router.js";
import { factList, optionsOf, priorityOf } from "./job/details.js";
import { pathOf, remove, runNow, togglePause } from "./schedules/actions.js";
import { editSchedule } from "./schedules/edit.js";
import { momentItem, noTimes } from "./schedules/preview.js";
import { hasRun, tickBadge } from "./schedules/ticks.js";
import { MISSED, OVERLAP, isLate, scheduleMarks } from "./schedules/words.js";

export const page = {
  path: "/schedules/:name",
  title: "Schedule",

  mount(root, ctx) {
    const { name } = ctx.params;
    let schedule = null;
    ctx.setTitle(name);
    const slots = {
      marks: h("span", { class: "marks" }),
      actions: h("div", { class: "actions" }),
      note: h("div", { class: "notices" }),
      when: h("p", { class: "schedule-when" }),
      coming: h("div"),
      details: h("div"),
      data: h("div"),
    };
    const ticks = ticksTable();
    const none = h("div", { hidden: true }, notFound(name));
    const body = h("div", { class: "pile", hidden: true }, slots.when, panels(name, slots, ticks));
    root.append(
      h("header", { class: "page-head" }, title(name, slots.marks), slots.actions),
      slots.note,
      none,
      body,
    );

    async function read(signal) {
      try {
        schedule = await api.get(pathOf(name), null, { signal });
      } catch (error) {
        if (error.status !== 404) throw error;
        schedule = null;
      }
      none.hidden = schedule !== null;
      body.hidden = schedule === null;
      if (schedule === null) {
        fill(slots.actions);
        fill(slots.marks);
        return;
      }
      show();
    }

    //: Parts are replaced only when they change: a replaced button loses the focus.
    function show() {
      const { declared_by: module, paused, upcoming, data } = schedule;
      fillIfChanged(slots.marks, [scheduleMarks(schedule).map((one) => one.textContent)], () =>
        scheduleMarks(schedule),
      );
      fillIfChanged(slots.actions, [paused], buttons);
      fillIfChanged(slots.note, [module, isLate(schedule)], () => notes(schedule));
      fillIfChanged(slots.when, [schedule.words], () => schedule.words);
      fillIfChanged(slots.coming, [upcoming, paused], () => comingView(schedule));
      const { ticks: last, ...rest } = schedule;
      fillIfChanged(slots.details, [rest], () => factList(detailsOf(schedule)));
      fillIfChanged(slots.data, [data], () => jsonTree(data));
      ticks.update(last.toReversed());
    }

    function buttons() {
      const wanted = actionsFor(schedule.paused);
      ctx.actions(wanted.map(({ label, run }) => ({ label: `${label}: ${name}`, run })));
      return wanted.map(({ label, kind, run }) =>
        h("button", { type: "button", class: kind, onclick: run }, label),
      );
    }

    function actionsFor(paused) {
      if (!can("manage")) return [];
      const act = (label, what, kind = "") => ({ label, kind, run: () => run(what) });
      return [
        act("Run now", runNow, "primary"),
        act(paused ? "Resume" : "Pause", togglePause),
        act("Edit", editSchedule),
        act("Remove", removeAndLeave, "danger"),
      ];
    }

    async function run(what) {
      try {
        if (schedule && (await what(schedule))) await read();
      } catch (error) {
        toastProblem(error);
      }
    }

    //: Returns false: there is nothing left to read.
    async function removeAndLeave(given) {
      if (await remove(given)) go("/schedules");
      return false;
    }

    function key(label, what) {
      return { label, run: () => can("manage") && run(what) };
    }

    ctx.keys({
      r: key("Run now", runNow),
      e: key("Edit", editSchedule),
      P: key("Pause or resume the schedule", togglePause),
    });
    return refresher(read, { minMs: 1_000, everyMs: 10_000 });
  },
};

function title(name, marks) {
  return h(
    "div",
    { class: "named" },
    h("a", { class: "faint crumb", href: href("/schedules") }, "Schedules"),
    h("h1", null, name),
    marks,
  );
}

function panels(name, slots, ticks) {
  const search = new URLSearchParams({ tag: `schedule:${name}` });
  const all = h("a", { class: "more", href: href(`/jobs?${search}`) }, "All its jobs");
  return h(
    "div",
    { class: "job-columns" },
    h(
      "div",
      { class: "job-main" },
      panel("Last runs", { aside: all, tight: true }, ticks.node),
      panel("Data", {}, slots.data),
    ),
    h(
      "div",
      { class: "job-side" },
      panel("Next runs", {}, slots.coming),
      panel("Details", {}, slots.details),
    ),
  );
}

function notes(schedule) {
  const { declared_by: module } = schedule;
  const text = `Declared in code, by ${module}. Change it there; here it can be run and paused.`;
  const late = "It is due, but no worker has fired it. Is one running?";
  return [
    module && h("p", { class: "notice" }, text),
    isLate(schedule) && h("p", { class: "notice", dataset: { tone: "warn" } }, late),
  ];
}

function comingView({ upcoming, paused }) {
  if (!upcoming.length) return noTimes();
  return [
    paused && h("p", { class: "warn" }, "Paused. When resumed, it runs at:"),
    h("ol", { class: "lines" }, upcoming.map(momentItem)),
  ];
}

// -- last runs ---------------------------------------------------------------------

function ticksTable() {
  const rows = table({
    caption: "Last runs",
    key: ({ at, fired_at: fired, job }) => `${at}:${fired}:${job}`,
    columns: [
      { key: "at", label: "Due", render: dueView },
      { key: "status", label: "Outcome", render: tickBadge },
      {
        key: "delay",
        label: "Delay",
        end: true,
        title: "From when it was due until its job was added",
        render: ({ at, fired_at: fired }) => duration(Math.max(0, fired - at)),
      },
      {
        key: "duration",
        label: "Run time",
        end: true,
        render: (tick) => (hasRun(tick) ? duration(tick.duration) : NO_VALUE),
      },
      { key: "job", label: "Job", end: true, render: ({ job }) => jobLink(job) },
    ],
  });
  const none = h("p", { class: "card-body faint" }, "It has not run yet.");

  function update(ticks) {
    none.hidden = ticks.length > 0;
    rows.node.hidden = ticks.length === 0;
    rows.update(ticks);
  }

  rows.node.classList.add("ticks-table");
  return { node: [none, rows.node], update };
}

function dueView({ at, is_manual: isManual }) {
  return h(
    "span",
    { class: "when" },
    h("span", null, time(at)),
    h("span", { class: "faint" }, isManual ? ["by hand, ", timeAgo(at)] : timeAgo(at)),
  );
}

function jobLink(job) {
  return job === null ? NO_VALUE : h("a", { href: href(`/jobs/${job}`) }, `#${job}`);
}

function queueLink(name) {
  return h("a", { href: href(`/queues/${pathSegment(name)}`) }, name);
}

// -- details -----------------------------------------------------------------------

function detailsOf(schedule) {
  const { type, queue, cron, every, starts_at: start, ends_at: end, jitter } = schedule;
  const isOnce = !cron && !every;
  const facts = [
    ["Type", queue ? type : queueLink(type)],
    ["Queue", queue && queueLink(queue)],
    ["Expression", cron && h("code", null, cron)],
    ["Time zone", cron ? schedule.tz : null],
    ["First run", !isOnce && start !== null ? time(start) : null],
    ["Ends", end && timeAgo(end)],
    ["Jitter", jitter ? `up to ${duration(jitter)} later` : null],
    ["After missed times", MISSED[schedule.missed]],
    ["While a job is unfinished", isOnce ? null : OVERLAP[schedule.overlap]],
    ["Declared by", schedule.declared_by],
    ["Priority", schedule.priority ? priorityOf(schedule.priority) : null],
    ["Attempts", schedule.max_attempts || "unlimited"],
    ["Delay", schedule.delay ? duration(schedule.delay) : null],
    ["Must start within", schedule.expires ? duration(schedule.expires) : null],
    ["Retried for", schedule.retry_for ? duration(schedule.retry_for) : null],
    ...optionsOf(schedule),
  ];
  return facts.filter(([, value]) => value !== null && value !== undefined && value !== "");
}

function notFound(name) {
  return emptyState({
    title: "Schedule not found",
    text: `There is no schedule ${name}. One for a single time is removed when it has run.`,
    action: h("a", { class: "button", href: href("/schedules") }, "All schedules"),
  });
}
