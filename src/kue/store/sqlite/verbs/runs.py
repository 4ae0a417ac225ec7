"""Runs: claimed, begun, reported on, and settled once each, by fencing token."""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from kue.model import retry_policy
from kue.model.events import Kind
from kue.model.job import BEGAN, Completed, State
from kue.model.names import quote
from kue.store.codec import begun
from kue.store.sqlite import dependencies, promotion, transitions, unique_keys
from kue.store.sqlite.rows import (
    JobRow,
    columns_of,
    fetch,
    history_in,
    job_of,
    read_within,
    rows_of,
    shown,
    state_rows_of,
    story_of,
)
from kue.store.sqlite.verb_transaction import Transaction, as_json
from kue.store.sqlite.verbs import limits, named_limits, workers
from kue.store.validation import InvalidCall
from kue.store.values import (
    MAX_BATCH,
    MAX_CALL_BYTES,
    MAX_LOG_LINES,
    MAX_LOG_TEXT,
    Claimed,
    ClaimRequest,
    Result,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kue.model.job import Attempt, Ending, Job
    from kue.store.sqlite.rows import StateRow
    from kue.store.values import LogLine, Outcome, Progress

#: Extra jobs of a type that are read once some had to be set aside …
LOOKAHEAD = 200
#: … and how often a claim reads; more is left to the next claim.
ROUNDS = 10

UNUSABLE = "its record is damaged and cannot be run; run kue doctor for details"

_LAST = "SELECT seq FROM claims WHERE lane = ?"
_REMEMBER = """
INSERT INTO claims (lane, seq, at) VALUES (?, ?, ?)
ON CONFLICT DO UPDATE SET seq = excluded.seq, at = excluded.at
"""
_BEST = """
SELECT json_group_array(json_array(rank, id)) FROM (
    SELECT rank, id FROM jobs INDEXED BY jobs_ready
    WHERE state = 'waiting' AND held = 0 AND type = ? ORDER BY rank, id LIMIT ?)
"""
_BEST_ROWS = f"""
SELECT {columns_of(JobRow)} FROM (
    SELECT * FROM jobs INDEXED BY jobs_ready
    WHERE state = 'waiting' AND held = 0 AND type = ?
    ORDER BY rank, id LIMIT ? OFFSET ?)
"""
#: Set aside until a run of their group ends.
_HOLD = "UPDATE jobs SET held = 1 WHERE id IN (SELECT value FROM json_each(?))"
_FENCE = "UPDATE meta SET value = ? WHERE name = 'fence'"
#: The token of the n-th run is the n-th fence from :fence on: see `kue.model.job.Run`.
_START = """
UPDATE jobs SET state = 'active', worker = :worker,
    token = (:fence + run.key) || ':' || :now || ':' || (attempts + 1) || :rest,
    ttl_at = CASE WHEN ttl > 0 THEN :now + ttl END
FROM json_each(:ids) AS run WHERE jobs.id = run.value
"""
_RUNS = f"""
SELECT {columns_of(JobRow)} FROM jobs INDEXED BY jobs_active
WHERE state = 'active' AND worker = ? AND substr(token, -length(?2)) = ?2
"""

_decode_keys = msgspec.json.Decoder(list[tuple[int, int]]).decode
#: What follows the opening of a line when maintenance reclaimed the run.
_TAKEN = re.compile(rb'\d+,"taken":')
_HAS_TTL_PASSED = "SELECT ttl_at <= ?2 FROM jobs WHERE id = ?1"
_PROGRESS = """
UPDATE jobs SET progress = ?, progress_data = ?,
    ttl_at = CASE WHEN ttl > 0 THEN ? + ttl END
WHERE id = ?
"""
_CREATED = "SELECT created_at FROM jobs WHERE id = ?"
_BEGIN = """
UPDATE jobs SET token = ?, ttl_at = CASE WHEN ttl > 0 THEN ? + ttl END WHERE id = ?
"""
_LAST_LINE = "SELECT coalesce(max(line), -1) FROM logs WHERE job_id = ?"
#: Bound one by one: JSON in SQLite ends a text at a NUL, and a line may contain one.
_APPEND = """
INSERT INTO logs (job_id, line, at, level, attempt, text) VALUES (?, ?, ?, ?, ?, ?)
"""
_CUT_LOG = "DELETE FROM logs WHERE job_id = ? AND line <= ?"


def claim(tx: Transaction, request: ClaimRequest) -> Claimed:
    """Start the best waiting jobs; a repeated call returns those still running."""
    worker, call = request.worker, request.claim
    # Two workers may use the same name for a lane.
    lane = f"{quote(worker)}:{call.lane}"
    last: int | None = tx.one(_LAST, lane)
    if last is not None and call.seq < last:
        return Claimed([], tx.now)
    workers.lease(tx, worker, request.lease)
    rest = f":{quote(worker)}:{quote(str(call))}"
    if call.seq == last:
        running = map(shown, fetch(tx.db, JobRow, _RUNS, worker, rest))
        return Claimed(sorted(running, key=lambda job: job.fence), tx.now)
    tx.run(_REMEMBER, lane, call.seq, tx.now)
    promotion.promote(tx, request.types, MAX_BATCH)
    named_limits.release_opened(tx, request.types)
    return _ClaimRunner(tx, request.types, worker, rest).take(request.limit)


class _ClaimRunner:
    """One claim in progress."""

    def __init__(
        self, tx: Transaction, types: Sequence[str], worker: str, rest: str
    ) -> None:
        self._tx = tx
        self._type_limits = limits.type_limits_of(tx.db, types, tx.now)
        self._worker = worker
        self._rest = rest
        last: int = tx.one("SELECT value FROM meta WHERE name = 'fence'")
        self._fence = max(last + 1, tx.now * 1000)
        #: Runs by (type, group), where groups are limited.
        self._running: dict[tuple[str, str], int] = {}
        self._named = named_limits.ClaimedLimits(tx)
        #: Types of which jobs were set aside in the last round.
        self._deferred: set[str] = set()
        #: Whether jobs were left for the next claim because they are large.
        self._is_cut = False
        #: Jobs that are started and free their unique keys by that.
        self._freeing: list[JobRow] = []

    def take(self, limit: int) -> Claimed:
        jobs: list[Job] = []
        for _ in range(ROUNDS):
            wanted = limit - len(jobs)
            jobs += self._start(self._best(wanted), wanted)
            if self._is_cut and len(jobs) < limit:
                break
            if not self._deferred or len(jobs) == limit:
                return self._answer(jobs)
        # There may be more beyond those that were read: claim again at once.
        return self._answer(jobs, self._tx.now)

    def _answer(self, jobs: list[Job], next_at: int | None = None) -> Claimed:
        if jobs:
            self._tx.run(_FENCE, self._fence - 1)
        if self._freeing:
            unique_keys.release(self._tx, self._freeing)
        # Jobs that expired here may have released others, which count for `next_at`.
        dependencies.notify_dependants(self._tx)
        chances = [limits.next_chance(self._tx.db, each) for each in self._type_limits]
        moments = [moment for moment in (*chances, next_at) if moment is not None]
        return Claimed(jobs, self._tx.now, min(moments, default=None))

    def _best(self, wanted: int) -> list[JobRow]:
        """Return the best candidates, with extra ones where some were set aside."""
        if len(self._type_limits) == 1:
            # By far the most common case, and one index lookup less.
            only = self._type_limits[0]
            rows = self._read(
                self._size(only, wanted),
                lambda start, stop: fetch(
                    self._tx.db, JobRow, _BEST_ROWS, only.type, stop - start, start
                ),
                is_gapless=True,
            )
            return sorted(rows, key=lambda row: (row.rank, row.id))
        keys: list[tuple[float, int, int]] = []
        for each in self._type_limits:
            found = self._tx.one(_BEST, each.type, self._size(each, wanted))
            last = -math.inf
            for place, (rank, job_id) in enumerate(_decode_keys(found)):
                # No better than the one before it, or it would not be the next.
                last = max(last, each.beside_others(rank, job_id))
                keys.append((last, place, job_id))
        keys.sort()
        count = wanted + LOOKAHEAD * len(self._deferred)
        ids = [job_id for _, _, job_id in keys[:count]]
        return self._read(
            len(ids), lambda start, stop: rows_of(self._tx.db, ids[start:stop])
        )

    def _read(
        self,
        count: int,
        read: Callable[[int, int], list[JobRow]],
        *,
        is_gapless: bool = False,
    ) -> list[JobRow]:
        """Read the first *count* candidates, or as many as one claim may read."""
        rows, number = read_within(MAX_CALL_BYTES, count, read, is_gapless=is_gapless)
        self._is_cut = number < count
        return rows

    def _size(self, type_limits: limits.TypeLimits, wanted: int) -> int:
        size = type_limits.allowance(wanted)
        return size + LOOKAHEAD if size and type_limits.type in self._deferred else size

    def _start(self, rows: Sequence[JobRow], wanted: int) -> list[Job]:
        """Start what can start, set aside what cannot, and remember those types."""
        allowed = {each.type: each.allowance(wanted) for each in self._type_limits}
        per_key = {each.type: each.per_key for each in self._type_limits}
        first = self._fence
        jobs: list[Job] = []
        aside: dict[str, list[int]] = {
            "expired": [],
            "held": [],
            "limited": [],
            "damaged": [],
        }
        self._deferred = set()
        self._named.look_up(rows)
        for row in rows:
            if len(jobs) == wanted:
                break
            if not allowed[row.type]:
                continue
            job = self._try(row, per_key[row.type])
            if isinstance(job, str):
                aside[job].append(row.id)
                self._deferred.add(row.type)
            else:
                jobs.append(job)
                allowed[row.type] -= 1
        self._write(jobs, first)
        self._set_aside(**aside)
        return jobs

    def _try(self, row: JobRow, per_key: int | None) -> Job | str:
        """Return the job as it starts, or why it cannot."""
        if row.expires_at is not None and row.expires_at <= self._tx.now:
            return "expired"
        if per_key is not None and not self._has_slot(row, per_key):
            return "held"
        if self._named.is_over(row):
            self._offer_slot(row)
            return "limited"
        try:
            token = f"{self._fence}:{self._tx.now}:{row.attempts + 1}{self._rest}"
            job = job_of(row, token)
        except ValueError:
            return "damaged"
        self._named.pick(row)
        self._fence += 1
        if row.unique_until == "start":
            self._freeing.append(row)
        if per_key is not None and row.group_key is not None:
            self._running[row.type, row.group_key] += 1
        return job

    def _set_aside(
        self,
        expired: list[int],
        held: list[int],
        limited: list[int],
        damaged: list[int],
    ) -> None:
        if expired:
            expire(self._tx, expired)
        if damaged:
            rows = state_rows_of(self._tx.db, damaged)
            transitions.park(self._tx, rows.values(), UNUSABLE)
        if held:
            self._tx.run(_HOLD, as_json(held))
        if limited:
            self._named.hold()

    def _has_slot(self, row: JobRow, per_key: int) -> bool:
        if row.group_key is None:
            return True
        key = (row.type, row.group_key)
        if key not in self._running:
            self._running[key] = limits.active_in_group(self._tx.db, *key)
        return self._running[key] < per_key

    def _offer_slot(self, row: JobRow) -> None:
        """Have another job of the group released for a slot that is not taken."""
        if row.group_key is not None:
            self._tx.groups.add((row.type, row.group_key))

    def _write(self, jobs: Sequence[Job], fence: int) -> None:
        if not jobs:
            return
        tx = self._tx
        values = {
            "worker": self._worker,
            "fence": fence,
            "now": tx.now,
            "rest": self._rest,
            "ids": as_json([job.id for job in jobs]),
        }
        tx.db.execute(_START, values)
        starts = Counter(job.type for job in jobs)
        for each in self._type_limits:
            if each.type in starts:
                tx.moved(each.type, State.WAITING, State.ACTIVE, starts[each.type])
                limits.spend(tx, each, starts[each.type])
        self._named.enter()
        if tx.has_subscribers:
            for job in jobs:
                tx.publish(Kind.START, job.id, job.type, job.attempts)


def expire(tx: Transaction, ids: Iterable[int]) -> None:
    """Fail jobs that were not started in time."""
    endings = []
    for row in state_rows_of(tx.db, ids).values():
        history = _history(tx, row) if row.lines else ()
        endings.append((row, retry_policy.after_expiry(history)))
    transitions.end(tx, endings)


def _history(tx: Transaction, row: StateRow) -> tuple[Attempt, ...]:
    return history_in(story_of(tx.db, row.id).decode(errors="replace"))


def settle(tx: Transaction, outcomes: Sequence[Outcome]) -> list[Result]:
    rows = state_rows_of(tx.db, [outcome.job.id for outcome in outcomes])
    endings: dict[str, list[tuple[StateRow, Ending]]] = {}
    results: list[Result] = []
    #: Runs ended by this very call, which may contain one twice.
    ended: dict[int, Result] = {}
    for outcome in outcomes:
        job_id = outcome.job.id
        row = rows.get(job_id)
        if row is None:
            results.append(Result.GONE)
            continue
        result = _result_of(tx, row, outcome)
        if result is Result.DONE:
            result = ended.get(job_id, result)
        if result is Result.DONE:
            pair = (row, outcome.ending)
            endings.setdefault(outcome.overdue, []).append(pair)
            ended[job_id] = _repeated(row, outcome.ending)
        results.append(result)
    for overdue, pairs in endings.items():
        transitions.end(tx, pairs, taken=overdue)
    return results


def cycle(
    tx: Transaction,
    outcomes: Sequence[Outcome],
    request: ClaimRequest,
) -> tuple[list[Result], Claimed]:
    results = settle(tx, outcomes)
    # The claim must find the slots free and the dependants ready.
    dependencies.apply_side_effects(tx)
    return results, claim(tx, request)


def _result_of(tx: Transaction, row: StateRow, outcome: Outcome) -> Result:
    # The fencing token: a run that was replaced has another one.
    token = outcome.job.token
    if token and token == row.token and row.state == State.ACTIVE:
        return Result.DONE if _is_due(tx, row, outcome.overdue) else Result.LOST
    if token and _has_ended(tx, row, token):
        return Result.ALREADY
    return Result.LOST


def _is_due(tx: Transaction, row: StateRow, overdue: str) -> bool:
    """Return whether maintenance may end the run now; its worker always may."""
    match overdue:
        case "":
            return True
        case "lease":
            return workers.is_over(tx, row.id)
        case "ttl":
            return bool(tx.one(_HAS_TTL_PASSED, row.id, tx.now))
        case _:
            raise InvalidCall(f"overdue is 'lease' or 'ttl', not {overdue!r}")


def _has_ended(tx: Transaction, row: StateRow, token: str) -> bool:
    """Return whether the run was settled; one that was reclaimed is lost."""
    opening = b'\n{"run":"%s","at":' % token.encode()
    _, found, line = (b"\n" + story_of(tx.db, row.id)).partition(opening)
    return bool(found) and not _TAKEN.match(line)


def _repeated(row: StateRow, ending: Ending) -> Result:
    """Return the result when the same call settles the run a second time."""
    is_removed = isinstance(ending, Completed) and row.remove_on_complete
    return Result.GONE if is_removed else Result.ALREADY


def progress(tx: Transaction, updates: Sequence[Progress]) -> list[Result]:
    rows = state_rows_of(tx.db, [update.job_id for update in updates])
    return [_progress(tx, rows.get(update.job_id), update) for update in updates]


def _progress(tx: Transaction, row: StateRow | None, update: Progress) -> Result:
    if row is None or update.created_at not in (None, row.created_at):
        return Result.GONE
    if update.token and update.token != row.token:
        return Result.LOST
    if row.state != State.ACTIVE:
        return Result.REFUSED
    data = None if update.data is None else as_json(update.data)
    tx.run(_PROGRESS, update.percent, data, tx.now, row.id)
    detail = {"progress": update.percent, "data": update.data}
    tx.publish(Kind.PROGRESS, row.id, row.type, row.attempts + 1, detail)
    return Result.DONE


def begin(tx: Transaction, job: Job, *, alone: bool) -> Job | Result:
    """Start a run that was held back, if its fence is current."""
    row = state_rows_of(tx.db, [job.id]).get(job.id)
    fence = job.token.partition(":")[0]
    if row is None or not row.token.startswith(f"{fence}:"):
        return Result.LOST
    rest = begun(job, BEGAN[not alone])
    # A run that has begun goes on: this is the same call again.
    is_new = row.token.split(":", 2)[2] != rest
    paused = (pause.type for pause in limits.pauses(tx.db, tx.now))
    if is_new and any(type in (None, job.type) for type in paused):
        return Result.REFUSED
    token = f"{fence}:{tx.now}:{rest}"
    tx.run(_BEGIN, token, tx.now, job.id)
    return msgspec.structs.replace(job, token=token)


def log(
    tx: Transaction,
    job_id: int,
    lines: Sequence[LogLine],
    *,
    created_at: int | None = None,
) -> Result:
    row = tx.db.execute(_CREATED, (job_id,)).fetchone()
    if row is None or created_at not in (None, row[0]):
        return Result.GONE
    last: int = tx.one(_LAST_LINE, job_id)
    kept = lines[-MAX_LOG_LINES:]
    rows = [
        (job_id, number, tx.now, _plain(line.level), line.attempt, _plain(line.text))
        for number, line in enumerate(kept, last + 1)
    ]
    tx.db.executemany(_APPEND, rows)
    tx.run(_CUT_LOG, job_id, last + len(kept) - MAX_LOG_LINES)
    return Result.DONE


def _plain(text: str) -> str:
    # Bytes that were not UTF-8 must not cost a job its log.
    return text[:MAX_LOG_TEXT].encode("utf-8", "backslashreplace").decode()
