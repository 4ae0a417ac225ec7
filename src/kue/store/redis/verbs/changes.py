"""Changes by operators: update, move (retry, promote), cancel, remove, clear."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from kue.model.draft import check_meta
from kue.model.errors import KueError, StoreCorrupt
from kue.model.job import Cancelled, State
from kue.model.names import quote
from kue.model.retry_policy import after_cancel
from kue.store.codec import encode_json, tail_of
from kue.store.redis.links import link
from kue.store.redis.record import created_in, read_claimed, with_changes
from kue.store.redis.verbs.pages import get, types
from kue.store.validation import InvalidCall, check_limit
from kue.store.values import (
    MAX_BATCH,
    NOTHING_SEEN,
    UNSEEN,
    Change,
    ExpectedState,
    MoveRequest,
    RemoveRequest,
    Reply,
    Result,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kue.model.job import Job
    from kue.store.redis.sharding import Shards

_STATES = frozenset(state.value for state in State)


async def update(
    db: Shards, changes: Sequence[Change], *, now: int | None = None
) -> list[Result]:
    return [await _update(db, change, now) for change in changes]


async def _update(db: Shards, change: Change, now: int | None) -> Result:
    shard = db.shard_of(change.job_id)
    while True:
        record = await db.read(shard, "GET", db.keys[shard].job(change.job_id))
        if record is None:
            return Result.GONE
        old, new, priority = _edited(change, record)
        created_at, ending = _seen_as_arguments(change.seen)
        # The creation time is in the header, which the script compares as well.
        if created_at not in ("", created_in(old)):
            return Result.GONE
        word = await db.run(
            shard, "update", change.job_id, old, new, priority, ending, now=now
        )
        if word != b"changed":
            return Result(word.decode())


async def move(
    db: Shards, request: MoveRequest, *, now: int | None = None
) -> list[Reply]:
    if request.to is State.BLOCKED:
        return await _block(db, request, now)
    args = (request.to.value, request.at or 0, _listed(request.states))
    return await _change(db, "move", request.job_ids, args, request.seen, now)


async def _block(db: Shards, request: MoveRequest, now: int | None) -> list[Reply]:
    """Restart finished jobs, which then wait for their parents again."""
    jobs = {job.id: job for job in await get(db, request.job_ids) if job}
    lists = await _listed_parents(db, {one.id: one.spec.after for one in jobs.values()})
    args = (_listed(request.states),)
    replies = await _change(
        db, "block", request.job_ids, args, request.seen, now, lists
    )
    for job_id, reply in zip(request.job_ids, replies, strict=True):
        if reply.word is Result.DONE:
            await _link_again(db, jobs[job_id], now)
    return replies


async def _link_again(db: Shards, job: Job, now: int | None) -> None:
    """Link a job to the parents on other shards that it waits for again."""
    home = db.shard_of(job.id)
    remote = [parent for parent in job.spec.after if db.shard_of(parent) != home]
    any_end = b"0" if job.on_parent_failure == "block" else b"1"
    for parent in dict.fromkeys(remote):
        after = db.keys[home].job(f"{job.id}:after")
        if await db.read(home, "SISMEMBER", after, parent):
            await link(db, job.id, parent, any_end, now=now)


async def _listed_parents(
    db: Shards, parents: Mapping[int, Sequence[int]]
) -> dict[int, str]:
    """Return the parents of each job as ``block.lua`` takes them."""
    remote = {
        parent: ""
        for job_id, after in parents.items()
        for parent in after
        if db.shard_of(parent) != db.shard_of(job_id)
    }
    ids = list(remote)
    for start in range(0, len(ids), MAX_BATCH):
        part = ids[start : start + MAX_BATCH]
        for shard, positions in db.by_shard(part).items():
            chosen = [part[position] for position in positions]
            found = await db.run(shard, "outcomes", *chosen)
            remote |= {
                parent: f":{outcome.decode()}"
                for parent, outcome in zip(chosen, found, strict=True)
            }
    return {
        job_id: ",".join(f"{parent}{remote.get(parent, '')}" for parent in after)
        for job_id, after in parents.items()
    }


async def cancel(
    db: Shards,
    job_ids: Sequence[int],
    *,
    reason: str = "",
    seen: Mapping[int, ExpectedState] = NOTHING_SEEN,
    now: int | None = None,
) -> list[Reply]:
    endings = (tail_of(Cancelled(reason)), tail_of(after_cancel(reason)))
    return await _change(
        db, "cancel", job_ids, (*endings, encode_json(reason)), seen, now
    )


async def remove(
    db: Shards, request: RemoveRequest, *, now: int | None = None
) -> list[Reply]:
    args = ("1" if request.force else "0", _listed(request.states))
    return await _change(db, "remove", request.job_ids, args, request.seen, now)


async def _change(
    db: Shards,
    script: str,
    job_ids: Sequence[int],
    args: tuple[Any, ...],
    seen: Mapping[int, ExpectedState],
    now: int | None,
    lists: Mapping[int, str] | None = None,
) -> list[Reply]:
    """Change jobs by a script; with *lists* it takes one more argument for each."""
    replies: dict[int, Reply] = {}
    for shard, positions in db.by_shard(job_ids).items():
        while positions:
            jobs: list[Any] = []
            for position in positions:
                job_id = job_ids[position]
                jobs += job_id, *_seen_as_arguments(seen.get(job_id, UNSEEN))
                if lists is not None:
                    jobs.append(lists.get(job_id, ""))
            # It stops at as many as it may touch: see lib/given_jobs.lua.
            answer = await db.run(shard, script, *args, *jobs, now=now)
            words, details = answer[::2], answer[1::2]
            for position, *reply in zip(positions, words, details, strict=False):
                replies[position] = reply_of(*reply)
            positions = positions[len(words) :]
    return [replies[position] for position in range(len(job_ids))]


async def clear(
    db: Shards,
    type: str | None,
    states: Iterable[State],
    *,
    limit: int = MAX_BATCH,
    now: int | None = None,
) -> int:
    check_limit(limit)
    wanted = list(states)
    if State.ACTIVE in wanted:
        raise InvalidCall("active jobs cannot be cleared; cancel them, or wait")
    cleared = 0
    for job_type in await types(db) if type is None else [type]:
        for state in wanted:
            if cleared < limit:
                cleared += await db.run(
                    db.home_of(job_type),
                    "clear",
                    quote(job_type),
                    state.value,
                    limit - cleared,
                    now=now,
                )
    return cleared


def _listed(states: Iterable[State] | None) -> str:
    """Return states as scripts search them; empty for any."""
    return "" if states is None else f",{','.join(states)},"


def _edited(change: Change, record: bytes) -> tuple[bytes, bytes, int]:
    try:
        job = read_claimed(change.job_id, "", record)
    except (ValueError, KueError, RecursionError) as exc:
        raise StoreCorrupt(
            f"the record of job {change.job_id} cannot be read ({exc}); "
            "run kue doctor for details"
        ) from exc
    fields = ("data", "tags", "max_attempts", "priority")
    given = {name: getattr(change, name) for name in fields}
    changes = {k: v for k, v in given.items() if v is not msgspec.UNSET}
    if "data" in changes:
        changes["sealed"] = change.sealed
    priority = changes.pop("priority", job.priority)
    if change.meta is not msgspec.UNSET:
        changes["meta"] = check_meta({**job.spec.meta, **change.meta})
    spec = msgspec.structs.replace(job.spec, **changes)
    old, new = with_changes(record, priority=priority, body=encode_json(spec))
    return old, new, priority


def reply_of(result: bytes, explanation: bytes) -> Reply:
    """Return a reply from the words of a script."""
    word, detail = Result(result.decode()), explanation.decode()
    if word is Result.HELD:
        return Reply(word, holder=int(detail))
    if word is Result.REFUSED and detail in _STATES:
        return Reply(word, State(detail))
    return Reply(word)


def _seen_as_arguments(seen: ExpectedState) -> tuple[int | str, str]:
    """Return what the caller saw of a job as ``lib/expected_state.lua`` expects it."""
    created_at, ending = seen
    # "-", with which no line begins, stands for a job that had not ended.
    mark = "" if ending is None else ending or "-"
    return "" if created_at is None else created_at, mark
