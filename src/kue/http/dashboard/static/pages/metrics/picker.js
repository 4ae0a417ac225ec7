// Which queues are compared: names to add, and those that are chosen.

import { api } from "../../lib/api.js";
import { fill, h, uid } from "../../lib/dom.js";

//: So many colours can be told apart.
export const MOST = 6;

//: Return {node, chosen(), load(signal)}; onChange(types) is called when they change.
export function picker({ types, onChange }) {
  let chosen = types.slice(0, MOST);
  let known = [];
  const id = uid("queues");
  const options = h("datalist", { id });
  const chips = h("ul", { class: "picked", "aria-label": "Queues shown" });
  const input = h("input", {
    type: "text",
    list: id,
    maxlength: 500,
    placeholder: "Add a queue",
    "aria-label": "Add a queue",
    autocomplete: "off",
    // A choice from the list comes as input, a name that is typed with Enter.
    oninput: () => known.includes(input.value) && add(input.value),
    onchange: () => add(input.value),
  });

  function add(type) {
    input.value = "";
    if (!known.includes(type) || chosen.includes(type)) return;
    set([...chosen, type].slice(-MOST));
  }

  function set(next) {
    chosen = next;
    show();
    onChange(chosen);
  }

  function show() {
    const parts = chosen.map((type, index) =>
      h(
        "li",
        { class: "picked-queue" },
        h("span", { class: `swatch tone-${index + 1}` }),
        type,
        h(
          "button",
          {
            type: "button",
            class: "picked-drop",
            "aria-label": `Leave out ${type}`,
            onclick: () => {
              set(chosen.filter((one) => one !== type));
              input.focus();
            },
          },
          "×",
        ),
      ),
    );
    fill(chips, parts.length ? parts : h("li", { class: "faint" }, "All queues"));
  }

  async function load(signal) {
    const { queues } = await api.get("/queues", null, { signal });
    known = queues.map(({ type }) => type);
    fill(options, known.map((type) => h("option", { value: type })));
  }

  show();
  const node = h("div", { class: "picker" }, chips, input, options);
  return { node, chosen: () => chosen, load };
}
