// JSON schemas in readable form.

import { h } from "../../lib/dom.js";

const REF = "#/components/schemas/";
//: Larger maximums are limits of the format, not of the value.
const HUGE = 2 ** 47;

//: All named schemas.
export function schemas(document) {
  const all = Object.entries(document.components?.schemas ?? {});
  return h(
    "section",
    { id: "schemas", class: "card" },
    h(
      "header",
      { class: "card-head" },
      h("h2", null, "schemas"),
      h("span", { class: "soft" }, "Requests and responses."),
    ),
    all
      .sort(([one], [other]) => one.localeCompare(other))
      .map(([name, schema]) => {
        const children = h("div", { class: "operation-body" });
        const details = h(
          "details",
          {
            class: "operation",
            id: `schema-${name}`,
            dataset: { words: `schema ${name}`.toLowerCase() },
          },
          h(
            "summary",
            null,
            h("code", { class: "operation-path" }, name),
            h("span", { class: "soft operation-about" }, firstLine(schema.description)),
          ),
          children,
        );
        details.addEventListener("toggle", () => {
          if (details.open && !children.hasChildNodes())
            children.append(...[shape(schema, document)].flat());
        });
        return details;
      }),
  );
}

//: The fields of a schema, or its type.
export function shape(schema, document) {
  const resolvedSchema = resolved(schema, document);
  const name = nameOf(schema);
  if (resolvedSchema.type === "array" && resolvedSchema.items) {
    return [
      h("p", null, "A list of ", typeOf(resolvedSchema.items, document)),
      shape(resolvedSchema.items, document),
    ].flat();
  }
  if (!resolvedSchema.properties) return [h("p", null, typeOf(schema, document))];
  const required = new Set(resolvedSchema.required ?? []);
  return [
    name && h("p", null, h("code", null, name)),
    h(
      "dl",
      { class: "fields" },
      Object.entries(resolvedSchema.properties).map(([field, one]) => [
        h(
          "dt",
          null,
          h("code", null, field),
          required.has(field) ? "" : h("span", { class: "faint" }, "?"),
        ),
        h(
          "dd",
          null,
          typeOf(one, document),
          one.description && h("span", { class: "soft" }, ` ${one.description}`),
        ),
      ]),
    ),
  ].filter(Boolean);
}

//: A type in a few words: text, 1 to 200 characters.
export function typeOf(schema, document) {
  const name = nameOf(schema);
  if (name) {
    const resolvedSchema = resolved(schema, document);
    if (resolvedSchema.enum) return resolvedSchema.enum.join(" | ");
    return h("a", { href: `#schema-${name}`, onclick: () => open(name) }, name);
  }
  if (schema.anyOf)
    return joined(
      schema.anyOf.map((one) => typeOf(one, document)),
      " or ",
    );
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.type === "array")
    return ["list of ", typeOf(schema.items ?? {}, document)];
  const base = [schema.type ?? "anything"].flat().join(" or ");
  const format = schema.format ? ` (${schema.format})` : "";
  return `${base}${format}${bounds(schema)}${defaultText(schema)}`;
}

function bounds(schema) {
  const { minimum, minLength, maxLength } = schema;
  const maximum = schema.maximum < HUGE ? schema.maximum : undefined;
  if (minimum !== undefined && maximum !== undefined)
    return `, ${minimum} to ${maximum}`;
  if (minimum !== undefined) return `, from ${minimum}`;
  if (maximum !== undefined) return `, up to ${maximum}`;
  if (minLength !== undefined && maxLength !== undefined)
    return `, ${minLength} to ${maxLength} characters`;
  if (maxLength !== undefined) return `, up to ${maxLength} characters`;
  return "";
}

function defaultText(schema) {
  const value = schema.default ?? schema["x-default"] ?? null;
  return value === null ? "" : `; default ${JSON.stringify(value)}`;
}

function resolved(schema, document) {
  const name = nameOf(schema);
  return name ? (document.components.schemas[name] ?? {}) : schema;
}

function nameOf(schema) {
  return schema?.$ref?.startsWith(REF) ? schema.$ref.slice(REF.length) : "";
}

function open(name) {
  const details = document.getElementById(`schema-${name}`);
  if (details) details.open = true;
}

function joined(parts, between) {
  return parts.flatMap((one, index) => (index ? [between, one] : [one]));
}

function firstLine(text = "") {
  return text.split("\n")[0];
}
