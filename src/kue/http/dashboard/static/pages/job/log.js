// Log of a job: followed while it runs, filtered by level, attempt and text.

import { FINAL } from "../../components/job-state.js";
import { fill, h } from "../../lib/dom.js";
import { time } from "../../lib/format.js";
import { live } from "../../lib/live.js";

const PAGE = 200;
//: Lines that the store keeps; older ones are dropped, which moves all others.
const KEPT = 1000;
const FOLLOW_MS = 1000;
const LEVELS = ["debug", "info", "warning", "error"];

//: A panel with the log of job *id*.
//:
//: `follow(state)` sets the state of the job, and so whether to expect more lines;
//: `refresh()` reads at once; `stop()` ends it.
export function logPanel(api, id) {
  const level = h(
    "select",
    { "aria-label": "Level", onchange: draw },
    h("option", { value: "" }, "All levels"),
    LEVELS.map((name) => h("option", { value: name }, `${name} and above`)),
  );
  const attempt = h("select", { "aria-label": "Attempt", hidden: true, onchange: draw });
  const search = h("input", {
    type: "search",
    placeholder: "Search the log",
    "aria-label": "Search the log",
    oninput: draw,
  });
  const following = h("input", { type: "checkbox", checked: true, onchange: toEnd });
  const list = h("div", {
    class: "log",
    role: "log",
    tabindex: "0",
    "aria-label": "Log",
    onscroll: onScroll,
  });
  const note = h("p", { class: "log-note", role: "status" });
  const tools = h(
    "div",
    { class: "log-tools" },
    level,
    attempt,
    search,
    h("label", { class: "check" }, following, " Follow"),
  );
  const node = h("div", { class: "log-panel" }, tools, list, note);

  let lines = [];
  let drawn = [];
  let drawnWithAttempt = false;
  let timer = 0;
  let isActive = false;
  let isFinished = false;
  let isStopped = false;
  let reading = null;
  //: Whether lines were read but not shown, because updates were paused.
  let isBehind = false;

  async function readMore() {
    const known = lines.length;
    const last = lines.at(-1);
    const found = await readFrom(Math.min(known, KEPT - PAGE));
    isBehind = live.isPaused && drawn.length > 0;
    if (isBehind) return false;
    if (known < KEPT - PAGE) {
      lines.push(...found);
    } else {
      lines = merged(lines, found);
    }
    return lines.length > known || !isSame(lines.at(-1), last);
  }

  async function readFrom(start) {
    const found = [];
    let next = start;
    while (next !== null && found.length < KEPT) {
      const answer = await api.get(`/jobs/${id}/logs`, { start: next, limit: PAGE });
      found.push(...answer.lines);
      next = answer.next;
    }
    return found;
  }

  async function read() {
    try {
      if (await readMore()) draw();
      else if (!lines.length) draw();
    } catch (problem) {
      if (problem.status === 404) return;
      note.textContent = `Cannot read the log: ${problem.message}`;
    }
  }

  //: One read at a time; a call during a read starts another after it.
  function refresh() {
    reading = (reading ?? Promise.resolve()).then(() => (isStopped ? null : read()));
    return reading;
  }

  //: Read again after a while; further calls do not postpone it.
  function tick() {
    if (timer || isStopped || !isActive) return;
    timer = setTimeout(async () => {
      if (live.state !== "paused") await refresh();
      timer = 0;
      tick();
    }, FOLLOW_MS);
  }

  function draw() {
    const wanted = lines.filter(isWanted);
    const runs = [...new Set(lines.map((line) => line.attempt))];
    offerAttempts(attempt, runs);
    show(wanted, runs.length > 1);
    if (!lines.length) {
      note.textContent = isFinished
        ? "No log lines. Logged and printed lines are kept here."
        : "No log lines yet. Logged and printed lines appear here.";
    } else if (wanted.length < lines.length) {
      note.textContent = `${wanted.length} of ${lines.length} lines`;
    } else {
      note.textContent = lines.length >= KEPT ? `The newest ${KEPT} lines are kept.` : "";
    }
    list.hidden = !lines.length;
    toEnd();
  }

  //: New lines are appended, so that selected text stays selected.
  function show(wanted, withAttempt) {
    const isContinued =
      withAttempt === drawnWithAttempt &&
      drawn.length <= wanted.length &&
      drawn.every((line, number) => line === wanted[number]);
    const fresh = isContinued ? wanted.slice(drawn.length) : wanted;
    if (!isContinued) fill(list);
    list.append(...fresh.map((line) => row(line, withAttempt)));
    drawn = wanted;
    drawnWithAttempt = withAttempt;
  }

  function isWanted(line) {
    const least = LEVELS.indexOf(level.value);
    if (least > 0 && rank(line.level) < least) return false;
    if (attempt.value && String(line.attempt) !== attempt.value) return false;
    return line.text.toLowerCase().includes(search.value.toLowerCase());
  }

  function toEnd() {
    if (following.checked) list.scrollTop = list.scrollHeight;
  }

  function onScroll() {
    const rest = list.scrollHeight - list.scrollTop - list.clientHeight;
    // Scrolling up stops following; scrolling to the end resumes it.
    following.checked = rest < 24;
  }

  refresh();
  return {
    node,
    search,
    refresh,
    follow(state) {
      isActive = state === "active";
      isFinished = FINAL.includes(state);
      // The log may have been read before it was laid out.
      toEnd();
      if (isBehind) refresh();
      tick();
    },
    stop() {
      isStopped = true;
      clearTimeout(timer);
    },
  };
}

function isSame(one, other) {
  if (!one || !other) return one === other;
  return one.at === other.at && one.text === other.text && one.attempt === other.attempt;
}

//: Merge *old* and the newest lines, which overlap unless there are many new ones.
function merged(old, newest) {
  const first = newest[0];
  if (!first) return old;
  let from = old.length - 1;
  while (from >= 0 && !isSame(old[from], first)) from -= 1;
  const kept = from < 0 ? [] : old.slice(0, from);
  return [...kept, ...newest].slice(-KEPT);
}

function rank(level) {
  const name = { warn: "warning", critical: "error", fatal: "error" }[level] ?? level;
  const found = LEVELS.indexOf(name);
  return found < 0 ? 1 : found;
}

function offerAttempts(select, runs) {
  const values = ["", ...runs.map(String)];
  const known = [...select.options].map((option) => option.value);
  select.hidden = runs.length < 2;
  if (values.join() === known.join()) return;
  const chosen = select.value;
  fill(
    select,
    values.map((value) =>
      h("option", { value }, value === "" ? "All attempts" : `Attempt ${value}`),
    ),
  );
  select.value = values.includes(chosen) ? chosen : "";
}

function row(line, withAttempt) {
  const name = LEVELS[rank(line.level)];
  return h(
    "div",
    { class: `log-line log-${name}` },
    h("span", { class: "log-time", title: line.at ? time(line.at) : "" }, clock(line.at)),
    h("span", { class: "log-level" }, line.level || "info"),
    withAttempt && h("span", { class: "log-attempt" }, `#${line.attempt}`),
    h("span", { class: "log-text" }, line.text),
  );
}

function clock(ms) {
  if (!ms) return "";
  const date = new Date(ms);
  const two = (number) => String(number).padStart(2, "0");
  const parts = [date.getHours(), date.getMinutes(), date.getSeconds()].map(two);
  return `${parts.join(":")}.${String(date.getMilliseconds()).padStart(3, "0")}`;
}
