// Ctrl K: every page, every queue, any job by its id, and what the page can do.

import { api, pathSegment } from "../lib/api.js";
import { fill, h, uid } from "../lib/dom.js";
import { live } from "../lib/live.js";
import { can } from "../lib/me.js";
import { go } from "../lib/router.js";
import { icon } from "./icon.js";
import { showShortcuts } from "./shortcut-help.js";
import { setTheme } from "./theme.js";

//: Commands shown at once.
const MOST = 30;

//: *actions* are those of the page: [{label, run, icon?, hint?}].
export function openPalette({ pages, actions }) {
  if (document.querySelector("dialog.palette")) return;
  const list = uid("commands");
  let queues = [];
  let shown = [];
  let at = 0;
  const input = h("input", {
    role: "combobox",
    "aria-expanded": "true",
    "aria-controls": list,
    "aria-label": "Command, page, queue or job id",
    placeholder: "Page, queue, job id or action",
    autocomplete: "off",
    spellcheck: "false",
    oninput: () => draw(true),
    onkeydown: press,
  });
  const box = h("ul", { id: list, role: "listbox", "aria-label": "Commands" });
  const node = h(
    "dialog",
    { class: "palette", "aria-label": "Command palette" },
    h("div", { class: "palette-head" }, icon("search"), input, h("kbd", null, "Esc")),
    box,
  );
  node.addEventListener("close", () => node.remove());
  node.addEventListener("click", (event) => event.target === node && node.close());
  document.body.append(node);
  node.showModal();
  input.focus();
  draw(true);
  api
    .get("/queues")
    .then((found) => {
      queues = found.queues.map((queue) => queue.type);
      draw();
    })
    .catch(() => {
      // Pages and actions are worth showing without them.
    });

  function draw(isNew = false) {
    const text = input.value.trim().toLowerCase();
    shown = commands(text).filter(({ label, group }) =>
      matches(`${group} ${label}`, text),
    );
    shown = shown.slice(0, MOST);
    at = isNew ? 0 : Math.min(at, Math.max(0, shown.length - 1));
    let group = "";
    fill(
      box,
      shown.map((one, index) => {
        const head =
          one.group !== group &&
          h("li", { class: "palette-group", role: "presentation" }, one.group);
        group = one.group;
        return [head, option(one, index)];
      }),
      !shown.length &&
        h(
          "li",
          { class: "palette-none", role: "presentation" },
          "No match",
        ),
    );
    mark();
  }

  function option(one, index) {
    return h(
      "li",
      {
        id: `${list}-${index}`,
        role: "option",
        onclick: () => run(index),
        onpointermove: () => {
          if (at !== index) {
            at = index;
            mark();
          }
        },
      },
      icon(one.icon ?? "right"),
      h("span", null, one.label),
      one.hint && h("kbd", null, one.hint),
    );
  }

  function mark() {
    for (const one of box.querySelectorAll("[role=option]")) {
      one.setAttribute("aria-selected", String(one.id === `${list}-${at}`));
    }
    input.setAttribute("aria-activedescendant", shown.length ? `${list}-${at}` : "");
    box.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
  }

  function press(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && shown.length) {
      at = (at + step + shown.length) % shown.length;
      mark();
    } else if (event.key === "Enter" && shown.length) {
      run(at);
    } else {
      return;
    }
    event.preventDefault();
  }

  function run(index) {
    node.close();
    shown[index].run();
  }

  function commands(text) {
    const id = /^#?(\d{1,16})$/.exec(text)?.[1];
    return [
      ...(id
        ? [
            {
              group: "Jobs",
              label: `Job ${id}`,
              icon: "jobs",
              run: () => go(`/jobs/${id}`),
            },
          ]
        : []),
      ...actions.map((one) => ({ group: "This page", icon: "right", ...one })),
      ...pageCommands(pages),
      ...queues.map((type) => ({
        group: "Queues",
        label: type,
        icon: "queues",
        run: () => go(`/queues/${pathSegment(type)}`),
      })),
      ...(text ? [search(input.value.trim())] : []),
      ...SETTINGS,
    ];
  }
}

function pageCommands(pages) {
  return pages
    .filter((page) => page.nav && can(page.nav.needs ?? "look"))
    .sort((one, other) => one.nav.order - other.nav.order)
    .map(({ path, nav }) => ({
      group: "Pages",
      label: nav.label,
      icon: nav.icon,
      hint: nav.key && `g ${nav.key}`,
      run: () => go(path),
    }));
}

function search(text) {
  const run = () => go(`/jobs?text=${encodeURIComponent(text)}`);
  return {
    group: "Jobs",
    label: `Jobs with “${text}” in their data`,
    icon: "search",
    run,
  };
}

const SETTINGS = [
  {
    group: "Settings",
    label: "Theme: light",
    icon: "sun",
    run: () => setTheme("light"),
  },
  {
    group: "Settings",
    label: "Theme: dark",
    icon: "moon",
    run: () => setTheme("dark"),
  },
  {
    group: "Settings",
    label: "Theme: system",
    icon: "auto",
    run: () => setTheme("system"),
  },
  {
    group: "Settings",
    label: "Pause or resume updates",
    icon: "pause",
    hint: "p",
    run: () => live.hold(!live.isHeld),
  },
  { group: "Settings", label: "Show keyboard shortcuts", icon: "info", hint: "?", run: showShortcuts },
];

//: Every word of *text* appears.
function matches(label, text) {
  const whole = label.toLowerCase();
  return text.split(/\s+/).every((word) => whole.includes(word.replace(/^#/, "")));
}
