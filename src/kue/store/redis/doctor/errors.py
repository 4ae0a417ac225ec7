"""Whether errors are counted as failed jobs have them, and counting them again."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from kue.model.fingerprint import LENGTH
from kue.model.job import Error
from kue.model.names import unquote
from kue.store.codec import encode_json, read_story
from kue.store.redis.doctor.bits import Bits
from kue.store.redis.doctor.case import Case, Look
from kue.store.redis.doctor.trouble import Trouble
from kue.store.redis.wire.client import pairs

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from kue.store.redis.doctor.layout import Layout
    from kue.store.redis.doctor.shard import Command, Seen, Shard, Subject

#: What the story of a failed job ends with.
_MARK = re.compile(rb'"fingerprint":"([0-9a-f]+)"}\Z')
_TAIL = 29
#: Jobs asked for in one reply.
_COUNT = 500
#: Errors mended in one call; the next look finds the rest.
_AT_ONCE = 500
#: Times that jobs are counted anew because some came or went meanwhile.
_TRIES = 3


class Group(NamedTuple):
    """Failed jobs with one fingerprint."""

    jobs: int
    first_at: int
    last_at: int
    job_id: int


def fingerprint_in(record: bytes) -> bytes | None:
    """Return the fingerprint that a failed job's record ends with."""
    match = _MARK.search(record, max(0, len(record) - _TAIL))
    return match[1] if match else None


class Tally:
    """Failed jobs of one shard by type and fingerprint, as they were met."""

    def __init__(self) -> None:
        self._found: dict[str, Counter[bytes]] = {}

    def note(self, job_type: str, record: bytes | None) -> None:
        """Count a failed job."""
        mark = fingerprint_in(record or b"")
        if mark is not None:
            self._found.setdefault(job_type, Counter())[mark] += 1

    def agrees(self, job_type: str, seen: Seen) -> bool:
        """Tell whether the errors of a type are written as its jobs were met."""
        found = self._found.get(job_type, Counter())
        return _read(seen) == (found, _names(found))


class ErrorsCase(Case):
    """The errors of one type."""

    def __init__(self, shard: Shard, layout: Layout, job_type: str) -> None:
        self.shard = shard
        self.job_type = job_type
        self.subject: Subject = ("errors", job_type)
        self._layout = layout

    async def look(self) -> Look:
        """Count the failed jobs; what came or went meanwhile makes it no proof."""
        [seen] = await self.shard.inspect([self.subject])
        for _ in range(_TRIES):
            before, groups = seen, await self._count()
            [seen] = await self.shard.inspect([self.subject])
            if seen.digest == before.digest:
                return Look(self.subject, seen.digest, await self._judge(seen, groups))
        return Look(self.subject, seen.digest, [])

    async def _count(self) -> dict[bytes, Group]:
        groups: dict[bytes, Group] = {}
        async for mark, job_id, at in self._failed():
            known = groups.get(mark)
            if known is None:
                groups[mark] = Group(1, at, at, job_id)
                continue
            jobs, first_at = known.jobs + 1, min(known.first_at, at)
            last = max((known.last_at, known.job_id), (at, job_id))
            groups[mark] = Group(jobs, first_at, *last)
        return groups

    async def _failed(self) -> AsyncIterator[tuple[bytes, int, int]]:
        """Yield fingerprint, id and time of all failed jobs that have the first."""
        keys, met, cursor = self.shard.keys, Bits(), -1
        failed = self._key("failed")
        while cursor:
            scan: Command = ("ZSCAN", failed, max(cursor, 0), "COUNT", _COUNT)
            [(after, found)] = await self.shard.read([scan])
            cursor = int(after)
            ids = [(int(member), int(float(score))) for member, score in pairs(found)]
            # A scan may tell of a job twice.
            ids = [one for one in ids if met.add(self._layout.sequence_of(one[0]))]
            ends = await self.shard.read(
                [("GETRANGE", keys.job(job_id), -_TAIL, -1) for job_id, _ in ids]
            )
            for (job_id, at), end in zip(ids, ends, strict=True):
                mark = fingerprint_in(end)
                if mark is not None:
                    yield mark, job_id, at

    async def _judge(self, seen: Seen, groups: dict[bytes, Group]) -> list[Trouble]:
        written, told = _read(seen)
        counted = {mark: float(group.jobs) for mark, group in groups.items()}
        wrong = {mark for mark, _ in written.items() ^ counted.items()}
        # What is said of an error stands under two names.
        wrong |= {name[:LENGTH] for name in _names(counted) - told}
        stray = sorted(told - _names(counted))
        if not wrong and not stray:
            return []
        message = f"the errors of {unquote(self.job_type)!r} are not counted as its "
        message += "failed jobs have them"
        commands: list[Command] = []
        for mark in sorted(wrong)[:_AT_ONCE]:
            commands += await self._mended(mark, groups.get(mark))
        if stray:
            commands.append(("HDEL", self._key("causes"), *stray[:_AT_ONCE]))
        return [Trouble("error-drift", message, None, "count again", tuple(commands))]

    async def _mended(self, mark: bytes, group: Group | None) -> list[Command]:
        errors, causes = self._key("errors"), self._key("causes")
        if group is None:
            return [("ZREM", errors, mark)]
        [record] = await self.shard.read([("GET", self.shard.keys.job(group.job_id))])
        told = b"%d\t%d\t%s" % (group.last_at, group.job_id, _cause_in(record or b""))
        return [
            ("ZADD", errors, group.jobs, mark),
            ("HSET", causes, mark, group.first_at, mark + b":last", told),
        ]

    def _key(self, structure: str) -> str:
        return self.shard.keys.of_type(unquote(self.job_type), structure)


def _cause_in(record: bytes) -> bytes:
    """Return what the last line of a record says that its job failed of, as JSON."""
    error: Error | None = None
    for attempt in read_story(record.rpartition(b"\n")[2]):
        error = attempt.error
    return b"" if error is None else encode_json(Error(error.kind, error.message))


def _read(seen: Seen) -> tuple[dict[bytes, float], set[bytes]]:
    """Return the counts as they are written, and the names of what is said besides."""
    _, _, _, size, *rest = seen.facts
    rows, told = rest[: int(size)], rest[int(size) :]
    return dict(zip(rows[::2], map(float, rows[1::2]), strict=True)), set(told)


def _names(marks: Iterable[bytes]) -> set[bytes]:
    return {name for mark in marks for name in (mark, mark + b":last")}
