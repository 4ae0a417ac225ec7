// Filter bar: the current filters as chips, and an input with suggestions for more.

import { api } from "../../lib/api.js";
import { fill, h, uid } from "../../lib/dom.js";
import { FACETS, PRIORITIES, filterText, isFacet, parseFilter } from "./filters.js";

//: Suggestions shown at once.
const MAX_SHOWN = 12;

//: A bar of chips.
//:
//: *suggest(name)* returns known values of a filter, or a promise of them;
//: *onChange(changes)* is called with the changes to the address.  `show(filters)` shows
//: the current filters.
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
    onfocus: () => !isSilent && offer(),
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
  let requests = 0;
  //: Whether the input gets the focus without showing suggestions.
  let isSilent = false;

  async function offer() {
    requests += 1;
    const request = requests;
    const found = await suggestions(input.value, suggest);
    // The text changed or the input lost the focus in the meantime.
    if (request !== requests || document.activeElement !== input) return;
    const chosen = options[active]?.label;
    options = found.slice(0, MAX_SHOWN);
    // An answer that comes late must not take the choice back.
    active = options.findIndex((option) => option.label === chosen);
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
        // The input must not lose the focus before the click arrives.
        onpointerdown: (event) => event.preventDefault(),
        onclick: () => chooseOption(option),
      },
      h("span", { class: "suggestion" }, option.label),
      option.hint && h("span", { class: "hint" }, option.hint),
    );
  }

  function chooseOption(option) {
    if (option.filter) return add(option.filter);
    input.value = option.text;
    input.focus();
    return offer();
  }

  function add(filter) {
    input.value = "";
    onChange({ [filter[0]]: filter[1] });
    refocus();
  }

  function remove([name]) {
    onChange({ [name]: null });
    refocus();
  }

  //: Focus the input without suggestions, which would cover the results.
  function refocus() {
    isSilent = true;
    input.focus();
    isSilent = false;
    close();
  }

  function close() {
    requests += 1;
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
      if (active >= 0) chooseOption(options[active]);
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

//: Suggestions: each {label, hint} with a complete filter, or text to continue typing.
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

//: Known values of the filter *name*: from the server, or from the *jobs* shown.
export async function knownValues(name, jobs) {
  switch (name) {
    case "type":
      return (await readList("/queues", "queues")).map((queue) => queue.type);
    case "worker":
      return (await readList("/workers", "workers")).map((worker) => worker.name);
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

//: Values that the server lists; none on an error.
async function readList(path, name) {
  try {
    const answer = await api.get(path);
    return Array.isArray(answer) ? answer : (answer[name] ?? []);
  } catch {
    return [];
  }
}

//: The top-level names in *data* that a filter can contain; texts and lists have none.
function namesIn(data) {
  const isNamed = data !== null && typeof data === "object" && !Array.isArray(data);
  return isNamed ? Object.keys(data).filter((name) => /^[^=:.\s]+$/.test(name)) : [];
}

function distinct(values) {
  return [...new Set(values.filter(Boolean))].sort();
}
