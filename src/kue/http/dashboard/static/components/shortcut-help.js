// Dialog with all keyboard shortcuts of the page.

import { h } from "../lib/dom.js";
import { allShortcuts } from "../lib/shortcuts.js";
import { openDialog } from "./dialog.js";

export function showShortcuts() {
  const always = {
    group: "Always",
    keys: [
      ["Ctrl K", "Command palette"],
      ["Esc", "Close"],
    ],
  };
  const seen = new Map();
  for (const { group, keys } of [...allShortcuts(), always]) {
    if (keys.length) seen.set(group, [...(seen.get(group) ?? []), ...keys]);
  }
  const groups = [...seen].map(([group, keys]) =>
    h(
      "section",
      null,
      h("h3", null, group),
      h(
        "dl",
        null,
        keys.map(([key, label]) => [h("dt", null, caps(key)), h("dd", null, label)]),
      ),
    ),
  );
  openDialog({ title: "Keyboard shortcuts", body: h("div", { class: "keys" }, groups), wide: true });
}

function caps(key) {
  return key.split(" ").map((one) => h("kbd", null, one === "Escape" ? "Esc" : one));
}
