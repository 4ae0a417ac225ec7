// Stream of a job: what it sends while it runs, as it comes.

import { FINAL } from "../../components/job-state.js";
import { fill, h } from "../../lib/dom.js";
import { live } from "../../lib/live.js";

//: Characters that are shown; of a longer stream, the newest.
const SHOWN = 200_000;

//: A panel's content, with the stream of job *id*; *onFirst* is called once there is
//: something to show.
//:
//: `follow(state)` sets the state of the job, and so whether to expect more; `stop()` ends
//: it.
export function streamView(api, id, onFirst) {
  const text = h("pre", { class: "log stream", tabindex: "0", "aria-label": "Stream" });
  const note = h("p", { class: "log-note", role: "status" });
  const node = h("div", { class: "log-panel" }, text, note);

  let state = "";
  let source = null;
  let lastId = "";
  let hasEnded = false;
  let waiting = "";
  let frame = 0;

  function open() {
    const isExpected = state === "active" || (FINAL.includes(state) && !hasEnded);
    if (source || !isExpected || live.state === "paused") return;
    hasEnded = false;
    source = new EventSource(api.url(`/jobs/${id}/stream`, { after: lastId }));
    source.onmessage = ({ data }) => add(JSON.parse(data));
    // Refused: the next look at the job tries again.
    source.onerror = () => source?.readyState === EventSource.CLOSED && close();
    source.addEventListener("restart", restart);
    source.addEventListener("end", () => {
      hasEnded = true;
      close();
    });
  }

  function close() {
    source?.close();
    source = null;
  }

  function add(chunk) {
    lastId = chunk.id;
    const isText = typeof chunk.value === "string";
    waiting += isText ? chunk.value : `${startOfLine()}${JSON.stringify(chunk.value)}\n`;
    // Many chunks are drawn at once.
    frame ||= requestAnimationFrame(draw);
  }

  //: Values that are not text have a line each.
  function startOfLine() {
    const before = waiting || text.textContent;
    return before && !before.endsWith("\n") ? "\n" : "";
  }

  function draw() {
    frame = 0;
    onFirst();
    const isAtEnd = text.scrollHeight - text.scrollTop - text.clientHeight < 24;
    // Appended, so that selected text stays selected.
    text.append(waiting);
    waiting = "";
    cut();
    if (isAtEnd) text.scrollTop = text.scrollHeight;
  }

  function cut() {
    const all = text.textContent;
    if (all.length <= SHOWN) return;
    fill(text, all.slice(-SHOWN / 2));
    note.textContent = "Only the end is shown.";
  }

  function restart() {
    waiting = "";
    fill(text);
    note.textContent = "The job was started again.";
  }

  const off = live.onState((now) => (now === "paused" ? close() : open()));
  return {
    node,
    follow(now) {
      state = now;
      open();
    },
    stop() {
      off();
      close();
      cancelAnimationFrame(frame);
    },
  };
}
