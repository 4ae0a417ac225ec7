// What happens, as it happens: one stream for the tab, however many parts listen.
//
// Events are handed out once a frame, in arrays.  While the tab is hidden the stream is
// closed; when it is back, and whenever something was missed, every listener gets
// {kind: "lagged"} and reads again.  Where streams are blocked, that happens regularly.
//
// A server that went quiet is probed, so that a lost connection shows within seconds.

import { api, isAbort, report } from "./api.js";
import { prefix } from "./config.js";

//: Milliseconds in which a stream must have said something.
const PATIENCE = 6_000;
//: Milliseconds between ticks without a stream.
const TICK = 5_000;
//: Milliseconds after which a stream that was refused is tried again.
const AGAIN = 15_000;
//: Milliseconds without an answer after which the server is probed, and how long it may
//: take to answer then; a request that failed is followed by a probe at once.
const QUIET = 6_000;
const PROBE = 4_000;
const LOOK = 2_000;
//: Milliseconds without a connection that need no notice: a server restarts, say.
const GRACE = 2_000;
const LAGGED = { id: "", kind: "lagged", job_id: 0, type: "", at: 0, detail: {} };

class Live {
  constructor() {
    this._listeners = new Set();
    this._watchers = new Set();
    this._state = "away";
    this._isStreaming = false;
    this._isStoreUp = true;
    this._heardAt = Date.now();
    this._lostAt = null;
    this._probe = null;
    this._waiting = [];
    this._frame = 0;
    this._source = null;
    this._timers = {};
    this._isHeld = false;
    document.addEventListener("visibilitychange", () => this._turn());
    window.setInterval(() => this._look(), LOOK);
  }

  //: "live", "paused" (hidden, or held), "polling", "away" (connecting), or "lost": there
  //: has been no connection to the server, or from it to its store, for some seconds.
  get state() {
    return this._state;
  }

  //: When what is shown was last known to be true, Unix ms; null unless "lost".
  get lostAt() {
    return this._state === "lost" ? this._lostAt : null;
  }

  get isStoreUp() {
    return this._isStoreUp;
  }

  //: Call fn(events) for what is wanted; returns a function that ends it.
  on(fn, { types, kinds, jobIds } = {}) {
    const listener = { fn, types: wish(types), kinds: wish(kinds), jobs: wish(jobIds) };
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

  // -- whether the server answers ------------------------------------------------

  //: Note that the server answered.
  heard() {
    this._heardAt = Date.now();
    if (this._isResting || !this._isStoreUp) return;
    if (this._isStreaming) this._say("live");
    else if (this._timers.tick) this._say("polling");
  }

  //: Ask the server for a sign of life; false, and "away", when there is none.
  isReachable() {
    this._probe ??= this._ask().finally(() => (this._probe = null));
    return this._probe;
  }

  async _ask() {
    const options = { method: "HEAD", cache: "no-store", signal: AbortSignal.timeout(PROBE) };
    try {
      const { status } = await fetch(`${prefix}/assets/favicon.svg`, options);
      // A proxy answers for a server that is gone.
      if (status !== 502 && status !== 504) {
        this.heard();
        return true;
      }
    } catch {
      // No answer, or none in time.
    }
    this._lose();
    return false;
  }

  _look() {
    const isWatched = this._listeners.size && !this._isResting;
    if (isWatched && Date.now() - this._heardAt > QUIET) this.isReachable();
  }

  _lose() {
    if (this._isResting) return;
    // A stream over a dead connection would stay open for hours: begin another.
    if (this._isStreaming) {
      this._close();
      this._turn();
    }
    this._isStoreUp = true;
    this._away();
  }

  get _isResting() {
    return document.hidden || this._isHeld;
  }

  // -- the stream ----------------------------------------------------------------

  _turn() {
    if (this._isResting) {
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
    source.onmessage = (message) => {
      this._heardAt = Date.now();
      this._take(JSON.parse(message.data));
    };
    source.addEventListener("lagged", () => this._take(LAGGED));
    source.addEventListener("store", (message) => {
      this._began(JSON.parse(message.data).detail.state === "up");
    });
    source.onerror = () => this._failed(source);
  }

  _began(isStoreUp) {
    window.clearTimeout(this._timers.patience);
    window.clearInterval(this._timers.tick);
    this._timers.tick = undefined;
    this._isStreaming = true;
    this._isStoreUp = isStoreUp;
    if (!isStoreUp) {
      this._away();
      return;
    }
    this.heard();
    // What happened before the stream began was not received.
    this._take(LAGGED);
  }

  _failed(source) {
    if (this._source !== source) return;
    this._isStreaming = false;
    this._isStoreUp = true;
    if (this._state !== "polling") this._away();
    // Refused: the browser does not try again, so we do, and poll in the meantime.
    if (source.readyState === EventSource.CLOSED) {
      this._source = null;
      window.clearTimeout(this._timers.patience);
      this._poll();
      this._timers.again = window.setTimeout(() => this._turn(), AGAIN);
    }
  }

  _poll() {
    if (this._timers.tick) return;
    this._timers.tick = window.setInterval(() => this._take(LAGGED), TICK);
    this._take(LAGGED);
    // The answer makes it "polling".
    this.isReachable();
  }

  _close() {
    for (const timer of Object.values(this._timers)) window.clearTimeout(timer);
    this._timers = {};
    this._source?.close();
    this._source = null;
    this._isStreaming = false;
    // Whatever comes next begins with a reading of everything.
    this._waiting = [];
  }

  _away() {
    if (this._state === "lost") {
      this._notify();
      return;
    }
    if (this._state !== "away" || this._lostAt === null) this._lostAt = this._heardAt;
    this._timers.lost ??= window.setTimeout(() => this._say("lost"), GRACE);
    this._say("away");
  }

  _say(state) {
    if (state !== "away") {
      window.clearTimeout(this._timers.lost);
      this._timers.lost = undefined;
    }
    if (state === this._state) return;
    this._state = state;
    this._notify();
  }

  _notify() {
    for (const watcher of this._watchers) watcher(this._state);
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
//: most every *minMs* (or what it returns), and never twice at once.  Returns a function
//: that ends it.
//:
//: While updates are paused only the first call is made; an answer to a later one that is
//: on its way by then is not shown.
export function refresher(fn, { minMs = 1_000, everyMs, types, kinds, jobIds } = {}) {
  let question = null;
  let isEnded = false;
  let isFirst = true;
  let isStale = false;
  let last = 0;
  let timer = 0;

  async function run() {
    if (isEnded) return;
    question = new AbortController();
    isStale = false;
    last = Date.now();
    try {
      await fn(question.signal);
      live.heard();
    } catch (error) {
      if (!isAbort(error)) blame(error);
    }
    question = null;
    isFirst = false;
    if (isStale) soon();
  }

  function soon() {
    isStale = true;
    if (question || timer || isEnded) return;
    const pause = typeof minMs === "function" ? minMs() : minMs;
    timer = window.setTimeout(again, Math.max(0, last + pause - Date.now()));
  }

  function again() {
    timer = 0;
    // When the tab is shown again, or resumed, every page reads again.
    if (!isResting()) run();
  }

  function tick() {
    if (!isResting()) soon();
  }

  function isResting() {
    return document.hidden || live.isHeld;
  }

  function stand() {
    if (live.isHeld && !isFirst) question?.abort();
  }

  const off = live.on(soon, { types, kinds, jobIds });
  const offState = live.onState(stand);
  const beat = everyMs ? window.setInterval(tick, everyMs) : 0;
  run();
  return () => {
    isEnded = true;
    question?.abort();
    off();
    offState();
    window.clearTimeout(timer);
    window.clearInterval(beat);
  };
}

//: Report an error, unless it is one of many signs that the connection is lost.
async function blame(error) {
  const isOutage = error.status === 0 || error.status >= 502;
  if (error.status === 0) await live.isReachable();
  const isKnown = isOutage && (live.state === "away" || live.state === "lost");
  if (!isKnown) report(error);
}

function wish(wanted) {
  return wanted?.length ? new Set(wanted) : null;
}

function wants({ types, kinds, jobs }, event) {
  if (event.kind === "lagged") return true;
  return (
    (!types || types.has(event.type)) &&
    (!kinds || kinds.has(event.kind)) &&
    (!jobs || jobs.has(event.job_id))
  );
}
