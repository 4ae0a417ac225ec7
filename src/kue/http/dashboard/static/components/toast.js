// Short messages in a corner: what was done, what went wrong, how far something is.

import { fill, h } from "../lib/dom.js";
import { icon } from "./icon.js";
import { progressBar } from "./progress-bar.js";

//: Milliseconds that a message stays; errors stay until they are closed or pushed out.
const STAY = { good: 4_000, info: 5_000, bad: 12_000 };
//: Messages shown at once.
const MOST = 4;
const ICONS = { good: "check", info: "info", bad: "warning" };

const shown = [];
let corner = null;

//: toast("Retried", {tone, action: {label, run}, ms}) → {update, progress, close}.
//: *ms* 0 keeps it until it is closed.
export function toast(text, { tone = "info", action = null, ms = STAY[tone] } = {}) {
  const twin = shown.find((one) => one.text === text && !action);
  if (twin) {
    twin.stay();
    return twin.handle;
  }
  const words = h("div", { class: "toast-text" }, text);
  const below = h("div", { class: "toast-below" });
  const buttons = h("div", { class: "toast-actions" });
  const node = h(
    "div",
    { class: "toast", dataset: { tone }, role: tone === "bad" ? "alert" : "status" },
    icon(ICONS[tone] ?? "info"),
    h("div", { class: "toast-body" }, words, below),
    buttons,
    h(
      "button",
      { class: "plain", "aria-label": "Close", onclick: close },
      icon("cross"),
    ),
  );
  let timer = 0;
  const entry = { text, node, stay, handle: { update, progress, act, close, node } };

  function stay(length = ms) {
    window.clearTimeout(timer);
    if (length) timer = window.setTimeout(close, length);
  }
  function close() {
    window.clearTimeout(timer);
    node.remove();
    const index = shown.indexOf(entry);
    if (index >= 0) shown.splice(index, 1);
  }
  //: Say something else; given *options*, also how, and for how long.
  function update(next, options = {}) {
    entry.text = next;
    fill(words, next);
    if (options.tone) {
      node.dataset.tone = options.tone;
      node.firstChild.replaceWith(icon(ICONS[options.tone]));
    }
    if (options.ms !== undefined) stay(options.ms);
  }
  //: Show how far it is; without a total, that it goes on.
  function progress(done, total) {
    fill(below, done === null ? null : progressBar(total ? (100 * done) / total : null));
  }
  function act(next) {
    fill(
      buttons,
      next && h("button", { class: "small", onclick: next.run }, next.label),
    );
  }

  act(action);
  place().append(node);
  shown.push(entry);
  while (shown.length > MOST) shown[0].handle.close();
  stay();
  return entry.handle;
}

//: Tell of an error: what the server said, or what broke.
export function toastProblem(error) {
  const text = error?.detail || error?.message || String(error);
  return toast(text.charAt(0).toUpperCase() + text.slice(1), { tone: "bad" });
}

function place() {
  corner ??= h("div", { class: "toasts", popover: "manual" });
  if (!corner.isConnected) document.body.append(corner);
  // Above dialogs that are open: the last to enter the top layer is above.
  if (corner.showPopover) {
    if (corner.matches(":popover-open")) corner.hidePopover();
    corner.showPopover();
  }
  return corner;
}
