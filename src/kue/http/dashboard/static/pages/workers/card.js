// Worker card: status, slots, running jobs and actions of one worker.

import { keyedList } from "../../components/keyed-list.js";
import { progressBar } from "../../components/progress-bar.js";
import { pathSegment } from "../../lib/api.js";
import { fill, h, setText } from "../../lib/dom.js";
import { bytes, duration, number, timeAgo, timeSince } from "../../lib/format.js";
import { can } from "../../lib/me.js";
import { href } from "../../lib/router.js";
import { pause, resume } from "../queues/actions.js";
import { badge, pauseText } from "../queues/badges.js";
import { stacks, stop } from "./actions.js";

//: Milliseconds of event loop lag from which it is highlighted.
const HIGH_LAG = 100;

//: Return {node, update(worker)}; onChange() is called after an action.
export function card(first, onChange) {
  let worker = first;
  const badges = h("span", { class: "marks" });
  const actions = h("div", { class: "actions" });
  const note = h("p", { class: "notice", dataset: { tone: "warn" }, hidden: true });
  const facts = h("dl", { class: "figures" });
  const slots = h("ul", { class: "slots" });
  const list = h("ol", { class: "runs" });
  const idle = h("p", { class: "faint" });
  const showRuns = keyedList(list, ({ id, attempt }) => `${id}:${attempt}`, run);
  const showSlots = keyedList(slots, ({ type }) => type, slot);
  const node = h(
    "article",
    { class: "card worker", "aria-label": first.name },
    h("header", { class: "worker-head" }, h("h2", null, first.name), badges, actions),
    note,
    facts,
    slots,
    list,
    idle,
  );

  function update(next) {
    worker = next;
    node.dataset.state = statusOf(worker);
    fillIfChanged(badges, statusOf(worker), () => badge(tone(worker), statusOf(worker)));
    fillIfChanged(actions, `${worker.paused}${worker.alive}`, buttons);
    note.hidden = worker.pause === null;
    if (worker.pause !== null) setText(note, pauseText(worker.pause));
    fillIfChanged(facts, JSON.stringify(factsOf(worker).map(String)), () =>
      statusView(factsOf(worker)),
    );
    showSlots(slotsOf(worker));
    showRuns(worker.running);
    const hidden = worker.active - worker.running.length;
    idle.hidden = worker.active > 0 && hidden <= 0;
    setText(idle, worker.active === 0 ? "Idle." : `and ${number(hidden)} more`);
  }

  function buttons() {
    if (!can("manage") || !worker.alive) return [];
    const act = (label, what) =>
      h(
        "button",
        {
          type: "button",
          class: "small",
          "aria-label": `${label} ${worker.name}`,
          onclick: async () => (await what(worker)) && onChange(),
        },
        label,
      );
    const { name, paused } = worker;
    return [
      paused && act("Resume", () => resume({ worker: name })),
      !paused && act("Quiet", () => pause({ worker: name })),
      act("Stacks", stacks),
      act("Stop", stop),
    ];
  }

  return { node, update };
}

//: Fill a node only when its content has changed, so that focus is kept.
function fillIfChanged(node, key, make) {
  if (node.dataset.key === key) return;
  node.dataset.key = key;
  fill(node, make());
}

function statusOf({ alive, lost, paused }) {
  if (lost) return "lost";
  if (!alive) return "gone";
  return paused ? "quiet" : "alive";
}

function tone(worker) {
  return { alive: "good", quiet: "warn", lost: "bad", gone: "" }[statusOf(worker)];
}

// -- status -------------------------------------------------------------------------

//: The status of a worker: [name, text, tone, Unix ms if it is a time].
function factsOf(worker) {
  const { host, pid, version, started_at: at, done, memory, lag_ms: lag } = worker;
  const process = [host, pid && `pid ${pid}`].filter(Boolean).join(", ");
  return [
    ["Process", process],
    ["Processes", processesText(worker)],
    ["Version", version],
    ["Up since", null, "", at],
    ["Runs finished", done === null ? null : number(done)],
    ["Memory", memory === null ? null : bytes(memory)],
    ["Event loop lag", lag === null ? null : duration(lag), lag > HIGH_LAG ? "warn" : ""],
    ["Problem", worker.trouble, "bad"],
    ["Blocked the event loop", blockedText(worker), worker.blocked ? "warn" : ""],
    [worker.stopped ? "Stopped" : "Lease expired", null, "", worker.alive ? null : worker.deadline],
  ].filter(([, text, , moment]) => text || moment);
}

//: How many its supervisor has, if that follows the backlog.
function processesText({ processes }) {
  return processes && `${processes.now}, from ${processes.least} to ${processes.most}`;
}

function blockedText({ blocked, blocked_at: where }) {
  if (blocked === null) return null;
  if (blocked === 0) return "never";
  return `${number(blocked)} ×${where ? `, last at ${where}` : ""}`;
}

function statusView(facts) {
  return facts.map(([name, text, tone = "", at = null]) =>
    h(
      "div",
      // A line of code needs the space.
      { class: text?.length > 24 && "wide", dataset: { tone } },
      h("dt", null, name),
      h("dd", null, at === null ? text : timeAgo(at)),
    ),
  );
}

// -- slots and running jobs -----------------------------------------------------------

function slotsOf({ slots, running }) {
  const used = new Map();
  for (const { type } of running) used.set(type, (used.get(type) ?? 0) + 1);
  return Object.entries(slots)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([type, of]) => ({ type, of, used: used.get(type) ?? 0 }));
}

function slot({ type }) {
  const text = h("span", { class: "slot-text" });
  const meter = h("span", { class: "slot-meter" });
  const link = h("a", { href: href(`/queues/${pathSegment(type)}`) }, type);
  const node = h("li", null, link, meter, text);

  function update({ used, of }) {
    setText(text, `${number(used)} of ${number(of)}`);
    fillIfChanged(meter, `${used}/${of}`, () =>
      progressBar(of > 0 ? (100 * used) / of : 0, { label: `Slots used for ${type}` }),
    );
  }

  return { node, update };
}

function run({ id, type, attempt, elapsed_ms: elapsed }) {
  const progress = h("span", { class: "run-progress" });
  const node = h(
    "li",
    null,
    h("a", { class: "run-id", href: href(`/jobs/${id}`) }, `#${id}`),
    h("span", { class: "run-type" }, type),
    h("span", { class: "run-attempt" }, attempt > 1 ? `attempt ${number(attempt)}` : ""),
    progress,
    // In the browser's clock, which may differ from the store's: it keeps counting here.
    h("span", { class: "run-time" }, timeSince(Date.now() - elapsed)),
  );

  function update({ progress: share }) {
    fillIfChanged(progress, String(share), () =>
      share > 0 ? progressBar(share, { label: `Progress of job ${id}`, text: true }) : null,
    );
  }

  return { node, update };
}
