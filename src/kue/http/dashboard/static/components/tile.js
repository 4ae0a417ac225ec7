// Tile: one large number with its name and a note.

import { fill, h, setText } from "../lib/dom.js";
import { href } from "../lib/router.js";

//: The numbers in a text such as "3 min 20 s", "1.2M" or "<0.1/min".
const NUMBERS = /(<?[\d.,]+[KMBT]?|–)/;

//: Return {node, update({value, note, tone})}.
//:
//: tone is "good", "warn", "bad" or empty; the note says the same in words.  path makes
//: the name a link; extra is shown below the number, for example a sparkline.
export function tile({ label, path = null, extra = null }) {
  const value = h("p", { class: "tile-value" });
  const note = h("p", { class: "tile-note" });
  const name = path === null ? label : h("a", { href: href(path) }, label);
  const node = h(
    "section",
    { class: "tile", "aria-label": label },
    h("h2", { class: "tile-name" }, name),
    value,
    extra,
    note,
  );

  function update({ value: text, note: word = "", tone = "" }) {
    if (value.textContent !== text) fill(value, pieces(text));
    setText(note, word);
    node.dataset.tone = tone;
  }

  fill(value, pieces("–"));
  return { node, update };
}

//: Numbers are large, units small.
function pieces(text) {
  return text.split(NUMBERS).map((piece, index) => {
    const kind = index % 2 ? "tile-number" : "tile-unit";
    return piece && h("span", { class: kind }, piece);
  });
}
