// A job as code, in the language that is chosen.

import { sample } from "../../components/empty.js";
import { api } from "../../lib/api.js";
import { fill, h } from "../../lib/dom.js";
import { asCommand, asCurl, asPython } from "./snippets.js";

const LANGUAGES = [
  ["Python", asPython],
  ["Command line", asCommand],
  ["cURL", (job) => asCurl(job, new URL(api.url("/jobs"), window.location.href).href)],
];

//: Return {node, show(job)}.
export function codeView() {
  let shown = null;
  let language = 0;
  const body = h("div");
  const buttons = LANGUAGES.map(([name], number) =>
    h("button", { type: "button", onclick: () => choose(number) }, name),
  );
  const node = h(
    "div",
    { class: "code-view" },
    h("div", { class: "segments", role: "group", "aria-label": "Language" }, buttons),
    body,
  );

  function choose(number) {
    language = number;
    draw();
  }

  function draw() {
    buttons.forEach((button, number) =>
      button.setAttribute("aria-pressed", String(number === language)),
    );
    fill(body, sample(LANGUAGES[language][1](shown)));
  }

  function show(job) {
    shown = job;
    draw();
  }

  return { node, show };
}
