"""
Schedules: written, read and fired.

A schedule is one JSON text.  Whatever changes it passes the text that it has read, and
the script compares: of two processes that fire a schedule, or of one that fires and one
that pauses it, the second does nothing.
"""

from __future__ import annotations

import logging
import secrets
from typing import TYPE_CHECKING

import msgspec

from kue.aio.throttled_log import ThrottledLog
from kue.model.errors import StoreFull
from kue.model.schedule import (
    MAX_CATCH_UP,
    MAX_SCHEDULES,
    NEW_JOB,
    Firing,
    Schedule,
    manual_firing,
    next_firing,
)
from kue.store.codec import encode_json
from kue.store.redis.verbs.add import arguments, drop_oldest, read_added
from kue.store.redis.verbs.pages import get
from kue.store.validation import too_many_schedules

if TYPE_CHECKING:
    from kue.model.job import Job
    from kue.store.redis.sharding import Shards
    from kue.store.values import Added

logger = logging.getLogger(__name__)
_log = ThrottledLog(logger)
#: How the text of a schedule ends that is to be completed with the id of its job.
_NEW_JOB_END = b"%d]]}" % NEW_JOB

_decode = msgspec.json.Decoder(Schedule).decode


async def schedule(
    db: Shards, schedule: Schedule, *, expected: Schedule | None = None
) -> bool:
    home, old = db.home_of(schedule.draft.type), b""
    if expected is not None:
        old = await _text_of(db, home, schedule.name) or b""
        if not old or _read(old) != expected:
            return False
    word = await _write(db, home, schedule.name, old, schedule)
    if word == b"FULL":
        raise too_many_schedules()
    return word == b"OK"


async def unschedule(db: Shards, name: str) -> bool:
    words = await db.on_all(lambda shard: _write(db, shard, name, b"*", None))
    return b"OK" in words


async def schedules(db: Shards, name: str | None = None) -> list[Schedule]:
    if name is None:
        replies = await db.read_all("HVALS", "schedules")
        texts = [text for reply in replies for text in reply]
    else:
        found = await db.on_all(lambda shard: _text_of(db, shard, name))
        texts = [text for text in found if text is not None]
    read = [_read(text) for text in texts]
    readable = [schedule for schedule in read if schedule is not None]
    return sorted(readable, key=lambda schedule: schedule.name)


async def fire(db: Shards, name: str, *, now: int | None = None) -> Added | None:
    for shard in range(db.count):
        while (text := await _text_of(db, shard, name)) is not None:
            schedule = _read(text)
            if schedule is None:
                break
            moment = await db.now() if now is None else now
            firing = manual_firing(schedule, moment, await _open_jobs(db, schedule))
            added = await _add(db, shard, name, text, firing, moment)
            if added is not None:
                return added
    return None


async def fire_due(db: Shards, shard: int, names: list[bytes], now: int | None) -> int:
    """Fire the schedules that are due; return how many jobs were added."""
    if not names:
        return 0
    moment = await db.now() if now is None else now
    return sum([await _catch_up(db, shard, name.decode(), moment) for name in names])


async def _catch_up(db: Shards, shard: int, name: str, now: int) -> int:
    """Fire one schedule until it is no longer due; return how many jobs were added."""
    count = 0
    for _ in range(MAX_CATCH_UP):
        text = await _text_of(db, shard, name)
        schedule = _read(text) if text is not None else None
        if text is None or schedule is None or not schedule.is_due(now):
            break
        firing = await _plan(db, schedule, now)
        if firing is None:
            break
        try:
            count += await _fire(db, shard, name, text, firing, now)
        except StoreFull:
            break  # stays due, and fires when there is memory again
    return count


async def _plan(db: Shards, schedule: Schedule, now: int) -> Firing | None:
    """Return how a schedule fires; None if this process cannot know it."""
    jobs = await _open_jobs(db, schedule)
    try:
        return next_firing(schedule, now, jobs)
    except ValueError as exc:
        # Its time zone is not known here; another worker may know it.
        _log.error("schedule %s does not fire: %s", schedule.name, exc)
        return None


async def _fire(
    db: Shards, shard: int, name: str, text: bytes, firing: Firing, now: int
) -> int:
    """Make a firing; return how many jobs were added."""
    if firing.draft is None:
        await _write(db, shard, name, text, firing.after)
        return 0
    added = await _add(db, shard, name, text, firing, now)
    return 1 if added and added.new else 0


async def _add(
    db: Shards, shard: int, name: str, text: bytes, firing: Firing, now: int
) -> Added | None:
    """Add the job of a firing; None: another process has changed the schedule."""
    assert firing.draft is not None
    new, next_at = _stored(firing.after)
    reply = await db.run(
        shard,
        "add",
        # A producer of one call may have a random name.
        secrets.token_hex(8),
        0,
        name,
        text,
        new.removesuffix(_NEW_JOB_END),
        next_at,
        *arguments([firing.draft]),
        # The tick has this time, and so must its job.
        now=now,
    )
    if reply[0] != b"OK":
        return None
    await drop_oldest(db, shard, reply[2:], now=now)
    return read_added(reply[1])[0]


async def _write(
    db: Shards, shard: int, name: str, old: bytes, schedule: Schedule | None
) -> bytes:
    """Write a schedule, or delete it, if it still is *old*; return what was done."""
    text, next_at = _stored(schedule)
    args = (name, old, next_at, text, MAX_SCHEDULES)
    word: bytes = await db.run(shard, "schedule", *args)
    return word


def _stored(schedule: Schedule | None) -> tuple[bytes, int | str]:
    """Return the text of a schedule and when it fires next, as scripts take them."""
    if schedule is None:
        return b"", ""
    next_at = schedule.next_at
    return encode_json(schedule), "" if next_at is None else next_at


async def _open_jobs(db: Shards, schedule: Schedule) -> dict[int, Job | None]:
    ids = schedule.open_jobs
    return dict(zip(ids, await get(db, ids) if ids else (), strict=True))


async def _text_of(db: Shards, shard: int, name: str) -> bytes | None:
    keys = db.keys[shard]
    text: bytes | None = await db.read(shard, "HGET", keys.of_shard("schedules"), name)
    return text


def _read(text: bytes) -> Schedule | None:
    """Read a schedule; None if damaged, so that the others still fire."""
    try:
        return _decode(text)
    except (ValueError, RecursionError) as exc:
        _log.error("a schedule cannot be read: %.200r", text, exc=exc)
        return None
