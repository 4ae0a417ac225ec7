// What is amiss, on top of the first page, with what to do about it.

import { keyed } from "../../components/keyed.js";
import { h } from "../../lib/dom.js";
import { number, plural } from "../../lib/format.js";
import { href } from "../../lib/router.js";
import { part } from "../../lib/api.js";
import { can } from "../../lib/me.js";
import { resume } from "../queues/acts.js";

//: How bad each is, worst first, and a word for it.
const KINDS = {
  "lost-worker": { tone: "bad", word: "Worker lost" },
  "no-worker": { tone: "bad", word: "No worker" },
  backlog: { tone: "warn", word: "Backlog grows" },
  paused: { tone: "warn", word: "Paused" },
};
const OTHER = { tone: "warn", word: "Warning" };
const ORDER = Object.keys(KINDS);
//: Shown before "and … more".
const SHOWN = 5;

//: Return {verdict, node, update(stats)}: a word for all, and the list.
export function warnings({ onChange }) {
  const verdict = h("p", { class: "verdict", role: "status" });
  const list = h("ul", { class: "warnings" });
  const rest = h("p", { class: "warnings-rest" });
  const node = h("div", { class: "pile" }, list, rest);
  const show = keyed(
    list,
    (one) => JSON.stringify([one.code, one.queue, one.worker]),
    (one) => warning(one, onChange),
  );

  function update({ warnings: found, more_warnings: more = 0 }) {
    const sorted = [...found].sort((a, b) => rank(a) - rank(b));
    const count = found.length + more;
    const isBad = sorted.some((one) => kind(one).tone === "bad");
    verdict.dataset.tone = count === 0 ? "good" : isBad ? "bad" : "warn";
    const text = count === 0 ? "All is well" : `${plural(count, "thing")} to look at`;
    if (verdict.textContent !== text) verdict.textContent = text;
    show(sorted.slice(0, SHOWN));
    const left = count - Math.min(SHOWN, sorted.length);
    rest.textContent = left > 0 ? `and ${number(left)} more` : "";
    node.hidden = count === 0;
  }

  return { verdict, node, update };
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
  return { node, update: (one) => (message.textContent = one.message) };
}

function acts(one, onChange) {
  const links = [];
  if (one.queue) {
    links.push(h("a", { href: href(`/queues/${part(one.queue)}`) }, "Show queue"));
  } else if (one.worker) {
    links.push(h("a", { href: href("/workers") }, "Show workers"));
  }
  if (one.code === "paused" && can("manage")) {
    const onclick = async () => {
      await resume({ type: one.queue, worker: one.worker });
      onChange();
    };
    links.push(h("button", { type: "button", class: "small", onclick }, "Resume"));
  }
  return links;
}
