// Addresses of the event bus: consumers, rates, reply times and failures.

import { table } from "../../components/table.js";
import { api, report } from "../../lib/api.js";
import { h } from "../../lib/dom.js";
import { NO_VALUE, atMost, number, plural, rate } from "../../lib/format.js";
import { query, setQuery } from "../../lib/router.js";

const LIMIT = 100;

//: Return {node, search, keys, read(signal)}; with onSend(address) rows have a button.
export function addressesTable({ onSend = null }) {
  let { text = "" } = query();
  const list = table({
    columns: columns(onSend),
    key: ({ address }) => address,
    caption: "Addresses of the bus",
  });
  list.node.classList.add("carded");
  const more = h("p", { class: "bus-rest faint", role: "status" });
  const search = h("input", {
    type: "search",
    value: text,
    dataset: { search: "" },
    placeholder: "Find an address",
    "aria-label": "Find an address",
    maxlength: 1000,
    oninput: () => {
      text = search.value;
      setQuery({ text });
      read().catch(report);
    },
  });

  async function read(signal) {
    const requested = text;
    const params = { text: requested, limit: LIMIT };
    const found = await api.get("/bus/addresses", params, { signal });
    // The text may have changed in the meantime.
    if (requested !== text) return;
    list.update(found.addresses);
    list.node.hidden = found.addresses.length === 0;
    more.textContent = summary(found, requested);
  }

  const node = h("div", null, list.node, more);
  return { node, search, keys: list.keys, read };
}

function summary({ addresses: shown, found, rest: unreported }, text) {
  if (!found) return text ? "No address contains this text." : "No message has been sent yet.";
  const hidden = found - shown.length;
  const words = [];
  if (hidden > 0) words.push(`${plural(hidden, "more matches", "more match")}`);
  if (unreported > 0) words.push(`nodes have ${number(unreported)} more that are less busy`);
  const summaryText = words.join("; ");
  return summaryText && `${summaryText[0].toUpperCase()}${summaryText.slice(1)}.`;
}

function columns(onSend) {
  return [
    {
      key: "address",
      label: "Address",
      class: "bus-address",
      render: ({ address }) => h("span", { class: "mono wrap" }, address),
    },
    { key: "nodes", label: "Nodes", end: true, render: ({ nodes }) => number(nodes.length) },
    { key: "consumers", label: "Consumers", end: true, render: consumers },
    { key: "out", label: "Sent", end: true, render: (one) => rate(one.send_rate) },
    { key: "in", label: "Received", end: true, render: (one) => rate(one.receive_rate) },
    {
      key: "all",
      label: "Total",
      end: true,
      class: "nowrap",
      title: "Sent / received by the live nodes since they joined",
      render: ({ sent, received }) => `${number(sent)} / ${number(received)}`,
    },
    {
      key: "latency",
      label: "Replies",
      end: true,
      class: "nowrap",
      title: "p50 and p95 of the reply time in the last minutes",
      render: latency,
    },
    { key: "failures", label: "Failed", end: true, render: failures },
    onSend && {
      key: "act",
      label: "",
      class: "cell-acts",
      render: ({ address }) =>
        h(
          "button",
          {
            type: "button",
            class: "small",
            "aria-label": `Send to ${address}`,
            onclick: () => onSend(address),
          },
          "Send",
        ),
    },
  ].filter(Boolean);
}

function consumers({ consumers: count }) {
  return h("span", { class: count === 0 && "warn" }, number(count));
}

function latency({ latency: found }) {
  if (found === null) return NO_VALUE;
  return `${atMost(found.p50)} / ${atMost(found.p95)}`;
}

function failures({ failures: found }) {
  const kinds = Object.entries(found);
  if (!kinds.length) return NO_VALUE;
  const count = kinds.reduce((sum, [, times]) => sum + times, 0);
  const title = kinds.map(([kind, times]) => `${number(times)} ${kind}`).join(", ");
  return h("span", { class: "bad", title }, number(count));
}
