// Toasts: short messages of results, errors and progress.

import { fill, h } from "../lib/dom.js";
import { icon } from "./icon.js";
import { progressBar } from "./progress-bar.js";

//: Milliseconds that a toast stays.
const DURATIONS = { good: 4_000, info: 5_000, bad: 12_000 };
//: Toasts shown at once.
const MAX_SHOWN = 4;
const ICONS = { good: "check", info: "info", bad: "warning" };

const shown = [];
let toasts = null;

//: toast("Retried", {tone, action: {label, run}, ms}) → {update, progress, setAction, close}.
//: *ms* 0 keeps it until it is closed.
export function toast(text, { tone = "info", action = null, ms = DURATIONS[tone] } = {}) {
  const same = shown.find((one) => one.text === text && !action);
  if (same) {
    same.startTimer();
    return same.handle;
  }
  const message = h("div", { class: "toast-text" }, text);
  const below = h("div", { class: "toast-below" });
  const buttons = h("div", { class: "toast-actions" });
  const node = h(
    "div",
    { class: "toast", dataset: { tone }, role: tone === "bad" ? "alert" : "status" },
    icon(ICONS[tone] ?? "info"),
    h("div", { class: "toast-body" }, message, below),
    buttons,
    h(
      "button",
      { class: "plain", "aria-label": "Close", onclick: close },
      icon("cross"),
    ),
  );
  let timer = 0;
  const handle = { update, progress, setAction, close, node };
  const entry = { text, node, startTimer, handle };

  function startTimer(length = ms) {
    window.clearTimeout(timer);
    if (length) timer = window.setTimeout(close, length);
  }
  function close() {
    window.clearTimeout(timer);
    node.remove();
    const index = shown.indexOf(entry);
    if (index >= 0) shown.splice(index, 1);
  }
  //: Change the text and, given *options*, tone and duration.
  function update(next, options = {}) {
    entry.text = next;
    fill(message, next);
    if (options.tone) {
      node.dataset.tone = options.tone;
      node.firstChild.replaceWith(icon(ICONS[options.tone]));
    }
    if (options.ms !== undefined) startTimer(options.ms);
  }
  //: Show the progress; without a total, a busy bar.
  function progress(done, total) {
    fill(below, done === null ? null : progressBar(total ? (100 * done) / total : null));
  }
  function setAction(next) {
    fill(
      buttons,
      next && h("button", { class: "small", onclick: next.run }, next.label),
    );
  }

  setAction(action);
  container().append(node);
  shown.push(entry);
  while (shown.length > MAX_SHOWN) shown[0].handle.close();
  startTimer();
  return entry.handle;
}

//: Show an error: the message of the server, or of the exception.
export function toastProblem(error) {
  const text = error?.detail || error?.message || String(error);
  return toast(text.charAt(0).toUpperCase() + text.slice(1), { tone: "bad" });
}

//: Show *text* once *promise* is fulfilled, or its error; return whether it was.
export async function toastDone(text, promise) {
  try {
    await promise;
    toast(text, { tone: "good" });
    return true;
  } catch (error) {
    toastProblem(error);
    return false;
  }
}

function container() {
  toasts ??= h("div", { class: "toasts", popover: "manual" });
  if (!toasts.isConnected) document.body.append(toasts);
  // Above open dialogs: the last to enter the top layer is above.
  if (toasts.showPopover) {
    if (toasts.matches(":popover-open")) toasts.hidePopover();
    toasts.showPopover();
  }
  return toasts;
}
