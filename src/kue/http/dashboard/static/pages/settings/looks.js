// What is kept in this browser alone, and who is logged in.

import { setTheme, themeName } from "../../components/theme.js";
import { fill, h } from "../../lib/dom.js";
import { version } from "../../lib/place.js";

const THEMES = [
  ["system", "As the system has it"],
  ["light", "Light"],
  ["dark", "Dark"],
];

//: *signal* says when the page is left.
export function looks({ me }, signal) {
  const choice = h("div", { class: "actions", role: "group", "aria-label": "Theme" });
  function draw() {
    fill(
      choice,
      THEMES.map(([name, label]) => {
        const isOn = themeName() === name;
        const choose = () => setTheme(name);
        return h(
          "button",
          { class: "small", "aria-pressed": String(isOn), onclick: choose },
          label,
        );
      }),
    );
  }
  draw();
  window.addEventListener("kue:theme", draw, { signal });
  return h(
    "section",
    { class: "card" },
    h("header", { class: "card-head" }, h("h2", null, "You")),
    h(
      "dl",
      { class: "card-body facts facts-tall" },
      h("dt", null, "Name"),
      h("dd", null, me.name),
      h("dt", null, "Role"),
      h(
        "dd",
        null,
        me.role ?? (me.scopes ?? []).join(", "),
        me.read_only && h("span", { class: "warn" }, ", read-only"),
      ),
      h("dt", null, "Theme"),
      h("dd", null, choice),
      h("dt", null, "Version"),
      h("dd", null, `Kue ${version}`),
    ),
  );
}
