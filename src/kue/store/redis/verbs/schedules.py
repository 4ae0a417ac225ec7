"""
Schedules: written, read and fired.

A schedule is one JSON text.  Whatever changes it passes the text that it has read, and
the script compares: of two processes that fire a schedule, or of one that fires and one
that pauses it, the second does nothing.  Schedules that are due at the same time fire
together, in three calls: their texts, their unfinished jobs, and the add.
"""

from __future__ import annotations

import logging
import secrets
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from kue.aio.throttled_log import ThrottledLog
from kue.model.errors import StoreCorrupt, StoreFull
from kue.model.schedule import (
    MAX_CATCH_UP,
    MAX_SCHEDULES,
    NEW_JOB,
    Firing,
    Schedule,
    manual_firing,
    next_firing,
)
from kue.store.batches import bytes_of_draft, split
from kue.store.codec import encode_json
from kue.store.redis.add_script import (
    arguments,
    drop_oldest,
    read_added,
    ties_of,
)
from kue.store.redis.verbs.pages import get
from kue.store.validation import too_many_schedules

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kue.model.job import Job
    from kue.store.redis.sharding import Shards
    from kue.store.values import Added

logger = logging.getLogger(__name__)
_log = ThrottledLog(logger)
#: How the text of a schedule ends that is to be completed with the id of its job.
_NEW_JOB_END = b"%d]]}" % NEW_JOB

#: Schedules that are read and fired in one round of calls.
FIRED_TOGETHER = 100

_decode = msgspec.json.Decoder(Schedule).decode


class _Due(NamedTuple):
    """A schedule that fires."""

    name: str
    #: As it was read.
    text: bytes
    firing: Firing

    def is_due_after(self, now: int) -> bool:
        """Return whether it is due once more when it has fired."""
        after = self.firing.after
        return after is not None and after.is_due(now)

    @property
    def arguments(self) -> tuple[Any, ...]:
        """What ``add.lua`` takes of a schedule."""
        new, next_at = _stored(self.firing.after)
        return self.name, self.text, new.removesuffix(_NEW_JOB_END), next_at


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
            firing = manual_firing(schedule, moment, await _open_jobs(db, [schedule]))
            added, _ = await _add(db, shard, [_Due(name, text, firing)], moment)
            if added:
                return added[0]
    return None


async def fire_due(db: Shards, shard: int, names: list[bytes], now: int | None) -> int:
    """Fire the schedules that are due; return how many jobs were added."""
    if not names:
        return 0
    moment = await db.now() if now is None else now
    count = 0
    for start in range(0, len(names), FIRED_TOGETHER):
        part = {name.decode() for name in names[start : start + FIRED_TOGETHER]}
        count += await _catch_up(db, shard, part, moment)
    return count


async def _catch_up(db: Shards, shard: int, names: set[str], now: int) -> int:
    """Fire schedules until they are no longer due; return how many jobs were added."""
    count = 0
    for _ in range(MAX_CATCH_UP):
        due = await _plan(db, shard, names, now)
        if not due:
            break
        try:
            added, names = await _fire(db, shard, due, now)
        except StoreFull:
            break  # they stay due, and fire when there is memory again
        count += added
    return count


async def _plan(db: Shards, shard: int, names: set[str], now: int) -> list[_Due]:
    """Return those of the schedules that are due, and how they fire."""
    read = {
        name: (text, schedule)
        for name, text in (await _texts_of(db, shard, names)).items()
        if (schedule := _read(text)) and schedule.is_due(now)
    }
    jobs = await _open_jobs(db, [schedule for _, schedule in read.values()])
    plans = []
    # The longest overdue first.
    for name, (text, schedule) in sorted(read.items(), key=_order):
        try:
            plans.append(_Due(name, text, next_firing(schedule, now, jobs)))
        except ValueError as exc:
            # Its time zone is not known here; another worker may know it.
            _log.error("schedule %s does not fire: %s", name, exc)
    return plans


def _order(read: tuple[str, tuple[bytes, Schedule]]) -> tuple[int, str]:
    name, (_, schedule) = read
    return schedule.next_at or 0, name


async def _fire(
    db: Shards, shard: int, due: list[_Due], now: int
) -> tuple[int, set[str]]:
    """Fire; return how many jobs were added, and what may still be due."""
    again = {one.name for one in due if one.is_due_after(now)}
    for one in due:
        if one.firing.draft is None:
            await _write(db, shard, one.name, one.text, one.firing.after)
    count = 0
    parts = deque(split([one for one in due if one.firing.draft], _bytes_of))
    while parts:
        part = parts.popleft()
        try:
            added, late = await _add(db, shard, part, now)
        except StoreCorrupt as exc:
            # One by one, so that damage of one type does not stop the others.
            if len(part) == 1:
                _log.error("schedule %s does not fire: %s", part[0].name, exc)
                again.discard(part[0].name)
            else:
                parts.extendleft([one] for one in reversed(part))
            continue
        count += sum(one.new for one in added)
        again |= late
    return count, again


async def _add(
    db: Shards, shard: int, due: Sequence[_Due], now: int
) -> tuple[list[Added], set[str]]:
    """
    Add the jobs of firings.

    Returns them, and the names of the schedules that others have changed in the
    meantime: those have not fired.
    """
    late: set[str] = set()
    while due := [one for one in due if one.name not in late]:
        drafts = [one.firing.draft for one in due if one.firing.draft]
        reply = await db.run(
            shard,
            "add",
            # A producer of one call may have a random name.
            secrets.token_hex(8),
            0,
            len(due),
            *(argument for one in due for argument in one.arguments),
            *arguments(drafts, ties_of(drafts)),
            # The ticks have this time, and so must their jobs.
            now=now,
        )
        if reply[0] == b"OK":
            await drop_oldest(db, shard, reply[2:], now=now)
            return read_added(reply[1]), late
        late |= {name.decode() for name in reply[1:]}
    return [], late


async def _write(
    db: Shards, shard: int, name: str, old: bytes, schedule: Schedule | None
) -> bytes:
    """Write a schedule, or delete it, if it still is *old*; return what was done."""
    text, next_at = _stored(schedule)
    args = (name, old, next_at, text, MAX_SCHEDULES)
    word: bytes = await db.run(shard, "schedule", *args)
    return word


def _bytes_of(due: _Due) -> int:
    """Return about how much it costs to fire a schedule."""
    draft = due.firing.draft
    return 2 * len(due.text) + (bytes_of_draft(draft) if draft else 0)


def _stored(schedule: Schedule | None) -> tuple[bytes, int | str]:
    """Return the text of a schedule and when it fires next, as scripts take them."""
    if schedule is None:
        return b"", ""
    next_at = schedule.next_at
    return encode_json(schedule), "" if next_at is None else next_at


async def _open_jobs(
    db: Shards, schedules: Sequence[Schedule]
) -> dict[int, Job | None]:
    ids = [job_id for schedule in schedules for job_id in schedule.open_jobs]
    return dict(zip(ids, await get(db, ids) if ids else (), strict=True))


async def _text_of(db: Shards, shard: int, name: str) -> bytes | None:
    return (await _texts_of(db, shard, {name})).get(name)


async def _texts_of(db: Shards, shard: int, names: set[str]) -> dict[str, bytes]:
    """Return the texts of those of the schedules that exist, by name."""
    if not names:
        return {}
    key, ordered = db.keys[shard].of_shard("schedules"), sorted(names)
    texts = await db.read(shard, "HMGET", key, *ordered)
    found = zip(ordered, texts, strict=True)
    return {name: text for name, text in found if text is not None}


def _read(text: bytes) -> Schedule | None:
    """Read a schedule; None if damaged, so that the others still fire."""
    try:
        return _decode(text)
    except (ValueError, RecursionError) as exc:
        _log.error("a schedule cannot be read: %.200r", text, exc=exc)
        return None
