// What happens, as it happens: one stream for the tab, however many parts listen.
//
// Events are handed out once a frame, in arrays.  While the tab is hidden the stream is
// closed; when it is back, and whenever something was missed, everyone is told
// {kind: "lagged"} and reads anew.  Where streams are blocked, that is told regularly.

import { api, isAbort, report } from "./api.js";

//: Milliseconds in which a stream must have said something.
const PATIENCE = 6_000;
//: Milliseconds between ticks without a stream.
const TICK = 5_000;
//: Milliseconds after which a stream that was refused is tried again.
const AGAIN = 15_000;
const LAGGED = { id: "", kind: "lagged", job_id: 0, type: "", at: 0, detail: {} };

class Live {
  constructor() {
    this._listeners = new Set();
    this._watchers = new Set();
    this._state = "away";
    this._waiting = [];
    this._frame = 0;
    this._source = null;
    this._timers = {};
    this._isHeld = false;
    document.addEventListener("visibilitychange", () => this._turn());
  }

  //: "live", "paused" (hidden, or held), "away" (no server, or no store), "polling".
  get state() {
    return this._state;
  }

  //: Call fn(events) for what is wanted; returns a function that ends it.
  on(fn, { types, kinds, jobId } = {}) {
    const listener = { fn, types: wish(types), kinds: wish(kinds), jobId };
    this._listeners.add(listener);
    this._turn();
    return () => this._listeners.delete(listener);
  }

  //: Call fn(state) now and when it changes; returns a function that ends it.
  onState(fn) {
    this._watchers.add(fn);
    fn(this._state);
    return () => this._watchers.delete(fn);
  }

  //: Stop the stream by hand, so that what is shown stands still; or go on.
  hold(isHeld) {
    this._isHeld = isHeld;
    this._turn();
  }

  get isHeld() {
    return this._isHeld;
  }

  //: End the stream, for when nobody is logged in any more.
  stop() {
    this._listeners.clear();
    this._watchers.clear();
    this._close();
  }

  _turn() {
    if (document.hidden || this._isHeld) {
      this._close();
      this._say("paused");
    } else if (!this._source && this._listeners.size) {
      this._open();
    }
  }

  _open() {
    const source = new EventSource(api.url("/events"));
    this._source = source;
    this._timers.patience = window.setTimeout(() => this._poll(), PATIENCE);
    source.onmessage = (message) => this._take(JSON.parse(message.data));
    source.addEventListener("lagged", () => this._take(LAGGED));
    source.addEventListener("store", (message) => {
      this._heard();
      const isUp = JSON.parse(message.data).detail.state === "up";
      // Whatever happened before the stream began was not told.
      if (isUp) this._take(LAGGED);
      this._say(isUp ? "live" : "away");
    });
    source.onerror = () => this._failed(source);
  }

  _failed(source) {
    if (this._source !== source) return;
    if (this._state !== "polling") this._say("away");
    // Refused: the browser does not try again, so we do, and poll meanwhile.
    if (source.readyState === EventSource.CLOSED) {
      this._source = null;
      window.clearTimeout(this._timers.patience);
      this._poll();
      this._timers.again = window.setTimeout(() => this._turn(), AGAIN);
    }
  }

  _poll() {
    if (this._timers.tick) return;
    this._say("polling");
    this._take(LAGGED);
    this._timers.tick = window.setInterval(() => this._take(LAGGED), TICK);
  }

  _heard() {
    window.clearTimeout(this._timers.patience);
    window.clearInterval(this._timers.tick);
    this._timers.tick = undefined;
  }

  _close() {
    this._clear();
    this._source?.close();
    this._source = null;
  }

  _clear() {
    window.clearTimeout(this._timers.patience);
    window.clearTimeout(this._timers.again);
    window.clearInterval(this._timers.tick);
    this._timers = {};
  }

  _say(state) {
    if (state === this._state) return;
    this._state = state;
    for (const watcher of this._watchers) watcher(state);
  }

  _take(event) {
    this._waiting.push(event);
    if (!this._frame) this._frame = window.requestAnimationFrame(() => this._hand());
  }

  _hand() {
    const events = this._waiting;
    this._waiting = [];
    this._frame = 0;
    for (const listener of [...this._listeners]) {
      const wanted = events.filter((event) => wants(listener, event));
      if (wanted.length) listener.fn(wanted);
    }
  }
}

export const live = new Live();

//: Call fn(signal) now, when something wanted happens, and every *everyMs* if given; at
//: most every *minMs*, and never twice at once.  Returns a function that ends it.
export function refresher(fn, { minMs = 1_000, everyMs, types, kinds, jobId } = {}) {
  const end = new AbortController();
  let isRunning = false;
  let isStale = false;
  let last = 0;
  let timer = 0;

  async function run() {
    if (end.signal.aborted) return;
    isRunning = true;
    isStale = false;
    last = Date.now();
    try {
      await fn(end.signal);
    } catch (error) {
      if (!isAbort(error)) report(error);
    }
    isRunning = false;
    if (isStale) soon();
  }

  function soon() {
    isStale = true;
    if (isRunning || timer || end.signal.aborted) return;
    timer = window.setTimeout(again, Math.max(0, last + minMs - Date.now()));
  }

  function again() {
    timer = 0;
    // When the tab is shown again, everyone is told to read anew.
    if (!document.hidden) run();
  }

  function tick() {
    if (!document.hidden && !live.isHeld) soon();
  }

  const off = live.on(soon, { types, kinds, jobId });
  const beat = everyMs ? window.setInterval(tick, everyMs) : 0;
  run();
  return () => {
    end.abort();
    off();
    window.clearTimeout(timer);
    window.clearInterval(beat);
  };
}

function wish(wanted) {
  return wanted?.length ? new Set(wanted) : null;
}

function wants({ types, kinds, jobId }, event) {
  if (event.kind === "lagged") return true;
  return (
    (!types || types.has(event.type)) &&
    (!kinds || kinds.has(event.kind)) &&
    (!jobId || event.job_id === jobId)
  );
}
