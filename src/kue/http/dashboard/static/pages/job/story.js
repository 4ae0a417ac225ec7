// What a job did when: waiting, running and backing off, as stretches of time.

//: Names of the stretches as the page says them.
export const STRETCHES = {
  blocked: "blocked",
  delayed: "delayed",
  waiting: "waited",
  active: "has been running",
  running: "ran",
  failed: "ran and failed",
  backoff: "backed off",
  ahead: "remaining",
  ended: "finished",
  earlier: "earlier, no longer kept",
};

const ENDED_BADLY = new Set(["retry", "failed", "stalled", "cancelled"]);

//: The stretches of a job's life up to *now*, each {kind, from, to, attempt, open}.
//:
//: They follow each other without gaps.  The one that goes on is *open*; what lies
//: after it is what is left of a delay.
export function stretches(job, now) {
  const found = [];
  const add = (kind, from, to, more = {}) => {
    if (to > from || more.open) found.push({ kind, from, to: Math.max(to, from), ...more });
  };
  let at = job.created_at;
  let due = at + (job.delay ?? 0);
  let idle = job.after?.length ? "blocked" : "delayed";
  const wait = (until, more = {}) => {
    // Blocked jobs do not say when the last of the others ended.
    if (idle === "blocked") return add("blocked", at, until, more);
    const turn = Math.min(Math.max(due, at), until);
    add(idle, at, turn);
    return add("waiting", turn, until, more);
  };
  const history = job.history ?? [];
  if ((history[0]?.attempt ?? 1) > 1) idle = "earlier";
  for (const entry of history) {
    const began = entry.started_at;
    if (began !== null && idle === "earlier") add("earlier", at, began);
    else if (began !== null) wait(began);
    else if (entry.outcome === "restarted") add("ended", at, entry.at);
    else wait(entry.at);
    if (began !== null) {
      const kind = ENDED_BADLY.has(entry.outcome) ? "failed" : "running";
      add(kind, began, entry.at, { attempt: entry.attempt });
    }
    at = entry.at;
    due = at + (entry.delay ?? 0);
    idle = entry.outcome === "retry" || entry.outcome === "stalled" ? "backoff" : "delayed";
  }
  if (job.state === "active") {
    wait(job.started_at);
    add("active", job.started_at, now, { attempt: job.attempts, open: true });
  } else if (job.state === "waiting") {
    if (idle === "earlier") idle = "delayed";
    wait(now, { open: true });
  } else if (job.state === "delayed") {
    const kind = idle === "backoff" ? "backoff" : "delayed";
    add(kind, at, now, { open: true });
    add("ahead", now, job.promote_at ?? now);
  } else if (job.state === "blocked") {
    add("blocked", at, now, { open: true });
  }
  return found;
}

//: How long each kind takes in all: a map from kind to ms.
export function totals(found) {
  const sums = new Map();
  for (const { kind, from, to } of found) {
    sums.set(kind, (sums.get(kind) ?? 0) + to - from);
  }
  return sums;
}
