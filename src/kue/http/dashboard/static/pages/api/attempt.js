// Try an operation that only looks.

import { sample } from "../../components/empty.js";
import { tree } from "../../components/tree.js";
import { api, part } from "../../lib/api.js";
import { fill, h, uid } from "../../lib/dom.js";

//: A form with the parameters of *operation*, and what the server answers.
export function attempt({ path, parameters = [], responses }) {
  const isStream = Object.values(responses).some(
    (one) => one.content?.["text/event-stream"],
  );
  if (isStream) return null;
  const inputs = new Map();
  const fields = parameters.map((one) => {
    const id = uid("try");
    const input = h("input", {
      id,
      autocomplete: "off",
      placeholder: one.required ? "needed" : "",
    });
    inputs.set(one, input);
    return h("div", { class: "field" }, h("label", { for: id }, one.name), input);
  });
  const answer = h("div", { class: "attempt-answer", "aria-live": "polite" });

  async function send(event) {
    event.preventDefault();
    let target = path;
    const query = {};
    for (const [one, input] of inputs) {
      if (one.in === "path")
        target = target.replace(`{${one.name}}`, part(input.value));
      else query[one.name] = input.value;
    }
    const address = api.url(target, query);
    const began = performance.now();
    const shown = [];
    try {
      const found = await api.get(target, query);
      shown.push(
        typeof found === "string"
          ? h("pre", { class: "attempt-text", tabindex: 0 }, found)
          : tree(found),
      );
    } catch (error) {
      shown.push(
        h(
          "p",
          { class: "bad" },
          `${error.status || ""} ${error.title}: ${error.message}`,
        ),
      );
    }
    const ms = Math.round(performance.now() - began);
    const command = `curl '${window.location.origin}${address.replaceAll("'", "%27")}'`;
    fill(
      answer,
      sample(command),
      h("p", { class: "faint" }, `Answered in ${ms} ms`),
      shown,
    );
  }

  return h(
    "form",
    { class: "attempt", onsubmit: send },
    h("h3", null, "Try it"),
    fields.length > 0 && h("div", { class: "attempt-fields" }, fields),
    h(
      "div",
      { class: "actions" },
      h("button", { class: "primary small", type: "submit" }, "Send"),
    ),
    answer,
  );
}
