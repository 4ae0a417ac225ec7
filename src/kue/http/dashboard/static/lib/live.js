// Live updates: one event stream per tab, shared by all listeners.
//
// Events are delivered once per frame, in arrays.  While the tab is hidden the stream is
// closed; when it is shown again, and whenever events were missed, every listener gets
// {kind: "lagged"} and reads again.  Where streams are blocked, that happens regularly.
//
// A silent server is probed, so that a lost connection shows within seconds.

import { api, isAbort, report } from "./api.js";
import { prefix } from "./config.js";

//: Milliseconds within which a stream must send its first event.
const STREAM_TIMEOUT = 6_000;
//: Milliseconds between polls without a stream.
const POLL = 5_000;
//: Milliseconds after which a rejected stream is tried again.
const RETRY = 15_000;
//: Milliseconds without a response after which the server is probed, the timeout of a
//: probe, and how often this is checked; a failed request is followed by a probe at once.
const SILENCE = 6_000;
const PROBE_TIMEOUT = 4_000;
const CHECK = 2_000;
//: Milliseconds without a connection before it counts as lost: the server may restart.
const GRACE = 2_000;
const LAGGED = { id: "", kind: "lagged", job_id: 0, type: "", at: 0, detail: {} };

class Live {
  constructor() {
    this._listeners = new Set();
    this._watchers = new Set();
    this._state = "away";
    this._isStreaming = false;
    this._isStoreUp = true;
    this._respondedAt = Date.now();
    this._lostAt = null;
    this._probe = null;
    this._queued = [];
    this._frame = 0;
    this._source = null;
    this._timers = {};
    this._isPaused = false;
    document.addEventListener("visibilitychange", () => this._update());
    window.setInterval(() => this._checkSilence(), CHECK);
  }

  //: "live", "paused" (by the user, or hidden), "polling", "away" (connecting), or "lost":
  //: no connection to the server, or from it to its store, for some seconds.
  get state() {
    return this._state;
  }

  //: When the data shown was last known to be current, Unix ms; null unless "lost".
  get lostAt() {
    return this._state === "lost" ? this._lostAt : null;
  }

  get isStoreUp() {
    return this._isStoreUp;
  }

  //: Call fn(events) for matching events; returns a function that unsubscribes.
  on(fn, { types, kinds, jobIds } = {}) {
    const listener = { fn, types: asSet(types), kinds: asSet(kinds), jobs: asSet(jobIds) };
    this._listeners.add(listener);
    this._update();
    return () => this._listeners.delete(listener);
  }

  //: Call fn(state) now and when it changes; returns a function that unsubscribes.
  onState(fn) {
    this._watchers.add(fn);
    fn(this._state);
    return () => this._watchers.delete(fn);
  }

  //: Pause or resume all updates, on the user's request.
  togglePause() {
    this._isPaused = !this._isPaused;
    this._update();
  }

  //: Whether the user paused updates.
  get isPaused() {
    return this._isPaused;
  }

  //: End the stream, after a logout.
  stop() {
    this._listeners.clear();
    this._watchers.clear();
    this._close();
  }

  // -- whether the server responds -----------------------------------------------

  //: Note that the server responded.
  noteResponse() {
    this._respondedAt = Date.now();
    if (this._isSuspended || !this._isStoreUp) return;
    if (this._isStreaming) this._setState("live");
    else if (this._timers.poll) this._setState("polling");
  }

  //: Probe the server; false, and state "away", when it does not respond.
  isReachable() {
    this._probe ??= this._probeServer().finally(() => (this._probe = null));
    return this._probe;
  }

  async _probeServer() {
    const signal = AbortSignal.timeout(PROBE_TIMEOUT);
    const options = { method: "HEAD", cache: "no-store", signal };
    try {
      const { status } = await fetch(`${prefix}/assets/favicon.svg`, options);
      // From a proxy, when the server behind it is down.
      if (status !== 502 && status !== 504) {
        this.noteResponse();
        return true;
      }
    } catch {
      // No response, or none in time.
    }
    this._onLost();
    return false;
  }

  _checkSilence() {
    const isWatched = this._listeners.size && !this._isSuspended;
    if (isWatched && Date.now() - this._respondedAt > SILENCE) this.isReachable();
  }

  _onLost() {
    if (this._isSuspended) return;
    // A stream over a dead connection would stay open for hours: open another.
    if (this._isStreaming) {
      this._close();
      this._update();
    }
    this._isStoreUp = true;
    this._setAway();
  }

  get _isSuspended() {
    return document.hidden || this._isPaused;
  }

  // -- the stream ----------------------------------------------------------------

  _update() {
    if (this._isSuspended) {
      this._close();
      this._setState("paused");
    } else if (!this._source && this._listeners.size) {
      this._open();
    }
  }

  _open() {
    const source = new EventSource(api.url("/events"));
    this._source = source;
    this._timers.start = window.setTimeout(() => this._poll(), STREAM_TIMEOUT);
    source.onmessage = (message) => {
      this._respondedAt = Date.now();
      this._receive(JSON.parse(message.data));
    };
    source.addEventListener("lagged", () => this._receive(LAGGED));
    source.addEventListener("store", (message) => {
      this._streamStarted(JSON.parse(message.data).detail.state === "up");
    });
    source.onerror = () => this._streamFailed(source);
  }

  _streamStarted(isStoreUp) {
    window.clearTimeout(this._timers.start);
    window.clearInterval(this._timers.poll);
    this._timers.poll = undefined;
    this._isStreaming = true;
    this._isStoreUp = isStoreUp;
    if (!isStoreUp) {
      this._setAway();
      return;
    }
    this.noteResponse();
    // Events before the start of the stream were missed.
    this._receive(LAGGED);
  }

  _streamFailed(source) {
    if (this._source !== source) return;
    this._isStreaming = false;
    this._isStoreUp = true;
    if (this._state !== "polling") this._setAway();
    // Rejected: the browser does not try again, so we do, and poll in the meantime.
    if (source.readyState === EventSource.CLOSED) {
      this._source = null;
      window.clearTimeout(this._timers.start);
      this._poll();
      this._timers.retry = window.setTimeout(() => this._update(), RETRY);
    }
  }

  _poll() {
    if (this._timers.poll) return;
    this._timers.poll = window.setInterval(() => this._receive(LAGGED), POLL);
    this._receive(LAGGED);
    // Its response sets the state to "polling".
    this.isReachable();
  }

  _close() {
    for (const timer of Object.values(this._timers)) window.clearTimeout(timer);
    this._timers = {};
    this._source?.close();
    this._source = null;
    this._isStreaming = false;
    // The next stream starts with a full read.
    this._queued = [];
  }

  _setAway() {
    if (this._state === "lost") {
      this._notify();
      return;
    }
    if (this._state !== "away" || this._lostAt === null) this._lostAt = this._respondedAt;
    this._timers.lost ??= window.setTimeout(() => this._setState("lost"), GRACE);
    this._setState("away");
  }

  _setState(state) {
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

  _receive(event) {
    this._queued.push(event);
    if (!this._frame) this._frame = window.requestAnimationFrame(() => this._deliver());
  }

  _deliver() {
    const events = this._queued;
    this._queued = [];
    this._frame = 0;
    for (const listener of [...this._listeners]) {
      const wanted = events.filter((event) => matches(listener, event));
      if (wanted.length) listener.fn(wanted);
    }
  }
}

export const live = new Live();

//: Call fn(signal) now, on every matching event, and every *everyMs* if given, while isDue();
//: at most every *minMs* (or what it returns), and never concurrently.  Returns a function
//: that stops it.
//:
//: While updates are paused only the first call is made; a later one that is in flight by
//: then is aborted.
export function refresher(
  fn,
  { minMs = 1_000, everyMs, isDue = () => true, types, kinds, jobIds } = {},
) {
  let request = null;
  let isEnded = false;
  let isFirst = true;
  let isStale = false;
  let last = 0;
  let timer = 0;

  async function run() {
    if (isEnded) return;
    request = new AbortController();
    isStale = false;
    last = Date.now();
    try {
      await fn(request.signal);
      live.noteResponse();
    } catch (error) {
      if (!isAbort(error)) reportUnlessLost(error);
    }
    request = null;
    isFirst = false;
    if (isStale) schedule();
  }

  function schedule() {
    isStale = true;
    if (request || timer || isEnded) return;
    const pause = typeof minMs === "function" ? minMs() : minMs;
    timer = window.setTimeout(runScheduled, Math.max(0, last + pause - Date.now()));
  }

  function runScheduled() {
    timer = 0;
    // When the tab is shown or updates are resumed, every page reads again.
    if (!isSuspended()) run();
  }

  function tick() {
    if (!isSuspended() && isDue()) schedule();
  }

  function isSuspended() {
    return document.hidden || live.isPaused;
  }

  function onState() {
    if (live.isPaused && !isFirst) request?.abort();
  }

  const off = live.on(schedule, { types, kinds, jobIds });
  const offState = live.onState(onState);
  const interval = everyMs ? window.setInterval(tick, everyMs) : 0;
  run();
  return () => {
    isEnded = true;
    request?.abort();
    off();
    offState();
    window.clearTimeout(timer);
    window.clearInterval(interval);
  };
}

//: Report an error, unless the page already shows that the connection is lost.
async function reportUnlessLost(error) {
  const isOutage = error.status === 0 || error.status >= 502;
  if (error.status === 0) await live.isReachable();
  const isKnown = isOutage && (live.state === "away" || live.state === "lost");
  if (!isKnown) report(error);
}

function asSet(wanted) {
  return wanted?.length ? new Set(wanted) : null;
}

function matches({ types, kinds, jobs }, event) {
  if (event.kind === "lagged") return true;
  return (
    (!types || types.has(event.type)) &&
    (!kinds || kinds.has(event.kind)) &&
    (!jobs || jobs.has(event.job_id))
  );
}
