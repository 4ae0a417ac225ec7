// A number that is to be seen from afar, with its name and a word on it.

import { h } from "../lib/dom.js";
import { short } from "../lib/format.js";
import { href } from "../lib/router.js";

//: Return {node, update({value, unit, note, tone})}.
//:
//: tone is "good", "warn", "bad" or nothing; a note says the same in words.  path makes
//: the name a link; extra is shown below the number, as a spark.
export function tile({ label, path = null, extra = null }) {
  const value = h("span", { class: "tile-number" }, "–");
  const unit = h("span", { class: "tile-unit" });
  const note = h("p", { class: "tile-note" });
  const name = path === null ? label : h("a", { href: href(path) }, label);
  const node = h(
    "section",
    { class: "tile", "aria-label": label },
    h("h2", { class: "tile-name" }, name),
    h("p", { class: "tile-value" }, value, unit),
    extra,
    note,
  );

  function update({ value: number, unit: of = "", note: word = "", tone = "" }) {
    write(value, number);
    write(unit, of);
    write(note, word);
    node.dataset.tone = tone;
  }

  return { node, update };
}

//: "3 min 20 s" as a large number and what follows it.
export function parted(text) {
  const [value, ...rest] = text.split(" ");
  return { value, unit: rest.length ? ` ${rest.join(" ")}` : "" };
}

//: Jobs a second, so that several can be compared.
export function perSecond(rate) {
  const isSmall = rate > 0 && rate < 0.01;
  return { value: isSmall ? "<0.01" : digits(rate), unit: "/s" };
}

function digits(value) {
  if (value >= 100) return short(value);
  return String(Number(value.toPrecision(value < 1 ? 2 : 3)));
}

//: Set the text of a node, if it is another than before.
export function write(node, text) {
  if (node.textContent !== String(text)) {
    node.textContent = text;
  }
}
