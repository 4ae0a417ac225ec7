"""Runs: claim, settle, heartbeats and leases (renew, leave), wait, progress, log."""

from __future__ import annotations

import asyncio
import secrets
from collections import defaultdict
from heapq import merge
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any, get_args

import msgspec

from kue.aio.tasks import cancel_all
from kue.model.errors import KueError
from kue.model.job import (
    BEGAN,
    MAX_HISTORY,
    Completed,
    Ending,
    Error,
    Failed,
    Job,
    Released,
)
from kue.model.names import quote
from kue.model.retry_policy import EXPIRED, EXPIRED_RETRY
from kue.store.batches import bytes_of_outcome, split
from kue.store.codec import begun, encode_json, has_suspensions, tail_of
from kue.store.redis.record import read_claimed, read_pause, unreadable
from kue.store.redis.verbs.stats import write_counts
from kue.store.redis.wire.client import MAX_BLOCK_SECONDS
from kue.store.validation import check_batch, check_limit
from kue.store.values import (
    MAX_LOG_LINES,
    MAX_LOG_TEXT,
    OVERDUE_MS,
    Claim,
    Claimed,
    ClaimRequest,
    HeartbeatReply,
    LogLine,
    Outcome,
    Progress,
    RenewRequest,
    Result,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kue.model.histogram import Timing
    from kue.store.redis.sharding import Shards

#: Ends of the line of an expired job: see ``lib/failures.lua``.
EXPIRED_TAIL = b"%s\t%s" % (
    tail_of(Failed(EXPIRED)),
    tail_of(Failed(Error(EXPIRED.kind, EXPIRED_RETRY))),
)

#: The name of each ending, which is its tag in JSON.
_ENDING = {kind: str(kind.__struct_config__.tag) for kind in get_args(Ending)}
#: Most jobs succeed without a result: what is written then, encoded once.
_NO_RESULT = Completed()
_NO_RESULT_TAIL = tail_of(_NO_RESULT)
#: The arguments of ``cycle.lua`` for a claim, when nothing is claimed.
_NO_CLAIM = ("", 0, "", 0, 0, EXPIRED_TAIL, 0)
_OVERDUE = {"": "", "lease": "L", "ttl": "T"}
#: Ending, type, delay and flags: what outcomes that are sent together share.
_Alike = tuple[str, str, int, str]
_decode_text = msgspec.json.Decoder(str).decode


async def claim(
    db: Shards, request: ClaimRequest, *, now: int | None = None
) -> Claimed:
    _, claimed = await cycle(db, (), request, now=now)
    return claimed


async def settle(
    db: Shards, outcomes: Sequence[Outcome], *, now: int | None = None
) -> list[Result]:
    check_batch(outcomes, "outcomes")
    parts = split(outcomes, bytes_of_outcome)
    if len(parts) > 1:
        return [word for part in parts for word in await settle(db, part, now=now)]
    if names_a_run_twice(outcomes):
        return [(await settle(db, [one], now=now))[0] for one in outcomes]
    words = [Result.DONE] * len(outcomes)
    for shard, positions in db.by_shard([o.job.id for o in outcomes]).items():
        order, args = arguments(outcomes, positions)
        reply = await db.run(shard, "cycle", *_NO_CLAIM, *args, now=now)
        read_words(reply[0], order, words)
    return words


async def cycle(
    db: Shards,
    outcomes: Sequence[Outcome],
    request: ClaimRequest,
    *,
    now: int | None = None,
) -> tuple[list[Result], Claimed]:
    check_batch(outcomes, "outcomes")
    check_limit(request.limit)
    *first, outcomes = split(outcomes, bytes_of_outcome)
    settled: list[Result] = []
    for part in first:
        settled += await settle(db, part, now=now)
    words = [Result.DONE] * len(outcomes)
    if names_a_run_twice(outcomes):
        words, outcomes = await settle(db, outcomes, now=now), ()
    jobs: list[Job] = []
    clock, next_at = 0, 0
    ended = db.by_shard([outcome.job.id for outcome in outcomes])
    homes = db.homes(dict.fromkeys(request.types))
    for shard in _rotated(ended.keys() | homes.keys(), request.claim):
        order, args = arguments(outcomes, ended.get(shard, ()))
        wanted = [quote(job_type) for job_type in homes.get(shard, ())]
        asked = claim_arguments(wanted, request.limit - len(jobs), request)
        reply = await db.run(shard, "cycle", *asked, *args, now=now)
        read_words(reply[0], order, words)
        clock = reply[1]
        if reply[2] and (not next_at or reply[2] < next_at):
            next_at = reply[2]
        if reply[3]:
            taken = await _read_claimed(db, reply[3], reply[4], now=now)
            if len(wanted) > 1:
                taken = _merged(taken)
            jobs += taken
    return settled + words, Claimed(jobs, clock, next_at or None)


async def stand_by(db: Shards, request: ClaimRequest, *, timeout: float) -> Claimed:
    check_limit(request.limit)
    homes = db.homes(dict.fromkeys(request.types))
    if len(homes) != 1:
        # No single command can wait on several shards.
        is_ready = await wait(db, request.types, timeout)
        return await claim(db, request) if is_ready else Claimed([], 0, None)
    await db.open()
    [(shard, names)] = homes.items()
    keys = db.keys[shard]
    wanted = [quote(name) for name in names]
    _, now, next_at, taken, lost = await db.client.block_and_run(
        keys.root,
        [keys.of_type(name, "wake") for name in names],
        min(timeout, MAX_BLOCK_SECONDS),
        "cycle",
        "",
        db.count,
        shard,
        *claim_arguments(wanted, request.limit, request),
    )
    jobs = await _read_claimed(db, taken, lost, now=None)
    return Claimed(_merged(jobs), now, next_at or None)


async def _read_claimed(
    db: Shards, taken: list[bytes], lost: list[bytes], *, now: int | None
) -> list[Job]:
    stalls = dict(zip(lost[::2], map(int, lost[1::2]), strict=True))
    jobs: list[Job] = []
    bad: list[Outcome] = []
    triples = iter(taken)
    for job_id, token, record in zip(triples, triples, triples, strict=True):
        try:
            jobs.append(
                read_claimed(int(job_id), token.decode(), record, stalls.get(job_id, 0))
            )
        except (ValueError, KueError, RecursionError) as exc:
            # A record that is not a job would fail in every worker that claims it.
            job = unreadable(int(job_id), token.decode(), record, exc)
            error = Error("CorruptPayload", f"its record cannot be read: {exc}")
            bad.append(Outcome(job, Failed(error)))
    if bad:
        await settle(db, bad, now=now)
    return jobs


async def renew(
    db: Shards, request: RenewRequest, *, now: int | None = None
) -> HeartbeatReply:
    held: dict[int, list[Any]] = {shard: [] for shard in range(db.count)}
    for job in request.runs:
        held[db.shard_of(job.id)] += (quote(job.type), job.id, job.token)
    status = "" if request.info is None else encode_json(request.info)

    async def renew_on(shard: int) -> Any:
        return await db.run(
            shard,
            "renew",
            quote(request.worker),
            request.lease,
            status,
            1 if request.orders else "",
            OVERDUE_MS,
            *held[shard],
            now=now,
            heartbeat=True,
        )

    replies = await db.on_all(renew_on)
    lost, cancel, pauses, ordered, overdue = zip(*replies, strict=True)
    home = db.home_of(request.worker)
    pause = pauses[home]
    return HeartbeatReply(
        lost=sorted(map(int, chain(*lost))),
        cancel=dict(sorted(read_cancellations(list(chain(*cancel))))),
        paused=read_pause(None, pause, worker=request.worker) if pause else None,
        orders=tuple(word.decode() for word in ordered[home]),
        overdue=any(overdue),
    )


async def measure(
    db: Shards, timings: Sequence[Timing], *, now: int | None = None
) -> None:
    by_shard: dict[int, list[Any]] = {}
    for timing in timings:
        counts = (write_counts(timing.waits), write_counts(timing.runs))
        args = by_shard.setdefault(db.home_of(timing.type), [])
        args += (quote(timing.type), *counts)
    for shard, args in by_shard.items():
        await db.run(shard, "add_timings", *args, now=now)


async def begin(
    db: Shards, job: Job, *, alone: bool, now: int | None = None
) -> Job | Result:
    reply: bytes = await db.run(
        db.shard_of(job.id),
        "begin_run",
        job.id,
        job.token.partition(":")[0],
        begun(job, BEGAN[not alone]),
        now=now,
    )
    token = reply.decode()
    if token in (Result.LOST, Result.REFUSED):
        return Result(token)
    return msgspec.structs.replace(job, token=token)


async def leave(db: Shards, worker: str, *, now: int | None = None) -> None:
    await db.on_all(
        lambda shard: db.run(
            shard, "deregister_worker", quote(worker), now=now, heartbeat=True
        )
    )


async def wait(db: Shards, types: Sequence[str], timeout: float) -> frozenset[str]:
    homes = db.homes(types)
    if not homes:
        await asyncio.sleep(timeout)
        return frozenset()
    sleepers = {
        asyncio.create_task(_sleep(db, shard, names, timeout), name="kue-wait")
        for shard, names in homes.items()
    }
    ready: frozenset[str] = frozenset()
    asleep = sleepers
    try:
        # A shard without work does not end the wait for the others.
        while asleep and not ready:
            done, asleep = await asyncio.wait(
                asleep, return_when=asyncio.FIRST_COMPLETED
            )
            ready = ready.union(*(sleeper.result() for sleeper in done))
        return ready
    finally:
        await cancel_all(sleepers)


async def _sleep(db: Shards, shard: int, types: list[str], timeout: float) -> set[str]:
    """Wait on one shard; return the types that may have work."""
    keys = db.keys[shard]
    names = [quote(job_type) for job_type in types]
    markers = {keys.of_type(job_type, "wake"): job_type for job_type in types}
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout
    while True:
        now, due, ready = await db.run(shard, "next_due", *names)
        left = deadline - loop.time()
        if ready or left <= 0:
            return {types[position] for position in ready}
        if due:
            left = min(left, (due - now) / 1000)
        woken = await db.client.block(
            keys.root, list(markers), min(left, MAX_BLOCK_SECONDS)
        )
        if woken is not None:
            return {markers[woken]}
        if loop.time() >= deadline:
            # If the caller waits again, that starts with a look.
            return set()


async def progress(
    db: Shards, updates: Sequence[Progress], *, now: int | None = None
) -> list[Result]:
    words = [Result.DONE] * len(updates)
    places = db.by_shard([update.job_id for update in updates])
    for shard, positions in places.items():
        args: list[Any] = []
        for position in positions:
            one = updates[position]
            created = "" if one.created_at is None else one.created_at
            args += (one.job_id, one.percent, encode_json(one.data), one.token, created)
        reply = await db.run(shard, "progress", *args, now=now)
        for position, word in zip(positions, reply, strict=True):
            words[position] = Result(word.decode())
    return words


async def log(
    db: Shards,
    job_id: int,
    lines: Sequence[LogLine],
    *,
    created_at: int | None = None,
    now: int | None = None,
) -> Result:
    check_batch(lines, "lines")
    args = [
        encode_json(LogLine(line.text[:MAX_LOG_TEXT], line.level, line.attempt))[1:]
        for line in lines
    ]
    word = await db.run(
        db.shard_of(job_id),
        "append_log",
        job_id,
        MAX_LOG_LINES,
        secrets.token_hex(6),
        "" if created_at is None else created_at,
        *args,
        now=now,
    )
    return Result(word.decode())


def _rotated(shards: set[int], claim: Claim) -> list[int]:
    """Begin with another shard for each claim, and with the same if it is repeated."""
    order = sorted(shards)
    start = claim.seq % len(order) if order else 0
    return order[start:] + order[:start]


def _merged(taken: Sequence[Job]) -> list[Job]:
    """
    Return claimed jobs by (priority, id), those of one type in the order they start.

    The script returns them type by type.
    """
    types = [[*jobs] for _, jobs in groupby(taken, key=lambda job: job.type)]
    return [*merge(*types, key=lambda job: (job.priority, job.id))]


def claim_arguments(
    types: Sequence[str], limit: int, request: ClaimRequest
) -> tuple[Any, ...]:
    """Return the arguments of ``cycle.lua`` for a claim; *types* are quoted."""
    lane = quote(request.claim.lane) if types else ""
    claimant = (quote(request.worker), request.lease, lane, request.claim.seq, limit)
    return (*claimant, EXPIRED_TAIL, len(types), *types)


def arguments(
    outcomes: Sequence[Outcome], chosen: Sequence[int]
) -> tuple[list[int], list[Any]]:
    """
    Return the *chosen* outcomes as ``cycle.lua`` takes them: grouped by ending.

    Also returns, for each in the order sent, its position in *outcomes*.
    """
    groups: defaultdict[_Alike, tuple[list[int], list[Any]]]
    groups = defaultdict(lambda: ([], []))
    for position in chosen:
        outcome = outcomes[position]
        job, ending = outcome.job, outcome.ending
        is_complete = type(ending) is Completed
        delay = 0 if is_complete else getattr(ending, "delay", 0)
        key = (_ENDING[type(ending)], job.type, delay, flags_of(outcome))
        positions, group = groups[key]
        positions.append(position)
        tail = _NO_RESULT_TAIL if ending == _NO_RESULT else tail_of(ending)
        group += (job.id, job.token, tail)
    order: list[int] = []
    args: list[Any] = []
    for (ending_name, job_type, delay, flags), (positions, group) in groups.items():
        order += positions
        args += (ending_name, quote(job_type), delay, flags, len(group) // 3)
        args += group
    return order, args


def read_cancellations(cancel: list[bytes]) -> Iterator[tuple[int, str]]:
    """Read which runs are to be cancelled, and why."""
    for job_id, reason in zip(cancel[::2], cancel[1::2], strict=True):
        try:
            yield int(job_id), _decode_text(reason)
        except msgspec.DecodeError:
            # The request counts, even if its reason is damaged.
            yield int(job_id), ""


def names_a_run_twice(outcomes: Sequence[Outcome]) -> bool:
    """Return whether a run has several outcomes; the first settled one counts."""
    return len({outcome.job.token for outcome in outcomes}) < len(outcomes)


def flags_of(outcome: Outcome) -> str:
    """Return the flags of ``lib/settle.lua`` for an outcome."""
    job, ending = outcome.job, outcome.ending
    flags = _OVERDUE[outcome.overdue]
    if (
        job.unique
        or job.group
        or job.limited_by
        or job.ttl
        or job.spec.retention is not None
    ):
        flags += "s"
    if len(job.history) >= MAX_HISTORY:
        flags += "t"
    if isinstance(ending, Completed):
        if job.spec.remove_on_complete:
            flags += "r"
    elif isinstance(ending, Released):
        if ending.counts:
            flags += "k"
        if ending.suspended is not msgspec.UNSET:
            flags += "w" if "t" in flags or not has_suspensions(job) else "wt"
    return flags


def read_words(reply: list[Any], order: list[int], words: list[Result]) -> None:
    """Store the results other than "done" at their positions in *words*."""
    for index, word in zip(reply[::2], reply[1::2], strict=True):
        words[order[index]] = Result(word.decode())
