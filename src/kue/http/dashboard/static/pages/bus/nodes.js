// The processes that have joined the bus.

import { table } from "../../components/table.js";
import { h } from "../../lib/dom.js";
import { NOTHING, bytes, number, rate, timeAgo } from "../../lib/format.js";

//: Milliseconds of silence after which a node may be dead.
const SILENT = 2_500;

const COLUMNS = [
  { key: "name", label: "Node", render: ({ name }) => h("span", { class: "mono wrap" }, name) },
  { key: "process", label: "Process", render: process },
  { key: "since", label: "Joined", class: "nowrap", render: ({ since }) => timeAgo(since) },
  { key: "consumers", label: "Consumers", end: true, render: ({ flow }) => number(flow?.consumers) },
  { key: "out", label: "Sent", end: true, render: ({ flow }) => rate(flow?.send_rate) },
  { key: "in", label: "Received", end: true, render: ({ flow }) => rate(flow?.receive_rate) },
  {
    key: "waiting",
    label: "Waiting",
    end: true,
    title: "Requests that wait for their reply",
    render: ({ waiting }) => number(waiting),
  },
  {
    key: "traffic",
    label: "Bytes out / in",
    end: true,
    class: "nowrap",
    render: (one) => `${bytes(one.bytes_out)} / ${bytes(one.bytes_in)}`,
  },
  {
    key: "lost",
    label: "Lost",
    end: true,
    title: "Messages that did not reach it, and those it had no room to send",
    render: lost,
  },
];

//: Return {node, update(nodes)}.
export function nodesTable() {
  const list = table({
    columns: COLUMNS,
    key: ({ name }) => name,
    caption: "Nodes of the bus",
  });
  list.node.classList.add("carded");
  return { node: list.node, update: list.update };
}

function process({ host, pid, version, silent_ms: silent }) {
  if (host === null) return h("span", { class: "faint" }, "no report yet");
  const words = [host, `pid ${pid}`].filter(Boolean).join(", ");
  const isQuiet = silent > SILENT;
  return h(
    "span",
    { class: "wrap", title: version ? `Kue ${version}` : null },
    words,
    isQuiet && h("span", { class: "bad" }, " does not answer"),
  );
}

function lost({ lost: batches, given_up: messages }) {
  if (batches === null) return NOTHING;
  const count = batches + messages;
  return h("span", { class: count > 0 && "bad" }, number(count));
}
