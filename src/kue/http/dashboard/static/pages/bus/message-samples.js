// Samples of the messages on the event bus, while the user watches.

import { table } from "../../components/table.js";
import { api, isAbort, report } from "../../lib/api.js";
import { fill, h } from "../../lib/dom.js";
import { NO_VALUE, bytes, exact, time } from "../../lib/format.js";
import { live } from "../../lib/live.js";

//: Milliseconds between two requests.
const POLL = 1_000;
//: Messages that are shown.
const MAX_SHOWN = 100;
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
  let controller = null;
  let last = 0;
  let shown = [];
  const list = table({ columns: COLUMNS, key: ({ id }) => id, caption: "Messages of the bus" });
  list.node.hidden = true;
  const status = h("p", { class: "bus-rest faint", role: "status" }, IDLE);
  const button = h("button", { type: "button", class: "small", onclick: toggle }, "Watch");

  function toggle() {
    if (controller) stop();
    else start();
  }

  function start() {
    controller = new AbortController();
    fill(button, "Stop");
    fill(status, "Messages appear after the next heartbeat of each node.");
    poll(controller.signal);
  }

  function stop() {
    controller?.abort();
    controller = null;
    window.clearTimeout(timer);
    fill(button, "Watch");
    if (!shown.length) fill(status, IDLE);
  }

  async function poll(signal) {
    try {
      if (live.state !== "paused") show(await api.get("/bus/samples", { after: last }, { signal }));
    } catch (error) {
      if (!isAbort(error)) report(error);
    }
    if (!signal.aborted) timer = window.setTimeout(() => poll(signal), POLL);
  }

  function show({ messages, last: newest }) {
    // A restarted server counts from the start.
    if (newest < last) shown = [];
    last = newest;
    if (!messages.length) return;
    shown = [...messages.reverse(), ...shown].slice(0, MAX_SHOWN);
    list.update(shown);
    list.node.hidden = false;
    fill(status);
  }

  // It scrolls, also by keyboard.
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
