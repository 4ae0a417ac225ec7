// Warnings on top of the overview, with links and actions.

import { keyedList } from "../../components/keyed-list.js";
import { pathSegment } from "../../lib/api.js";
import { fill, h, setText } from "../../lib/dom.js";
import { number, plural, time } from "../../lib/format.js";
import { retryFrom } from "../../lib/job-actions.js";
import { live } from "../../lib/live.js";
import { can } from "../../lib/me.js";
import { href } from "../../lib/router.js";
import { resume } from "../queues/actions.js";
import { close } from "../queues/circuits.js";

//: Tone and title of each kind of warning, worst first.
const KINDS = {
  alert: { tone: "bad", word: "Alert" },
  "lost-worker": { tone: "bad", word: "Worker lost" },
  "no-worker": { tone: "bad", word: "No worker" },
  full: { tone: "warn", word: "Queue full" },
  circuit: { tone: "warn", word: "Circuit breaker" },
  "failed-parent": { tone: "warn", word: "Blocked jobs" },
  backlog: { tone: "warn", word: "Growing backlog" },
  paused: { tone: "warn", word: "Paused" },
};
const OTHER = { tone: "warn", word: "Warning" };
const ORDER = Object.keys(KINDS);
//: What ends the cause of a warning.
const ACTS = {
  paused: { label: "Resume", run: ({ queue, worker }) => resume({ type: queue, worker }) },
  circuit: { label: "Close", run: ({ circuit }) => close({ name: circuit }) },
  "failed-parent": { label: ({ job }) => `Retry ${job}`, run: ({ job }) => retryFrom(job) },
};
//: Warnings shown before "and … more", and queues named in one of them.
const MAX_SHOWN = 5;
const MAX_NAMED = 8;

//: Return {verdict, node, update(stats), stop()}: the overall health, and the list.
export function warnings({ onChange }) {
  const verdict = h("p", { class: "verdict", role: "status" });
  const list = h("ul", { class: "warnings" });
  const rest = h("p", { class: "warnings-rest" });
  const node = h("div", { class: "pile" }, list, rest);
  const show = keyedList(
    list,
    (one) =>
      JSON.stringify(
        [one.code, one.alert, one.queue, one.worker, one.circuit, one.job, one.queues],
      ),
    (one) => warning(one, onChange),
  );
  let health = null;
  const stop = live.onState(showVerdict);

  //: Show the overall health, or that there is no connection.
  function showVerdict() {
    const at = live.lostAt;
    if (at !== null) setVerdict("lost", `No connection since ${time(at)}`);
    else if (health) setVerdict(health.tone, health.text);
  }

  function setVerdict(tone, text) {
    verdict.dataset.tone = tone;
    setText(verdict, text);
  }

  function update({ warnings: found, more_warnings: more = 0, workers }) {
    const sorted = byCause(found, workers).sort((a, b) => rank(a) - rank(b));
    const count = sorted.length + more;
    const isBad = sorted.some((one) => kind(one).tone === "bad");
    health =
      count === 0
        ? { tone: "good", text: "Healthy" }
        : { tone: isBad ? "bad" : "warn", text: plural(count, "warning") };
    showVerdict();
    show(sorted.slice(0, MAX_SHOWN));
    const left = count - Math.min(MAX_SHOWN, sorted.length);
    rest.textContent = left > 0 ? `and ${number(left)} more` : "";
    node.hidden = count === 0;
  }

  return { verdict, node, update, stop };
}

//: The same warnings, with a single one for all queues without a worker.
function byCause(found, { alive }) {
  const unhandled = found.filter(({ code }) => code === "no-worker");
  if (unhandled.length < 2) return [...found];
  const queues = unhandled.map(({ queue }) => queue);
  const message =
    alive === 0
      ? `no worker is running, and jobs wait in ${plural(queues.length, "queue")}:`
      : `jobs wait in ${plural(queues.length, "queue")} that no live worker handles:`;
  const rest = found.filter(({ code }) => code !== "no-worker");
  return [{ code: "no-worker", message, queues }, ...rest];
}

function kind({ code }) {
  return KINDS[code] ?? OTHER;
}

function rank({ code }) {
  const index = ORDER.indexOf(code);
  return index < 0 ? ORDER.length : index;
}

function warning(first, onChange) {
  const message = h("span", { class: "warning-text" });
  const { tone, word } = kind(first);
  const node = h(
    "li",
    { class: "warning", dataset: { tone, code: first.code } },
    h("strong", { class: "warning-word" }, word),
    message,
    h("span", { class: "warning-acts" }, actions(first, onChange)),
  );
  return { node, update: (one) => fill(message, one.message, names(one)) };
}

function names({ queues = [] }) {
  const links = queues.slice(0, MAX_NAMED).flatMap((queue) => [" ", queueLink(queue, queue)]);
  return [links, queues.length > MAX_NAMED && ` and ${number(queues.length - MAX_NAMED)} more`];
}

function queueLink(queue, text) {
  return h("a", { href: href(`/queues/${pathSegment(queue)}`) }, text);
}

function actions(one, onChange) {
  const links = [];
  if (one.queue) links.push(queueLink(one.queue, "Show queue"));
  else if (one.queues) links.push(h("a", { href: href("/queues") }, "Show queues"));
  else if (one.circuit) links.push(h("a", { href: href("/queues") }, "Show circuits"));
  else if (one.job) links.push(h("a", { href: href(`/jobs/${one.job}`) }, "Show job"));
  else if (one.worker) links.push(h("a", { href: href("/workers") }, "Show workers"));
  const act = ACTS[one.code];
  if (act && can("manage")) {
    const onclick = async () => {
      await act.run(one);
      onChange();
    };
    const label = typeof act.label === "string" ? act.label : act.label(one);
    links.push(h("button", { type: "button", class: "small", onclick }, label));
  }
  return links;
}
