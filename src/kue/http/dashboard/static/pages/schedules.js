// Schedules page: all schedules with their next run, their last runs and actions.

import { emptyState } from "../components/empty-state.js";
import { icon } from "../components/icon.js";
import { table } from "../components/table.js";
import { toastProblem } from "../components/toast.js";
import { api, pathSegment } from "../lib/api.js";
import { h } from "../lib/dom.js";
import { NO_VALUE, plural, time, timeAgo } from "../lib/format.js";
import { refresher } from "../lib/live.js";
import { can } from "../lib/me.js";
import { href, query, setQuery } from "../lib/router.js";
import { remove, runNow, togglePause } from "./schedules/actions.js";
import { editSchedule, newSchedule } from "./schedules/edit.js";
import { tickStrip } from "./schedules/ticks.js";
import { isLate, scheduleMarks, whenView } from "./schedules/words.js";

//: Pages of 200 schedules that are read at most.
const MAX_PAGES = 5;
//: Code that shows how to have schedules.
const FIRST_SCHEDULE = `@q.every("10m")
async def sweep() -> None: ...

@q.cron("0 9 * * mon-fri", tz="Europe/Berlin")
async def digest() -> None: ...

# or for any type of jobs, without a deployment:
# kue schedule add sweep clean --every 10m`;

export const page = {
  path: "/schedules",
  title: "Schedules",
  nav: { label: "Schedules", icon: "schedules", order: 45, key: "c" },

  mount(root, ctx) {
    let all = [];
    let isMore = false;
    let { text = "", sort = "name" } = query();
    const rows = table({
      caption: "Schedules",
      key: ({ name }) => name,
      link: ({ name }) => `/schedules/${pathSegment(name)}`,
      columns: columns(act),
    });
    rows.node.classList.add("schedules-table", "carded");
    const count = h("span", { class: "faint" });
    const create = h("button", { type: "button", class: "primary", onclick: add }, "New schedule");
    const search = h("input", {
      type: "search",
      dataset: { search: "" },
      value: text,
      placeholder: "Find by name or type",
      "aria-label": "Find a schedule",
      oninput: () => {
        text = search.value;
        applyFilter();
      },
    });
    const none = h("div", { hidden: true }, noSchedules(add));
    const bar = h("div", { class: "page-bar" }, search, sortPicker(), count);
    create.hidden = !can("manage");
    root.append(
      h("header", { class: "page-head" }, h("h1", null, "Schedules"), create),
      bar,
      none,
      rows.node,
    );

    function sortPicker() {
      const options = [
        ["name", "name"],
        ["next", "next run"],
      ];
      const onchange = (event) => {
        sort = event.target.value;
        applyFilter();
      };
      return h(
        "label",
        { class: "inline" },
        "Sort by ",
        h(
          "select",
          { onchange },
          options.map(([value, label]) =>
            h("option", { value, selected: value === sort }, label),
          ),
        ),
      );
    }

    function applyFilter() {
      setQuery({ text, sort: sort === "name" ? null : sort });
      show();
    }

    async function read(signal) {
      const [found, isCut] = await readAll(signal);
      // Time passes without a change of the schedule; its row is drawn again all the same.
      all = found.map((one) => ({ ...one, isLate: isLate(one) }));
      isMore = isCut;
      show();
    }

    function show() {
      const wanted = text.toLowerCase();
      const found = all.filter(({ name, type }) =>
        [name, type].some((one) => one.toLowerCase().includes(wanted)),
      );
      if (sort === "next") found.sort((a, b) => nextOf(a) - nextOf(b));
      rows.update(found);
      const rest = isMore ? ", the first by name" : "";
      count.textContent = `${plural(found.length, "schedule")}${rest}`;
      none.hidden = all.length > 0;
      bar.hidden = rows.node.hidden = all.length === 0;
    }

    async function add() {
      if (await newSchedule(all.map(({ name }) => name))) await read();
    }

    //: Act on the schedule in its current state, not in the state it was drawn in.
    async function act(what, name) {
      const schedule = all.find((one) => one.name === name);
      try {
        if (schedule && (await what(schedule))) await read();
      } catch (error) {
        toastProblem(error);
      }
    }

    function actOnCurrent(what) {
      const schedule = rows.current();
      if (schedule && can("manage")) act(what, schedule.name);
    }

    ctx.keys({
      ...rows.keys,
      n: { label: "New schedule", run: () => can("manage") && add() },
      r: { label: "Run now", run: () => actOnCurrent(runNow) },
      P: { label: "Pause or resume the schedule", run: () => actOnCurrent(togglePause) },
    });
    if (can("manage")) ctx.actions([{ label: "New schedule", icon: "plus", run: add }]);
    return refresher(read, { minMs: 1_500, everyMs: 15_000 });
  },
};

async function readAll(signal) {
  const found = [];
  let after;
  for (let pages = 0; pages < MAX_PAGES; pages += 1) {
    const { schedules, next } = await api.get("/schedules", { after }, { signal });
    found.push(...schedules);
    if (next === null) return [found, false];
    after = next;
  }
  return [found, true];
}

function nextOf({ next_at: next }) {
  return next ?? Number.MAX_SAFE_INTEGER;
}

// -- columns -----------------------------------------------------------------------

function columns(act) {
  return [
    { key: "name", label: "Schedule", render: scheduleName },
    { key: "when", label: "When", class: "cell-when", render: whenView },
    { key: "type", label: "Type", class: "cell-type", render: ({ type, queue }) => queueLink(queue ?? type, type) },
    { key: "next", label: "Next run", class: "cell-next", render: nextRun },
    {
      key: "ticks",
      label: "Last runs",
      class: "cell-ticks",
      render: ({ ticks }) => tickStrip(ticks),
    },
    {
      key: "acts",
      label: "Actions",
      class: "cell-acts",
      render: (schedule) => buttons(schedule, act),
    },
  ];
}

function scheduleName(schedule) {
  const { name } = schedule;
  const link = h("a", { href: href(`/schedules/${pathSegment(name)}`) }, name);
  return h("span", { class: "named" }, link, scheduleMarks(schedule));
}

function queueLink(queue, type) {
  return h("a", { href: href(`/queues/${pathSegment(queue)}`) }, type);
}

function nextRun({ next_at: next }) {
  if (next === null) return h("span", { class: "faint" }, NO_VALUE);
  return h("span", { class: "when" }, timeAgo(next), h("span", { class: "faint" }, time(next)));
}

function buttons({ name, paused }, act) {
  if (!can("manage")) return null;
  const button = (label, iconName, what) =>
    h(
      "button",
      {
        type: "button",
        class: "plain",
        title: label,
        "aria-label": `${label}: ${name}`,
        onclick: () => act(what, name),
      },
      icon(iconName),
    );
  return [
    button("Run now", "run", runNow),
    paused ? button("Resume", "play", togglePause) : button("Pause", "pause", togglePause),
    button("Edit", "edit", editSchedule),
    button("Remove", "trash", remove),
  ];
}

function noSchedules(add) {
  return emptyState({
    title: "No schedules yet",
    text: "A schedule adds a job again and again: at an interval, by a cron expression, or once.",
    code: FIRST_SCHEDULE,
    action: can("manage") ? { label: "New schedule", run: add } : null,
  });
}
