// Bus page: nodes, addresses and messages of the event bus, and a form to send one.

import { emptyState } from "../components/empty-state.js";
import { panel } from "../components/panel.js";
import { table } from "../components/table.js";
import { tile } from "../components/tile.js";
import { api } from "../lib/api.js";
import { h } from "../lib/dom.js";
import { NO_VALUE, atMost, bytes, number, plural, rate, timeAgo } from "../lib/format.js";
import { refresher } from "../lib/live.js";
import { can } from "../lib/me.js";
import { addressesTable } from "./bus/addresses.js";
import { messageSamples } from "./bus/message-samples.js";
import { messageForm } from "./bus/send-form.js";

export const page = {
  path: "/bus",
  title: "Bus",
  nav: { label: "Bus", icon: "bus", order: 55, key: "b" },

  mount(root, { keys }) {
    const sums = makeSums();
    const nodes = nodesTable();
    const form = can("admin") ? messageForm() : null;
    const list = addressesTable({ onSend: form && form.choose });
    const shown = messageSamples();
    const none = h("div", { hidden: true });
    const found = h(
      "div",
      { class: "pile", hidden: true },
      h("div", { class: "tiles" }, sums.nodes),
      panel("Nodes", { tight: true }, nodes.node),
      panel("Addresses", { aside: list.search, tight: true }, list.node),
      panel("Messages", { aside: shown.button, tight: true }, shown.node),
      form && panel("Send a message", {}, form.node),
    );
    root.append(
      h("header", { class: "page-head" }, h("h1", null, "Bus")),
      none,
      found,
    );
    keys(list.keys);

    async function read(signal) {
      const bus = await api.get("/bus", null, { signal });
      found.hidden = !bus.available;
      none.hidden = bus.available && bus.nodes.length > 0;
      if (!none.hidden && !none.hasChildNodes()) none.append(noBus(bus));
      if (!bus.available) return;
      sums.update(bus);
      nodes.update(bus.nodes);
      await list.read(signal);
    }

    const stop = refresher(read, { minMs: 1_000, everyMs: 2_000 });
    return () => {
      stop();
      shown.stop();
    };
  },
};

function makeSums() {
  const tiles = ["Nodes", "Sent", "Received", "Replies, p95", "Failed requests", "Lost"].map(
    (label) => tile({ label }),
  );
  const [nodes, sent, received, replies, failed, lost] = tiles;

  function update({ nodes: all, total }) {
    const gone = all.reduce((sum, one) => sum + (one.lost ?? 0) + (one.given_up ?? 0), 0);
    const failures = Object.entries(total.failures);
    const count = failures.reduce((sum, [, times]) => sum + times, 0);
    nodes.update({
      value: number(all.length),
      note: plural(total.consumers, "consumer"),
      tone: all.length ? "" : "warn",
    });
    sent.update({ value: rate(total.send_rate), note: `${number(total.sent)} in total` });
    received.update({
      value: rate(total.receive_rate),
      note: `${number(total.received)} in total`,
    });
    replies.update(
      total.latency === null
        ? { value: "–", note: "no recent requests" }
        : {
            value: atMost(total.latency.p95),
            note: `p50 ${atMost(total.latency.p50)}`,
          },
    );
    failed.update({
      value: number(count),
      note: failures.map(([kind, times]) => `${number(times)} ${kind}`).join(", "),
      tone: count ? "warn" : "",
    });
    lost.update({
      value: number(gone),
      note: gone ? "messages did not arrive" : "",
      tone: gone ? "bad" : "",
    });
  }

  return { nodes: tiles.map(({ node }) => node), update };
}

function noBus({ available, reason }) {
  if (!available) {
    return emptyState({
      title: "No event bus",
      text: `${reason[0].toUpperCase()}${reason.slice(1)}.`,
      code: "KUE_URL=redis://localhost:6379/0",
    });
  }
  return emptyState({
    title: "No process has joined the bus",
    text: "A process joins it like this:",
    code: [
      "async with EventBus(RedisCluster(url)) as bus:",
      '    bus.consumer("greeter", greet)',
    ].join("\n"),
  });
}

// -- nodes ------------------------------------------------------------------------

//: Milliseconds without a heartbeat after which a node may be dead.
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
    title: "Requests waiting for a reply",
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
    title: "Messages lost on the way to it, and messages dropped because an outbox was full",
    render: lost,
  },
];

//: Return {node, update(nodes)}.
function nodesTable() {
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
    isQuiet && h("span", { class: "bad" }, " not responding"),
  );
}

function lost({ lost: batches, given_up: messages }) {
  if (batches === null) return NO_VALUE;
  const count = batches + messages;
  return h("span", { class: count > 0 && "bad" }, number(count));
}
