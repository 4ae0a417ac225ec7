"""Claiming: the best waiting jobs become runs."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from kue.model import retry_policy
from kue.model.events import Kind
from kue.model.job import Failed, State
from kue.model.names import quote
from kue.store.sqlite import dependencies, promotion, transitions
from kue.store.sqlite.rows import (
    JobRow,
    columns_of,
    fetch,
    job_of,
    read_within,
    rows_of,
    shown,
    slips_of,
)
from kue.store.sqlite.transaction import Transaction, as_json
from kue.store.sqlite.verbs import limits, workers
from kue.store.values import MAX_BATCH, MAX_CALL_BYTES, Claim, Claimed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kue.model.job import Job

#: Jobs of a type looked at beyond those asked for, once some had to be set aside …
DEEPER = 200
#: … and how often a claim looks again; more is left to the next claim.
ROUNDS = 10

UNUSABLE = "its record is damaged and cannot be run; kue doctor tells more"

_LAST = "SELECT seq FROM claims WHERE lane = ?"
_REMEMBER = """
INSERT INTO claims (lane, seq, at) VALUES (?, ?, ?)
ON CONFLICT DO UPDATE SET seq = excluded.seq, at = excluded.at
"""
_BEST = """
SELECT json_group_array(json_array(priority, id)) FROM (
    SELECT priority, id FROM jobs INDEXED BY jobs_ready
    WHERE state = 'waiting' AND held = 0 AND type = ? ORDER BY priority, id LIMIT ?)
"""
_BEST_ROWS = f"""
SELECT {columns_of(JobRow)} FROM (
    SELECT * FROM jobs INDEXED BY jobs_ready
    WHERE state = 'waiting' AND held = 0 AND type = ?
    ORDER BY priority, id LIMIT ? OFFSET ?)
"""
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


def claim(
    turn: Transaction,
    types: Sequence[str],
    limit: int,
    worker: str,
    call: Claim,
    lease: int,
) -> Claimed:
    """Start the best waiting jobs, or answer a repeated call as before."""
    # Two workers may name their lanes alike.
    lane = f"{quote(worker)}:{call.lane}"
    last: int | None = turn.one(_LAST, lane)
    if last is not None and call.seq < last:
        return Claimed([], turn.now)
    workers.lease(turn, worker, lease)
    rest = f":{quote(worker)}:{quote(str(call))}"
    if call.seq == last:
        return Claimed(_still_running(turn, worker, rest), turn.now)
    turn.run(_REMEMBER, lane, call.seq, turn.now)
    promotion.promote(turn, types, MAX_BATCH)
    return _Taking(turn, types, worker, rest).take(limit)


def _still_running(turn: Transaction, worker: str, rest: str) -> list[Job]:
    rows = fetch(turn.db, JobRow, _RUNS, worker, rest)
    return sorted(map(shown, rows), key=lambda job: job.fence)


class _Taking:
    """A claim at work."""

    def __init__(
        self, turn: Transaction, types: Sequence[str], worker: str, rest: str
    ) -> None:
        self._turn = turn
        self._gates = limits.gates_of(turn.db, types, turn.now)
        self._worker = worker
        self._rest = rest
        last: int = turn.one("SELECT value FROM meta WHERE name = 'fence'")
        self._fence = max(last + 1, turn.now * 1000)
        #: Runs by (type, group), where groups are limited.
        self._running: dict[tuple[str, str], int] = {}
        #: Types of which jobs were set aside in the last round.
        self._deep: set[str] = set()
        #: Whether jobs were left for the next claim because they are large.
        self._is_cut = False

    def take(self, limit: int) -> Claimed:
        jobs: list[Job] = []
        for _ in range(ROUNDS):
            wanted = limit - len(jobs)
            jobs += self._start(_Round(self._turn), self._best(wanted), wanted)
            if self._is_cut and len(jobs) < limit:
                break
            if not self._deep or len(jobs) == limit:
                return self._answer(jobs)
        # There may be more behind those that were read: ask again at once.
        return self._answer(jobs, self._turn.now)

    def _answer(self, jobs: list[Job], next_at: int | None = None) -> Claimed:
        if jobs:
            self._turn.run(_FENCE, self._fence - 1)
        # What expired here may have let others go, which count for when there is more.
        dependencies.tell_dependants(self._turn)
        chances = [limits.next_chance(self._turn.db, gate) for gate in self._gates]
        moments = [moment for moment in (*chances, next_at) if moment is not None]
        return Claimed(jobs, self._turn.now, min(moments, default=None))

    def _best(self, wanted: int) -> list[JobRow]:
        """Return the best candidates, and some more where the best were no use."""
        if len(self._gates) == 1:
            # By far the most common, and a look into the index less.
            gate = self._gates[0]
            rows = self._read(
                self._size(gate, wanted),
                lambda start, stop: fetch(
                    self._turn.db, JobRow, _BEST_ROWS, gate.type, stop - start, start
                ),
                is_gapless=True,
            )
            return sorted(rows, key=lambda row: (row.priority, row.id))
        keys: list[tuple[int, int]] = []
        for gate in self._gates:
            found = self._turn.one(_BEST, gate.type, self._size(gate, wanted))
            keys += _decode_keys(found)
        keys.sort()
        ids = [job_id for _, job_id in keys[: wanted + DEEPER * len(self._deep)]]
        return self._read(
            len(ids), lambda start, stop: rows_of(self._turn.db, ids[start:stop])
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

    def _size(self, gate: limits.TypeLimits, wanted: int) -> int:
        size = gate.allowance(wanted)
        return size + DEEPER if size and gate.type in self._deep else size

    def _start(self, round: _Round, rows: Sequence[JobRow], wanted: int) -> list[Job]:
        """Start what can start, set aside what cannot, and remember of which types."""
        rooms = {gate.type: gate.allowance(wanted) for gate in self._gates}
        per_key = {gate.type: gate.per_key for gate in self._gates}
        first = self._fence
        for row in rows:
            if len(round.jobs) == wanted:
                break
            if rooms[row.type] and self._try(round, row, per_key[row.type]):
                rooms[row.type] -= 1
        self._write(round.jobs, first)
        self._deep = round.set_aside()
        return round.jobs

    def _try(self, round: _Round, row: JobRow, per_key: int | None) -> bool:
        if row.expires_at is not None and row.expires_at <= self._turn.now:
            round.expired.append(row)
            return False
        if per_key is not None and not self._has_slot(row, per_key):
            round.held.append(row)
            return False
        try:
            job = job_of(row, self._token(row))
        except ValueError:
            round.damaged.append(row)
            return False
        round.jobs.append(job)
        self._fence += 1
        if per_key is not None and row.group_key is not None:
            self._running[row.type, row.group_key] += 1
        return True

    def _token(self, row: JobRow) -> str:
        return f"{self._fence}:{self._turn.now}:{row.attempts + 1}{self._rest}"

    def _has_slot(self, row: JobRow, per_key: int) -> bool:
        if row.group_key is None:
            return True
        key = (row.type, row.group_key)
        if key not in self._running:
            self._running[key] = limits.active_in_group(self._turn, *key)
        return self._running[key] < per_key

    def _write(self, jobs: Sequence[Job], fence: int) -> None:
        if not jobs:
            return
        turn = self._turn
        values = {
            "worker": self._worker,
            "fence": fence,
            "now": turn.now,
            "rest": self._rest,
            "ids": as_json([job.id for job in jobs]),
        }
        turn.db.execute(_START, values)
        starts = Counter(job.type for job in jobs)
        for gate in self._gates:
            if gate.type in starts:
                turn.moved(gate.type, State.WAITING, State.ACTIVE, starts[gate.type])
                limits.spend(turn, gate, starts[gate.type])
        if turn.is_heard:
            for job in jobs:
                turn.tell(Kind.START, job.id, job.type, job.attempts)


class _Round:
    """What became of the candidates that a claim looked at."""

    def __init__(self, turn: Transaction) -> None:
        self._turn = turn
        self.jobs: list[Job] = []
        self.expired: list[JobRow] = []
        self.held: list[JobRow] = []
        self.damaged: list[JobRow] = []

    def set_aside(self) -> set[str]:
        """Put those that cannot start where they belong; return their types."""
        turn = self._turn
        if self.expired:
            expire(turn, [row.id for row in self.expired])
        if self.damaged:
            slips = slips_of(turn.db, [row.id for row in self.damaged])
            transitions.park(turn, slips.values(), UNUSABLE)
        limits.hold(turn, [row.id for row in self.held])
        return {row.type for row in (*self.expired, *self.held, *self.damaged)}


def expire(turn: Transaction, ids: Iterable[int]) -> None:
    """Fail jobs that were not started in time."""
    slips = slips_of(turn.db, ids).values()
    transitions.end(turn, [(slip, Failed(retry_policy.EXPIRED)) for slip in slips])
