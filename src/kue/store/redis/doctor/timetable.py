"""The judge of schedules: what each says, and when it is to fire."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kue.model.schedule import Schedule
from kue.store.redis.doctor.case import PlainCase
from kue.store.redis.doctor.trouble import Trouble

if TYPE_CHECKING:
    from kue.store.redis.doctor.shard import Command, Seen, Shard

_decode = msgspec.json.Decoder(Schedule).decode


def schedule(shard: Shard, name: bytes) -> PlainCase:
    """A schedule, or a time at which one is to fire: does each have the other?"""
    due_key = shard.keys.of_shard("due")
    shown = name.decode("utf-8", "backslashreplace")

    def judge(seen: Seen) -> list[Trouble]:
        if not seen.facts:
            return []
        is_written, text, due = seen.facts
        if is_written == b"0":
            message = f"a schedule {shown!r} is to fire, but there is none"
            out: Command = ("ZREM", due_key, name)
            return [Trouble("schedule-drift", message, None, "take it out", (out,))]
        next_at = _next_at(text)
        if next_at is None:
            return [Trouble("bad-record", f"the schedule {shown!r} cannot be read")]
        if due and float(due) == next_at:
            return []
        what = f"is to fire at {due.decode()}" if due else "is not to fire"
        message = f"the schedule {shown!r} {what}, but its next time is {next_at}"
        right: Command = ("ZADD", due_key, next_at, name)
        repair = f"have it fire at {next_at}"
        return [Trouble("schedule-drift", message, None, repair, (right,))]

    return PlainCase(shard, ("schedule", name), judge)


def _next_at(text: bytes) -> int | None:
    """Return when a schedule fires next by its own word; None if it has none."""
    try:
        return _decode(text).next_at
    except (ValueError, RecursionError):
        return None
