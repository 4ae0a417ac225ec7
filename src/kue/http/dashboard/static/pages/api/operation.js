// One operation: what it takes and answers, and a way to try it.

import { h } from "../../lib/dom.js";
import { shape, typeOf } from "./schema.js";
import { attempt } from "./attempt.js";

export function operation(one, document) {
  const { path, method, summary, description, parameters = [] } = one;
  const right = one["x-scope"] ?? one["x-role"];
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
      right && h("span", { class: "role", title: "Required scope" }, right),
    ),
  );
  // Made when it is opened: there are many.
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
      answers(one.responses, document),
      method === "get" && attempt(one),
    );
  }
}

function parameterTable(parameters, document) {
  const about = (one) => one.description ?? one.schema?.description ?? "";
  const hasAbout = parameters.some(about);
  const heads = ["Name", "In", "Type", hasAbout && "About"].filter(Boolean);
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
              one.required && h("span", { class: "faint" }, " needed"),
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

function answers(responses, document) {
  const good = Object.entries(responses).filter(([status]) => status < 400);
  const bad = Object.entries(responses).filter(([status]) => status >= 400);
  return [
    good.map(([status, answer]) =>
      h(
        "div",
        { class: "answer" },
        h("p", null, h("code", null, status), ` ${answer.description}`),
        answer.content && content(answer.content, document),
      ),
    ),
    h(
      "p",
      { class: "soft" },
      "Or an error: ",
      bad.map(([status, answer], index) => [
        index > 0 && ", ",
        h("span", { title: answer.description }, status),
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
