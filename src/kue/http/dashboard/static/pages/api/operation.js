// One operation of the REST API: parameters, body, responses, and a form to try it.

import { codeSample } from "../../components/empty-state.js";
import { jsonTree } from "../../components/json-tree.js";
import { api, pathSegment } from "../../lib/api.js";
import { fill, h, uid } from "../../lib/dom.js";
import { shape, typeOf } from "./schema.js";

export function operation(one, document) {
  const { path, method, summary, description, parameters = [] } = one;
  const scope = one["x-scope"] ?? one["x-role"];
  const words = [path, method, summary, one.operationId].join(" ").toLowerCase();
  const details = h(
    "details",
    { class: "operation", id: one.operationId, dataset: { words } },
    h(
      "summary",
      null,
      h("span", { class: "method", dataset: { method } }, method.toUpperCase()),
      h("code", { class: "operation-path" }, path),
      h("span", { class: "soft operation-about" }, summary),
      scope && h("span", { class: "role", title: "Required scope" }, scope),
    ),
  );
  // Built when it is opened: there are many.
  details.addEventListener("toggle", () => {
    if (details.open && details.children.length === 1) details.append(body());
  });
  return details;

  function body() {
    return h(
      "div",
      { class: "operation-body" },
      description && h("p", { class: "lead" }, description),
      parameters.length > 0 && [
        h("h3", null, "Parameters"),
        parameterTable(parameters, document),
      ],
      one.requestBody && [
        h("h3", null, "Body"),
        content(one.requestBody.content, document),
      ],
      h("h3", null, "Responses"),
      responsesView(one.responses, document),
      method === "get" && tryItForm(one),
    );
  }
}

function parameterTable(parameters, document) {
  const about = (one) => one.description ?? one.schema?.description ?? "";
  const hasAbout = parameters.some(about);
  const heads = ["Name", "In", "Type", hasAbout && "Description"].filter(Boolean);
  return h(
    "div",
    { class: "table-box", tabindex: 0, role: "region", "aria-label": "Parameters" },
    h(
      "table",
      null,
      h(
        "thead",
        null,
        h(
          "tr",
          null,
          heads.map((text) => h("th", { scope: "col" }, text)),
        ),
      ),
      h(
        "tbody",
        null,
        parameters.map((one) =>
          h(
            "tr",
            null,
            h(
              "td",
              null,
              h("code", null, one.name),
              one.required && h("span", { class: "faint" }, " required"),
            ),
            h("td", null, one.in),
            h("td", null, typeOf(one.schema, document)),
            hasAbout && h("td", { class: "soft" }, about(one)),
          ),
        ),
      ),
    ),
  );
}

function responsesView(responses, document) {
  const success = Object.entries(responses).filter(([status]) => status < 400);
  const failure = Object.entries(responses).filter(([status]) => status >= 400);
  return [
    success.map(([status, response]) =>
      h(
        "div",
        { class: "answer" },
        h("p", null, h("code", null, status), ` ${response.description}`),
        response.content && content(response.content, document),
      ),
    ),
    h(
      "p",
      { class: "soft" },
      "Or an error: ",
      failure.map(([status, response], index) => [
        index > 0 && ", ",
        h("span", { title: response.description }, status),
      ]),
      ".",
    ),
  ];
}

function content(types, document) {
  return Object.entries(types).map(([type, { schema }]) =>
    h(
      "div",
      { class: "content" },
      h("span", { class: "faint" }, type),
      shape(schema, document),
    ),
  );
}

// -- try it -----------------------------------------------------------------------

//: A form with the parameters of a GET operation, and the response.
function tryItForm({ path, parameters = [], responses }) {
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
      placeholder: one.required ? "required" : "",
    });
    inputs.set(one, input);
    return h("div", { class: "field" }, h("label", { for: id }, one.name), input);
  });
  const response = h("div", { class: "attempt-answer", "aria-live": "polite" });

  async function send(event) {
    event.preventDefault();
    let target = path;
    const query = {};
    for (const [one, input] of inputs) {
      if (one.in === "path")
        target = target.replace(`{${one.name}}`, pathSegment(input.value));
      else query[one.name] = input.value;
    }
    const address = api.url(target, query);
    const began = performance.now();
    const output = [];
    try {
      const found = await api.get(target, query);
      output.push(
        typeof found === "string"
          ? h("pre", { class: "attempt-text", tabindex: 0 }, found)
          : jsonTree(found),
      );
    } catch (error) {
      output.push(
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
      response,
      codeSample(command),
      h("p", { class: "faint" }, `Response in ${ms} ms`),
      output,
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
    response,
  );
}
