// The filters in force as chips, and a line to type more of them with suggestions.

import { api } from "../../lib/api.js";
import { fill, h, uid } from "../../lib/dom.js";
import { FACETS, PRIORITIES, filterText, isFacet, parseFilter } from "./filters.js";

//: Suggestions shown at once.
const MOST = 12;

//: A bar of chips.
//:
//: *suggest(name)* gives the values that a filter is known to have, or a promise of
//: them; *onChange(changes)* is told what to write into the address.  `show(filters)`
//: shows those in force.
export function filterBar({ suggest, onChange }) {
  const listId = uid("filters");
  const chips = h("ul", { class: "chips", "aria-label": "Filters" });
  const input = h("input", {
    class: "filter-input",
    type: "text",
    role: "combobox",
    placeholder: "Filter: type, tag, data.user_id=42, or words",
    autocomplete: "off",
    spellcheck: "false",
    "aria-label": "Add a filter",
    "aria-expanded": "false",
    "aria-controls": listId,
    "aria-autocomplete": "list",
    onfocus: () => !isQuiet && offer(),
    onclick: () => list.hidden && offer(),
    oninput: offer,
    onblur: close,
    onkeydown,
  });
  const list = h("ul", {
    class: "suggestions",
    id: listId,
    role: "listbox",
    "aria-label": "Suggestions",
    hidden: true,
  });
  const node = h(
    "div",
    { class: "filterbar" },
    chips,
    h("div", { class: "filter-entry" }, input, list),
  );

  let filters = [];
  let options = [];
  let active = -1;
  let asked = 0;
  //: Whether the line gets the focus without being asked to suggest anything.
  let isQuiet = false;

  async function offer() {
    asked += 1;
    const turn = asked;
    const found = await suggestions(input.value, suggest);
    // Typed on in the meantime, or gone.
    if (turn !== asked || document.activeElement !== input) return;
    options = found.slice(0, MOST);
    active = -1;
    draw();
  }

  function draw() {
    fill(list, options.map(optionView));
    list.hidden = options.length === 0;
    input.setAttribute("aria-expanded", String(!list.hidden));
    const chosen = list.children[active];
    if (chosen) {
      input.setAttribute("aria-activedescendant", chosen.id);
      chosen.scrollIntoView({ block: "nearest" });
    } else input.removeAttribute("aria-activedescendant");
  }

  function optionView(option, number) {
    return h(
      "li",
      {
        id: `${listId}-${number}`,
        role: "option",
        "aria-selected": String(number === active),
        // The line must not lose the focus before the click arrives.
        onpointerdown: (event) => event.preventDefault(),
        onclick: () => pick(option),
      },
      h("span", { class: "suggestion" }, option.label),
      option.hint && h("span", { class: "hint" }, option.hint),
    );
  }

  function pick(option) {
    if (option.filter) return add(option.filter);
    input.value = option.text;
    input.focus();
    return offer();
  }

  function add(filter) {
    input.value = "";
    onChange({ [filter[0]]: filter[1] });
    rest();
  }

  function remove([name]) {
    onChange({ [name]: null });
    rest();
  }

  //: Be ready for the next filter without covering what this one found.
  function rest() {
    isQuiet = true;
    input.focus();
    isQuiet = false;
    close();
  }

  function close() {
    asked += 1;
    options = [];
    draw();
  }

  function onkeydown(event) {
    if (event.key === "ArrowDown" && list.hidden) {
      offer();
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const step = event.key === "ArrowDown" ? 1 : -1;
      active = options.length ? (active + step + options.length) % options.length : -1;
      draw();
    } else if (event.key === "Enter") {
      const typed = parseFilter(input.value);
      if (active >= 0) pick(options[active]);
      else if (typed) add(typed);
    } else if (event.key === "Escape") {
      if (list.hidden) input.blur();
      else close();
    } else if (event.key === "Backspace" && !input.value && filters.length) {
      remove(filters.at(-1));
    } else return;
    event.preventDefault();
  }

  return {
    node,
    input,
    show(given) {
      filters = given;
      fill(chips, given.map((filter) => chip(filter, remove)));
      chips.hidden = given.length === 0;
    },
  };
}

function chip(filter, remove) {
  const words = filterText(filter);
  return h(
    "li",
    { class: "chip" },
    h("span", { class: "chip-text", title: words }, words),
    h(
      "button",
      {
        type: "button",
        class: "chip-remove",
        "aria-label": `Remove the filter ${words}`,
        onclick: () => remove(filter),
      },
      "×",
    ),
  );
}

//: What may be meant: each {label, hint} with a whole filter, or text to type on from.
async function suggestions(typed, suggest) {
  const text = typed.trim();
  const named = /^([a-z]+)\s*[:=]\s*(.*)$/s.exec(text);
  if (named && isFacet(named[1])) return valuesOf(named[1], named[2], suggest);
  const data = /^data\.([^=:\s]*)$/.exec(text);
  if (data) {
    const paths = await suggest("data.");
    return paths
      .filter((path) => path.startsWith(data[1]))
      .map((path) => ({ label: `data.${path}=`, text: `data.${path}=` }));
  }
  const facets = FACETS.filter((facet) => facet.name.startsWith(text.toLowerCase())).map(
    (facet) => ({
      label: facet.label,
      hint: facet.hint,
      text: facet.name === "data." ? facet.name : `${facet.name}:`,
    }),
  );
  if (!text) return facets;
  const types = await valuesOf("type", text, suggest);
  const words = parseFilter(text);
  const whole = words && { label: filterText(words), hint: "press Enter", filter: words };
  return [...facets, ...types.slice(0, 4), whole].filter(Boolean);
}

async function valuesOf(name, typed, suggest) {
  const known = await suggest(name);
  return known
    .filter((value) => String(value).toLowerCase().includes(typed.toLowerCase()))
    .map((value) => ({ label: filterText([name, String(value)]), filter: [name, String(value)] }));
}

// -- known values of filters ------------------------------------------------------

const TIMES = ["15m", "1h", "24h", "7d", "30d"];

//: Values of the filter *name*: as the server lists them, or as the *jobs* shown have them.
export async function knownValues(name, jobs) {
  switch (name) {
    case "type":
      return (await listed("/queues", "queues")).map((queue) => queue.type);
    case "worker":
      return (await listed("/workers", "workers")).map((worker) => worker.name);
    case "priority":
      return [...PRIORITIES.values()];
    case "since":
    case "until":
      return TIMES;
    case "tag":
      return distinct(jobs.flatMap((job) => job.tags));
    case "group":
      return distinct(jobs.map((job) => job.group));
    case "error":
      return distinct(jobs.map((job) => job.error?.kind));
    case "data.":
      return distinct(jobs.flatMap((job) => namesIn(job.data)));
    default:
      return [];
  }
}

//: What the server lists; nothing when it does not answer.
async function listed(path, name) {
  try {
    const answer = await api.get(path);
    return Array.isArray(answer) ? answer : (answer[name] ?? []);
  } catch {
    return [];
  }
}

//: The names at the top of *data* that a filter can say; texts and lists have none.
function namesIn(data) {
  const isNamed = data !== null && typeof data === "object" && !Array.isArray(data);
  return isNamed ? Object.keys(data).filter((name) => /^[^=:.\s]+$/.test(name)) : [];
}

function distinct(values) {
  return [...new Set(values.filter(Boolean))].sort();
}
