// Command palette (Ctrl K): pages, queues, jobs by id, and actions of the page.

import { api, pathSegment } from "../lib/api.js";
import { fill, h, uid } from "../lib/dom.js";
import { live } from "../lib/live.js";
import { can } from "../lib/me.js";
import { go } from "../lib/router.js";
import { icon } from "./icon.js";
import { showShortcuts } from "./shortcut-help.js";
import { setTheme } from "./theme.js";

//: Commands shown at once.
const MAX_SHOWN = 30;

//: *actions* are those of the page: [{label, run, icon?, hint?}].
export function openPalette({ pages, actions }) {
  // One that was closed a moment ago is still in the document.
  if (document.querySelector("dialog.palette[open]")) return;
  const list = uid("commands");
  let queues = [];
  let shown = [];
  let selected = 0;
  //: What somebody chose, by keys or pointer.
  let chosen = null;
  const input = h("input", {
    role: "combobox",
    "aria-expanded": "true",
    "aria-controls": list,
    "aria-label": "Command, page, queue or job id",
    placeholder: "Page, queue, job id or action",
    autocomplete: "off",
    spellcheck: "false",
    oninput: () => {
      chosen = null;
      draw();
    },
    onkeydown: onKeydown,
  });
  const listbox = h("ul", { id: list, role: "listbox", "aria-label": "Commands" });
  const node = h(
    "dialog",
    { class: "palette", "aria-label": "Command palette" },
    h("div", { class: "palette-head" }, icon("search"), input, h("kbd", null, "Esc")),
    listbox,
  );
  node.addEventListener("close", () => node.remove());
  node.addEventListener("click", (event) => event.target === node && node.close());
  document.body.append(node);
  node.showModal();
  input.focus();
  draw();
  api
    .get("/queues")
    .then((found) => {
      queues = found.queues.map((queue) => queue.type);
      draw();
    })
    .catch(() => {
      // Pages and actions are shown without them.
    });

  function draw() {
    const text = input.value.trim().toLowerCase();
    shown = commands(text).filter(({ label, group }) =>
      matches(`${group} ${label}`, text),
    );
    shown = shown.slice(0, MAX_SHOWN);
    // Queues that come late move the others: what was chosen stays chosen.
    const isChosen = ({ group, label }) => group === chosen?.group && label === chosen?.label;
    selected = Math.max(0, shown.findIndex(isChosen));
    let group = "";
    fill(
      listbox,
      shown.map((command, index) => {
        const heading =
          command.group !== group &&
          h("li", { class: "palette-group", role: "presentation" }, command.group);
        group = command.group;
        return [heading, option(command, index)];
      }),
      !shown.length &&
        h(
          "li",
          { class: "palette-none", role: "presentation" },
          "No matches",
        ),
    );
    showSelected();
  }

  function option(command, index) {
    return h(
      "li",
      {
        id: `${list}-${index}`,
        role: "option",
        onclick: () => run(index),
        onpointermove: () => {
          if (selected !== index) choose(index);
        },
      },
      icon(command.icon ?? "right"),
      h("span", null, command.label),
      command.hint && h("kbd", null, command.hint),
    );
  }

  function choose(index) {
    selected = index;
    chosen = shown[index];
    showSelected();
  }

  function showSelected() {
    for (const item of listbox.querySelectorAll("[role=option]")) {
      item.setAttribute("aria-selected", String(item.id === `${list}-${selected}`));
    }
    input.setAttribute("aria-activedescendant", shown.length ? `${list}-${selected}` : "");
    listbox.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
  }

  function onKeydown(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && shown.length) {
      choose((selected + step + shown.length) % shown.length);
    } else if (event.key === "Enter" && shown.length) {
      run(selected);
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
      ...actions.map((command) => ({ group: "This page", icon: "right", ...command })),
      ...pageCommands(pages),
      ...queues.map((type) => ({
        group: "Queues",
        label: type,
        icon: "queues",
        run: () => go(`/queues/${pathSegment(type)}`),
      })),
      ...(text ? [searchCommand(input.value.trim())] : []),
      ...SETTINGS,
    ];
  }
}

function pageCommands(pages) {
  return pages
    .filter((page) => page.nav && can(page.nav.needs ?? "read"))
    .sort((one, other) => one.nav.order - other.nav.order)
    .map(({ path, nav }) => ({
      group: "Pages",
      label: nav.label,
      icon: nav.icon,
      hint: nav.key && `g ${nav.key}`,
      run: () => go(path),
    }));
}

function searchCommand(text) {
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
    run: () => live.togglePause(),
  },
  {
    group: "Settings",
    label: "Show keyboard shortcuts",
    icon: "info",
    hint: "?",
    run: showShortcuts,
  },
];

//: Whether every word of *text* appears in *label*.
function matches(label, text) {
  const whole = label.toLowerCase();
  return text.split(/\s+/).every((word) => whole.includes(word.replace(/^#/, "")));
}
