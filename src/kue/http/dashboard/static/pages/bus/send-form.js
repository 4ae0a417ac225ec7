// Form that sends a message on the event bus and shows the reply.

import { form } from "../../components/form.js";
import { jsonTree } from "../../components/json-tree.js";
import { api } from "../../lib/api.js";
import { fill, h } from "../../lib/dom.js";
import { duration, plural } from "../../lib/format.js";

const FIELDS = [
  { name: "address", label: "Address", required: true, placeholder: "greeter" },
  {
    name: "kind",
    label: "Kind",
    type: "select",
    options: [
      ["request", "request: to one consumer, with a reply"],
      ["send", "send: to one consumer, round-robin"],
      ["publish", "publish: to all consumers"],
    ],
    value: "request",
  },
  {
    name: "body",
    label: "Body",
    type: "json",
    rows: 4,
    placeholder: '{"name": "ann"}',
    help: "JSON; may be empty",
  },
  {
    name: "headers",
    label: "Headers",
    type: "area",
    rows: 2,
    placeholder: "name: value",
    help: "One per line",
    parse: headersOf,
  },
  { name: "timeout", label: "Reply timeout", value: "5s", help: "At most 30 seconds" },
];

//: Return {node, choose(address)}.
export function messageForm() {
  const outcome = h("div", { class: "bus-outcome", role: "status" });
  const sendForm = form({ fields: FIELDS, action: "Send", submit: send });
  const [address, , body] = sendForm.controls;

  async function send(values) {
    fill(outcome, h("p", { class: "faint" }, "Sending…"));
    try {
      const result = await api.post("/bus/messages", values);
      fill(outcome, resultView(values, result));
    } catch (error) {
      fill(outcome);
      throw error;
    }
  }

  function choose(name) {
    address.input.value = name;
    body.input.focus();
  }

  return { node: h("div", { class: "columns-even columns" }, sendForm.node, outcome), choose };
}

function headersOf(text) {
  const found = {};
  for (const line of text.split("\n").filter((one) => one.trim())) {
    const [name, ...value] = line.split(":");
    if (!name.trim() || !value.length) {
      throw Object.assign(new Error(`not a header: ${line}; write name: value`), {
        field: "headers",
      });
    }
    found[name.trim()] = value.join(":").trim();
  }
  return found;
}

function resultView({ kind }, { nodes, reply, failure, took_ms: took }) {
  if (failure) {
    const code = failure.code === -1 ? "" : `, code ${failure.code}`;
    return h(
      "p",
      { class: "notice", dataset: { tone: "warn" } },
      h("strong", null, failure.kind),
      `${code}: ${failure.text} (after ${duration(took)})`,
    );
  }
  if (kind !== "request") {
    const text = nodes
      ? `Sent; ${plural(nodes, "node has", "nodes have")} consumers.`
      : "No consumers at this address.";
    return h("p", { class: nodes ? "good" : "bad" }, text);
  }
  const headers = Object.entries(reply.headers).map(
    ([name, values]) => `${name}: ${values.join(", ")}`,
  );
  return [
    h("p", { class: "good" }, `Reply after ${duration(took)}`),
    headers.length > 0 && h("p", { class: "mono wrap soft" }, headers.join("; ")),
    reply.codec === "json"
      ? jsonTree(reply.body, { label: "Reply" })
      : h("p", { class: "faint" }, `Bodies of codec ${reply.codec} cannot be shown.`),
    reply.is_cut && h("p", { class: "faint" }, "Truncated: the reply is large."),
  ];
}
