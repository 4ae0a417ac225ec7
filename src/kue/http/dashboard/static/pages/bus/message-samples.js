// Some of the messages that pass the bus, as long as someone looks.

import { table } from "../../components/table.js";
import { api, isAbort, report } from "../../lib/api.js";
import { fill, h } from "../../lib/dom.js";
import { NO_VALUE, bytes, exact, time } from "../../lib/format.js";
import { live } from "../../lib/live.js";

//: Milliseconds between two looks.
const EVERY = 1_000;
//: Messages that are shown.
const MOST = 100;
const IDLE =
  "Watch some of the messages: up to 20 per second from each node, with secrets hidden.";

const COLUMNS = [
  {
    key: "at",
    label: "When",
    class: "nowrap",
    render: ({ at }) => h("time", { title: exact(at) }, time(at)),
  },
  { key: "kind", label: "Kind", render: ({ kind }) => h("span", { class: "mark" }, kind) },
  {
    key: "address",
    label: "Address",
    class: "bus-address",
    render: ({ address, node }) =>
      h("span", { class: "mono wrap", title: `from node ${node}` }, address),
  },
  { key: "size", label: "Size", end: true, class: "nowrap", render: ({ size }) => bytes(size) },
  {
    key: "headers",
    label: "Headers",
    render: ({ headers }) => h("span", { class: "wrap" }, headers.join(", ") || NO_VALUE),
  },
  { key: "body", label: "Body", class: "bus-body", render: body },
];

//: Return {node, button, stop()}.
export function messageSamples() {
  let timer = 0;
  let ending = null;
  let last = 0;
  let shown = [];
  const list = table({ columns: COLUMNS, key: ({ id }) => id, caption: "Messages of the bus" });
  list.node.hidden = true;
  const status = h("p", { class: "bus-rest faint", role: "status" }, IDLE);
  const button = h("button", { type: "button", class: "small", onclick: turn }, "Watch");

  function turn() {
    if (ending) stop();
    else start();
  }

  function start() {
    ending = new AbortController();
    fill(button, "Stop");
    fill(status, "Messages appear from the next heartbeat of each node on.");
    look(ending.signal);
  }

  function stop() {
    ending?.abort();
    ending = null;
    window.clearTimeout(timer);
    fill(button, "Watch");
    if (!shown.length) fill(status, IDLE);
  }

  async function look(signal) {
    try {
      if (live.state !== "paused") take(await api.get("/bus/samples", { after: last }, { signal }));
    } catch (error) {
      if (!isAbort(error)) report(error);
    }
    if (!signal.aborted) timer = window.setTimeout(() => look(signal), EVERY);
  }

  function take({ messages, last: newest }) {
    // A server that began anew counts from the start.
    if (newest < last) shown = [];
    last = newest;
    if (!messages.length) return;
    shown = [...messages.reverse(), ...shown].slice(0, MOST);
    list.update(shown);
    list.node.hidden = false;
    fill(status);
  }

  // It scrolls, also by keys.
  const node = h(
    "div",
    { class: "as-cards bus-samples", role: "group", "aria-label": "Messages", tabindex: 0 },
    list.node,
    status,
  );
  return { node, button, stop };
}

function body({ body: text, codec, size }) {
  if (text === "" && size > 0) return h("span", { class: "faint" }, codec);
  return h("code", { class: "wrap" }, text || NO_VALUE);
}
