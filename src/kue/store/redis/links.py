"""
Links between shards: what the outbox of one holds is carried out on another.

Each step is idempotent, and an entry is deleted only when all of its steps are done.
So any number of processes may carry out the same one, and any of them may stop in
between: maintenance goes on.  The kinds of entries:

- ``link:child:parent``: the child waits for a parent of another shard, which is to know
  of it; the value is "1" if it is to be notified when the parent fails, too
- ``unlink:child:parent``: it no longer waits
- ``end:child:parent``: how the parent, of this shard, ended
- ``join:target:job``: a blocked job of another shard shall wait for one of this shard,
  which may have ended by now
- ``root:flow:shard``: this shard has members of the flow of a job of another shard
- ``drop:flow:shard``: the job is gone, and another shard has members of its flow
- ``rest:parent``, ``left:child`` and ``hold:target`` are for ``tend.lua``
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kue.store.redis.sharding import Shards

#: What maintenance does on the shard itself.
_LOCAL = ("rest", "left", "hold")


async def relay(
    db: Shards, shard: int, field: bytes, value: bytes, now: int | None
) -> int:
    """Carry out an entry of a shard's outbox; return how many jobs were released."""
    kind, _, rest = field.decode().partition(":")
    if kind in _LOCAL:
        return 0
    first, second = map(int, rest.split(":"))
    released = 0
    if kind == "link":
        return await link_to_parent(db, first, second, now=now)
    if kind == "join":
        await join_target(db, first, second, now=now)
        return 0
    if kind == "unlink":
        await _unlink(db, first, second, now)
    elif kind == "end":
        released = await _unblock(db, first, second, value.decode(), now)
    elif kind == "root":
        word = await db.run(db.shard_of(first), "link_flow", first, second)
        if word == b"gone":
            await db.run(shard, "drop_flow", first)
    elif kind == "drop":
        await db.run(second, "drop_flow", first)
    await _done(db, shard, field.decode())
    return released


async def link_to_parent(
    db: Shards, job_id: int, parent: int, *, now: int | None
) -> int:
    """Carry out a link of the outbox; return how many jobs were released."""
    any_end = await _entry(db, db.shard_of(job_id), f"link:{job_id}:{parent}")
    return 0 if any_end is None else await link(db, job_id, parent, any_end, now=now)


async def link(
    db: Shards, job_id: int, parent: int, any_end: bytes, *, now: int | None
) -> int:
    """
    Link a job to a parent of another shard, or release it if that has ended.

    A job that waits for the same parent again must call this, even if there is no entry
    in the outbox: a process that carried out an earlier one may just have deleted it.
    """
    word = await db.run(db.shard_of(parent), "link", parent, job_id, any_end, now=now)
    released = 0
    if word != b"linked":
        released = await _unblock(db, job_id, parent, word.decode(), now)
    await _done(db, db.shard_of(job_id), f"link:{job_id}:{parent}")
    return released


async def join_target(db: Shards, target: int, job_id: int, *, now: int | None) -> str:
    """
    Have *target*, a blocked job of another shard, wait for *job_id* as well.

    Returns "joined", also when that was done before; else why it cannot.
    """
    home = db.shard_of(job_id)
    entry = f"join:{target}:{job_id}"
    if await _entry(db, home, entry) is None:
        return "joined"
    word = await _join(db, target, job_id, now)
    await _done(db, home, entry)
    return word


async def _join(db: Shards, target: int, parent: int, now: int | None) -> str:
    word, *rest = await db.run(db.shard_of(target), "join", target, parent, now=now)
    for any_end in rest:
        await link(db, target, parent, any_end, now=now)
    return str(word.decode())


async def _unlink(db: Shards, job_id: int, parent: int, now: int | None) -> None:
    """Have a parent of another shard forget a job, unless that waits for it again."""
    await db.run(db.shard_of(parent), "unlink", parent, job_id)
    home = db.shard_of(job_id)
    after = db.keys[home].job(f"{job_id}:after")
    if await db.read(home, "SISMEMBER", after, parent):
        await _join(db, job_id, parent, now)


async def end_hold(db: Shards, target: int, *, now: int | None) -> None:
    """Let a job no longer wait for itself: all jobs were added that come before it."""
    await _unblock(db, target, target, "complete", now)
    await _done(db, db.shard_of(target), f"hold:{target}")


async def _unblock(
    db: Shards, job_id: int, parent: int, outcome: str, now: int | None
) -> int:
    args = (job_id, parent, outcome)
    return int(await db.run(db.shard_of(job_id), "unblock", *args, now=now))


async def _entry(db: Shards, shard: int, field: str) -> bytes | None:
    keys = db.keys[shard]
    found: bytes | None = await db.client.read(
        keys.root, "HGET", keys.of_shard("outbox"), field
    )
    return found


async def _done(db: Shards, shard: int, field: str) -> None:
    keys = db.keys[shard]
    await db.client.read(keys.root, "HDEL", keys.of_shard("outbox"), field)
