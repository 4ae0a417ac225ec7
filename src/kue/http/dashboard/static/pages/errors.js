// Errors page: failed jobs grouped by error, with bulk actions on each group.

import { emptyState } from "../components/empty-state.js";
import { keyedList } from "../components/keyed-list.js";
import { menu, menuItem } from "../components/menu.js";
import { api, pathSegment } from "../lib/api.js";
import { fill, h } from "../lib/dom.js";
import { number, plural, short, timeAgo } from "../lib/format.js";
import { valuesOf } from "../lib/stats-history.js";
import { bulk } from "../lib/job-actions.js";
import { refresher } from "../lib/live.js";
import { can } from "../lib/me.js";
import { go, href, query, setQuery } from "../lib/router.js";
import { deadLetters } from "./errors/dead-letters.js";
import { stackView } from "./job/stack-trace.js";
import { hourSparklines } from "./queues/sparklines.js";

const LIMIT = 100;
//: Milliseconds for which an error counts as new.
const NEW_MS = 3_600_000;
//: Kinds of events that change which jobs have failed.
const KINDS = ["failed", "enqueue", "remove"];

export const page = {
  path: "/errors",
  title: "Errors",
  nav: { label: "Errors", icon: "errors", order: 40, key: "e" },

  mount(root, ctx) {
    const summary = h("p", { class: "faint", role: "status" });
    const type = h("select", { "aria-label": "Queue", onchange: choose });
    const list = h("ol", { class: "error-groups" });
    const none = h("div", { hidden: true });
    const trends = hourSparklines({ label: trendLabel, series: failures, format: short });
    const letters = deadLetters();
    const show = keyedList(list, keyOf, (group) => groupView(group, trends));
    let groups = [];
    root.append(
      h("header", { class: "page-head" }, h("h1", null, "Errors"), type),
      summary,
      none,
      list,
      letters.node,
    );

    async function read(signal) {
      const wanted = query().type ?? "";
      const found = await api.get("/errors", { type: wanted, limit: LIMIT }, { signal });
      groups = found.groups;
      show(groups);
      showSummary(found);
      showEmpty(wanted);
      await letters.read(signal);
    }

    function showSummary(found) {
      const jobs = groups.reduce((sum, group) => sum + group.count, 0);
      const rest = found.total - groups.length;
      const parts = [
        `${plural(found.total, "error")} in ${plural(jobs, "failed job")}`,
        rest > 0 && `the ${number(groups.length)} most frequent are shown`,
        found.is_all === false && `counted among the newest ${number(found.looked_at)}`,
      ];
      summary.textContent = groups.length ? parts.filter(Boolean).join("; ") : "";
    }

    function showEmpty(wanted) {
      none.hidden = groups.length > 0;
      if (none.hidden) return;
      const text = wanted
        ? `No job of type ${wanted} has failed.`
        : "No job has failed. Failed jobs are grouped here by their error.";
      fill(none, emptyState({ title: "No errors", text }));
    }

    async function offerTypes() {
      const { queues } = await api.get("/queues");
      const wanted = query().type ?? "";
      const names = queues.map((queue) => queue.type);
      if (wanted && !names.includes(wanted)) names.unshift(wanted);
      fill(
        type,
        h("option", { value: "" }, "All queues"),
        names.map((name) => h("option", { value: name }, name)),
      );
      type.value = wanted;
    }

    function choose() {
      setQuery({ type: type.value });
      restart();
    }

    let stop = () => {};
    function restart() {
      stop();
      stop = refresher(read, { minMs: 2_000, kinds: KINDS });
    }
    restart();
    offerTypes().catch(() => {});
    ctx.actions([{ label: "Show all failed jobs", run: () => go("/jobs?state=failed") }]);
    return () => {
      stop();
      trends.stop();
    };
  },
};

function trendLabel(type) {
  return `Failed jobs of ${type} per minute, last hour`;
}

function failures(past) {
  return [{ tone: "failed", values: valuesOf(past, "failed") }];
}

function keyOf({ fingerprint, type, kind, message }) {
  return fingerprint ? `${type} ${fingerprint}` : JSON.stringify([type, kind, message]);
}

//: The path of the list of a group's jobs.
function jobsPath({ type, fingerprint, kind }) {
  const search = new URLSearchParams({ state: "failed", type });
  if (fingerprint) search.set("fingerprint", fingerprint);
  else search.set("error", kind);
  return `/jobs?${search}`;
}

function groupView(first, trends) {
  let group = first;
  const count = h("span", { class: "error-count" });
  const message = h("span");
  const times = h("p", { class: "error-times" });
  const fresh = h("span", { class: "tag", hidden: true }, "new this hour");
  const sample = h("details", { class: "error-sample", ontoggle: () => loadSample() });
  const body = h("div", { class: "error-stack" });
  const actions = h("div", { class: "actions" });
  sample.append(h("summary", null, "Stack trace"), body);
  const node = h(
    "li",
    { class: "card error-group" },
    count,
    h(
      "div",
      { class: "error-what" },
      h("h2", null, first.kind, first.message && ": ", message),
      h("a", { class: "error-type", href: href(queuePath(first.type)) }, first.type),
      times,
      fresh,
    ),
    h(
      "div",
      { class: "error-trend", title: trendLabel(first.type) },
      trends.of(first.type, keyOf(first)),
      h("span", null, "queue failures, 1 h"),
    ),
    actions,
    sample,
  );
  let shownJob = null;

  async function loadSample() {
    if (!sample.open || shownJob === group.job_id) return;
    shownJob = group.job_id;
    fill(body, h("p", { class: "faint" }, "Loading…"));
    try {
      fill(body, sampleView(await api.get(`/jobs/${shownJob}`)));
    } catch (problem) {
      fill(body, h("p", { class: "faint" }, `Cannot load the job: ${problem.message}`));
    }
  }

  function update(newer) {
    group = newer;
    count.textContent = number(group.count);
    message.textContent = group.message;
    count.title = plural(group.count, "failed job");
    fill(times, "last ", timeAgo(group.last_at), ", first ", timeAgo(group.first_at));
    fresh.hidden = Date.now() - group.first_at > NEW_MS;
    if (actions.childElementCount === 0) fill(actions, buttons(() => group));
    loadSample();
  }

  return { node, update };
}

function buttons(current) {
  const show = h("a", { class: "button", href: href(jobsPath(current())) }, "Show jobs");
  if (!current().fingerprint || !can("manage")) return [show];
  const more = menu("More", () => groupActions(current()), { name: "More actions", end: true });
  return [show, more.node];
}

function groupActions({ type, fingerprint, count }) {
  const target = { filter: { state: "failed", type, fingerprint } };
  const act = (name) => () => bulk(name, target, { count });
  const jobs = plural(count, "job");
  return [
    menuItem(`Retry ${jobs}`, act("retry")),
    can("remove") && menuItem(`Remove ${jobs}…`, act("remove"), { danger: true }),
  ];
}

function sampleView(job) {
  const head = h(
    "p",
    null,
    "Job ",
    h("a", { href: href(`/jobs/${job.id}`) }, String(job.id)),
    job.worker && ` on ${job.worker}`,
  );
  if (!job.error) return [head, h("p", { class: "faint" }, "It is no longer in the failed state.")];
  const { stack, message } = job.error;
  return [head, stack ? stackView(stack) : h("pre", { class: "message" }, message)];
}

function queuePath(type) {
  return `/queues/${pathSegment(type)}`;
}
