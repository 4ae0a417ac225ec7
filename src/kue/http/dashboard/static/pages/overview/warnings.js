// What is wrong, on top of the overview, with what to do about it.

import { keyedList } from "../../components/keyed-list.js";
import { pathSegment } from "../../lib/api.js";
import { fill, h } from "../../lib/dom.js";
import { number, plural, time } from "../../lib/format.js";
import { live } from "../../lib/live.js";
import { can } from "../../lib/me.js";
import { href } from "../../lib/router.js";
import { resume } from "../queues/actions.js";

//: How bad each is, worst first, and a word for it.
const KINDS = {
  "lost-worker": { tone: "bad", word: "Worker lost" },
  "no-worker": { tone: "bad", word: "No worker" },
  backlog: { tone: "warn", word: "Backlog grows" },
  paused: { tone: "warn", word: "Paused" },
};
const OTHER = { tone: "warn", word: "Warning" };
const ORDER = Object.keys(KINDS);
//: Warnings shown before "and … more", and queues named in one of them.
const SHOWN = 5;
const NAMED = 8;

//: Return {verdict, node, update(stats), stop()}: a word for all, and the list.
export function warnings({ onChange }) {
  const verdict = h("p", { class: "verdict", role: "status" });
  const list = h("ul", { class: "warnings" });
  const rest = h("p", { class: "warnings-rest" });
  const node = h("div", { class: "pile" }, list, rest);
  const show = keyedList(
    list,
    (one) => JSON.stringify([one.code, one.queue, one.worker, one.queues]),
    (one) => warning(one, onChange),
  );
  let known = null;
  const stop = live.onState(judge);

  //: Say how things stand; without a connection nobody can.
  function judge() {
    const at = live.lostAt;
    if (at !== null) say("lost", `No connection since ${time(at)}`);
    else if (known) say(known.tone, known.text);
  }

  function say(tone, text) {
    verdict.dataset.tone = tone;
    if (verdict.textContent !== text) verdict.textContent = text;
  }

  function update({ warnings: found, more_warnings: more = 0, workers }) {
    const sorted = byCause(found, workers).sort((a, b) => rank(a) - rank(b));
    const count = sorted.length + more;
    const isBad = sorted.some((one) => kind(one).tone === "bad");
    known =
      count === 0
        ? { tone: "good", text: "All is well" }
        : { tone: isBad ? "bad" : "warn", text: `${plural(count, "thing")} to look at` };
    judge();
    show(sorted.slice(0, SHOWN));
    const left = count - Math.min(SHOWN, sorted.length);
    rest.textContent = left > 0 ? `and ${number(left)} more` : "";
    node.hidden = count === 0;
  }

  return { verdict, node, update, stop };
}

//: The same warnings, with one for all queues that lack a worker.
function byCause(found, { alive }) {
  const idle = found.filter(({ code }) => code === "no-worker");
  if (idle.length < 2) return [...found];
  const queues = idle.map(({ queue }) => queue);
  const message =
    alive === 0
      ? `no worker is running, and jobs wait in ${plural(queues.length, "queue")}:`
      : `jobs wait in ${plural(queues.length, "queue")} that no live worker takes:`;
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
    h("span", { class: "warning-acts" }, acts(first, onChange)),
  );
  return { node, update: (one) => fill(message, one.message, names(one)) };
}

function names({ queues = [] }) {
  const links = queues.slice(0, NAMED).flatMap((queue) => [" ", queueLink(queue, queue)]);
  return [links, queues.length > NAMED && ` and ${number(queues.length - NAMED)} more`];
}

function queueLink(queue, text) {
  return h("a", { href: href(`/queues/${pathSegment(queue)}`) }, text);
}

function acts(one, onChange) {
  const links = [];
  if (one.queue) links.push(queueLink(one.queue, "Show queue"));
  else if (one.queues) links.push(h("a", { href: href("/queues") }, "Show queues"));
  else if (one.worker) links.push(h("a", { href: href("/workers") }, "Show workers"));
  if (one.code === "paused" && can("manage")) {
    const onclick = async () => {
      await resume({ type: one.queue, worker: one.worker });
      onChange();
    };
    links.push(h("button", { type: "button", class: "small", onclick }, "Resume"));
  }
  return links;
}
