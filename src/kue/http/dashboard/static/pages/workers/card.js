// One worker: what it says of itself, what it runs, and what can be done to it.

import { keyedList } from "../../components/keyed-list.js";
import { progressBar } from "../../components/progress-bar.js";
import { setText } from "../../components/tile.js";
import { pathSegment } from "../../lib/api.js";
import { fill, h } from "../../lib/dom.js";
import { bytes, duration, number, timeAgo, timeSince } from "../../lib/format.js";
import { can } from "../../lib/me.js";
import { href } from "../../lib/router.js";
import { pause, resume } from "../queues/actions.js";
import { badge, pauseText } from "../queues/badges.js";
import { stacks, stop } from "./actions.js";

//: Milliseconds that an event loop may be late.
const LATE = 100;

//: Return {node, update(worker)}; onChange() is called when something was done to it.
export function card(first, onChange) {
  let worker = first;
  const badges = h("span", { class: "marks" });
  const acts = h("div", { class: "actions" });
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
    h("header", { class: "worker-head" }, h("h2", null, first.name), badges, acts),
    note,
    facts,
    slots,
    list,
    idle,
  );

  function update(next) {
    worker = next;
    node.dataset.state = standing(worker);
    once(badges, standing(worker), () => badge(tone(worker), standing(worker)));
    once(acts, `${worker.paused}${worker.alive}`, buttons);
    note.hidden = worker.pause === null;
    if (worker.pause !== null) setText(note, pauseText(worker.pause));
    once(facts, JSON.stringify(factsOf(worker).map(String)), () => shown(factsOf(worker)));
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

//: Fill a node when what it shows has changed: what has the focus keeps it.
function once(node, key, make) {
  if (node.dataset.key === key) return;
  node.dataset.key = key;
  fill(node, make());
}

function standing({ alive, lost, paused }) {
  if (lost) return "lost";
  if (!alive) return "gone";
  return paused ? "quiet" : "alive";
}

function tone(worker) {
  return { alive: "good", quiet: "warn", lost: "bad", gone: "" }[standing(worker)];
}

// -- what it says -------------------------------------------------------------------

//: What there is to say: [name, text, tone, when it is a moment].
function factsOf(worker) {
  const { host, pid, version, started_at: at, done, memory, lag_ms: lag } = worker;
  const process = [host, pid && `pid ${pid}`].filter(Boolean).join(", ");
  return [
    ["Process", process],
    ["Version", version],
    ["Up since", null, "", at],
    ["Runs finished", done === null ? null : number(done)],
    ["Memory", memory === null ? null : bytes(memory)],
    ["Event loop lag", lag === null ? null : duration(lag), lag > LATE ? "warn" : ""],
    ["Fails", worker.trouble, "bad"],
    ["Blocked the event loop", heldUp(worker), worker.blocked ? "warn" : ""],
    ["Last heartbeat due", null, "", worker.alive ? null : worker.deadline],
  ].filter(([, text, , moment]) => text || moment);
}

function heldUp({ blocked, blocked_at: where }) {
  if (blocked === null) return null;
  if (blocked === 0) return "never";
  return `${number(blocked)} ×${where ? `, last at ${where}` : ""}`;
}

function shown(facts) {
  return facts.map(([name, text, tone = "", at = null]) =>
    h(
      "div",
      // A line of code needs the room.
      { class: text?.length > 24 && "wide", dataset: { tone } },
      h("dt", null, name),
      h("dd", null, at === null ? text : timeAgo(at)),
    ),
  );
}

// -- what it runs -------------------------------------------------------------------

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
    once(meter, `${used}/${of}`, () =>
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
    // By this clock: the store's may be another, and it is to go on from here.
    h("span", { class: "run-time" }, timeSince(Date.now() - elapsed)),
  );

  function update({ progress: share }) {
    once(progress, String(share), () =>
      share > 0 ? progressBar(share, { label: `Progress of job ${id}`, text: true }) : null,
    );
  }

  return { node, update };
}
