// Preview of a schedule while it is typed: in words, and its next runs.

import { api, isAbort } from "../../lib/api.js";
import { fill, h } from "../../lib/dom.js";
import { time, timeAgo } from "../../lib/format.js";

//: Milliseconds without typing after which it is read.
const PAUSE = 250;
const TIMING = ["every", "cron", "at", "tz", "start", "end", "jitter"];

//: Return {node, update(), stop()} for the controls of a form; *shown* are the names of
//: the fields of each kind, *name* that of the schedule that is changed.
export function preview(controls, shown, name) {
  const node = h("div", { class: "preview", role: "status" });
  let timer = 0;
  let request = null;

  for (const one of TIMING) controls[one].input.addEventListener("input", update);

  function update() {
    window.clearTimeout(timer);
    timer = window.setTimeout(read, PAUSE);
  }

  async function read() {
    request?.abort();
    request = new AbortController();
    const kind = controls.kind.input.value;
    const params = paramsOf(shown[kind]);
    clear();
    if (!params[kind]) {
      fill(node, nothing());
      return;
    }
    try {
      show(await api.get("/schedule-preview", { ...params, name }, { signal: request.signal }));
    } catch (error) {
      if (!isAbort(error)) fill(node, h("span", { class: "fault" }, error.message));
    }
  }

  function paramsOf(names) {
    const wanted = TIMING.filter((one) => names.includes(one));
    return Object.fromEntries(wanted.map((one) => [one, trimmed(controls[one].value())]));
  }

  function clear() {
    for (const one of TIMING) controls[one].setError("");
  }

  function show({ words, upcoming, field, problem }) {
    if (problem) {
      controls[field]?.setError(problem);
      fill(node, controls[field] ? nothing() : h("span", { class: "fault" }, problem));
    } else {
      const times = h("ol", { class: "preview-times" }, upcoming.map(momentItem));
      fill(node, h("b", null, words), upcoming.length ? times : noTimes());
    }
  }

  function stop() {
    window.clearTimeout(timer);
    request?.abort();
  }

  return { node, update, stop };
}

function nothing() {
  return h("span", { class: "faint" }, "The next runs are shown here.");
}

//: Says that a schedule has ended.
export function noTimes() {
  return h("p", { class: "faint" }, "It has no time in the future.");
}

//: A time, and how far it is.
export function momentItem(at) {
  return h("li", null, h("span", null, time(at)), h("span", { class: "faint" }, timeAgo(at)));
}

function trimmed(value) {
  return typeof value === "string" ? value.trim() : value;
}
