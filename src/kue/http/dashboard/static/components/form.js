// Forms; errors that the server returns are shown at their fields.

import { fill, h, uid } from "../lib/dom.js";
import { openDialog } from "./dialog.js";

//: Make a form.  Fields: {name, label, type?, value?, required?, help?, placeholder?,
//: options?: [value | [value, label]], rows?, parse?: text → value, autocomplete?,
//: group?, wide?}; types are those of inputs, "select", "area", "check" and "json".  Fields
//: of the same group that follow each other are shown together, under its name.
//: submit(values) may throw a Problem, which is shown at its field.
export function form({
  fields,
  submit,
  action = "Save",
  cancel = null,
  danger = false,
}) {
  const controls = fields.map(control);
  const fault = h("p", { class: "fault", role: "alert" });
  const kind = danger ? "danger" : "primary";
  const button = h("button", { class: kind, type: "submit" }, action);
  const buttons = h(
    "div",
    { class: "form-actions" },
    cancel && h("button", { type: "button", onclick: cancel }, "Cancel"),
    button,
  );
  const node = h(
    "form",
    { class: "form", novalidate: true, onsubmit: send },
    grouped(controls),
    fault,
    buttons,
  );

  function values() {
    return Object.fromEntries(controls.map((control) => [control.name, control.value()]));
  }

  //: Show *error* at its field.
  function showError(error) {
    const path = String(error.field ?? "").replace(/^(body|query)\.?/, "");
    const found = path && controls.find(({ name }) => path.split(/[.[]/)[0] === name);
    if (found) found.showError(error.message);
    else fill(fault, error.message);
  }

  async function send(event) {
    event.preventDefault();
    for (const control of controls) control.showError("");
    fill(fault);
    let formValues;
    try {
      formValues = values();
    } catch (error) {
      showError(error);
      return;
    }
    button.disabled = true;
    try {
      await submit(formValues);
    } catch (error) {
      showError(error);
    } finally {
      button.disabled = false;
    }
  }

  return { node, controls, focus: () => controls[0]?.input.focus() };
}

//: The same in a dialog; returns a promise of what submit returned, or undefined.
export function formDialog({
  title,
  text = "",
  fields,
  submit,
  action = "Save",
  danger = false,
}) {
  const created = form({
    fields,
    action,
    danger,
    cancel: () => dialog.close(),
    submit: async (values) => {
      const result = await submit(values);
      dialog.close(result ?? true);
    },
  });
  const dialog = openDialog({ title, body: [text && h("p", null, text), created.node] });
  created.focus();
  return dialog.closed;
}

//: The rows of controls; those of a group are in a fieldset.
function grouped(controls) {
  const nodes = [];
  let last = null;
  for (const { group, row } of controls) {
    if (group && group === last) nodes.at(-1).append(row);
    else nodes.push(group ? h("fieldset", null, h("legend", null, group), row) : row);
    last = group;
  }
  return nodes;
}

function control(field) {
  const id = uid("field");
  const input = inputOf(field, id);
  const fault = h("span", { class: "fault", id: `${id}-fault` });
  const isCheck = field.type === "check";
  const row = h(
    "div",
    { class: `field${isCheck ? " field-check" : ""}${field.wide ? " field-wide" : ""}` },
    h(
      "label",
      { for: id },
      field.label,
      field.required && h("span", { class: "faint" }, " (required)"),
    ),
    input,
    field.help && h("span", { class: "help", id: `${id}-help` }, field.help),
    fault,
  );
  input.setAttribute("aria-describedby", `${id}-help ${id}-fault`);

  //: Show an error without moving the focus, while something is typed.
  function setError(message) {
    fill(fault, message);
    if (message) input.setAttribute("aria-invalid", "true");
    else input.removeAttribute("aria-invalid");
  }

  function showError(message) {
    setError(message);
    if (message) input.focus();
  }

  function value() {
    if (isCheck) return input.checked;
    const text = input.value;
    if (field.required && !text.trim())
      throw fieldError(field.name, `${field.label} is required`);
    if (field.type === "json") return json(field, text);
    if (field.type === "number") return text === "" ? null : Number(text);
    return field.parse ? field.parse(text) : text;
  }

  return { name: field.name, group: field.group, row, input, setError, showError, value };
}

function inputOf(field, id) {
  const shared = {
    id,
    name: field.name,
    placeholder: field.placeholder,
    autocomplete: field.autocomplete ?? "off",
  };
  switch (field.type) {
    case "select":
      return h(
        "select",
        shared,
        (field.options ?? []).map((option) => {
          const [value, label = value] = [option].flat();
          return h("option", { value, selected: value === field.value }, label);
        }),
      );
    case "area":
    case "json":
      return h("textarea", {
        ...shared,
        rows: field.rows ?? 6,
        spellcheck: "false",
        class: field.type === "json" ? "mono" : "",
        value: field.type === "json" ? pretty(field.value) : (field.value ?? ""),
      });
    case "check":
      return h("input", { ...shared, type: "checkbox", checked: Boolean(field.value) });
    default:
      return h("input", {
        ...shared,
        type: field.type ?? "text",
        value: field.value ?? "",
      });
  }
}

function pretty(value) {
  if (value === undefined) return "";
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}

function json(field, text) {
  if (!text.trim()) return null;
  try {
    return JSON.parse(text);
  } catch (error) {
    throw fieldError(field.name, `invalid JSON: ${error.message}`);
  }
}

function fieldError(field, message) {
  return Object.assign(new Error(message), { field });
}
