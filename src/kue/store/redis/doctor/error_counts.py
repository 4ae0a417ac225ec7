"""Error counts: failed jobs by error, which a check counts again and rewrites."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from kue.model.fingerprint import LENGTH
from kue.model.job import Error
from kue.model.names import unquote
from kue.store.codec import encode_json, read_story
from kue.store.redis.doctor.bitset import Bitset
from kue.store.redis.doctor.rule import RedisFinding
from kue.store.redis.wire.client import pairs
from kue.store.values import Finding

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from kue.store.redis.doctor.shard_access import (
        Inspection,
        RedisCommand,
        Shard,
        Subject,
    )

#: What the history of a failed job ends with.
_FINGERPRINT = re.compile(rb'"fingerprint":"([0-9a-f]+)"}\Z')
_TAIL = 29
#: Jobs read in one reply.
_COUNT = 500
#: Errors repaired in one call; the next check finds the rest.
_AT_ONCE = 500
#: How often jobs are counted again because some have come or gone in the meantime.
_TRIES = 3


class FailedJobs(NamedTuple):
    """Failed jobs with one fingerprint."""

    jobs: int
    first_at: int
    last_at: int
    #: The last of them.
    job_id: int


def has_errors(inspection: Inspection) -> bool:
    """Return whether a type has failed jobs, counts of them, or causes."""
    failed, _, _, *counts = inspection.facts
    return failed != b"0" or counts != [b"0"]


class ErrorCounts:
    """The error counts of one type."""

    def __init__(self, shard: Shard, job_type: str) -> None:
        self.shard = shard
        self.job_type = job_type
        self.subject: Subject = ("errors", job_type)

    async def check(self) -> list[RedisFinding]:
        """Count the failed jobs; this proves nothing while jobs come or go."""
        [inspection] = await self.shard.inspect([self.subject])
        for _ in range(_TRIES):
            before, counted = inspection.digest, await self._count()
            [inspection] = await self.shard.inspect([self.subject])
            if inspection.digest == before:
                return await self._compare(inspection, counted)
        return []

    async def _count(self) -> dict[bytes, FailedJobs]:
        counted: dict[bytes, FailedJobs] = {}
        async for mark, job_id, at in self._failed():
            known = counted.get(mark, FailedJobs(0, at, at, job_id))
            last = max((known.last_at, known.job_id), (at, job_id))
            first_at = min(known.first_at, at)
            counted[mark] = FailedJobs(known.jobs + 1, first_at, *last)
        return counted

    async def _failed(self) -> AsyncIterator[tuple[bytes, int, int]]:
        """Yield fingerprint, id and time of all failed jobs with a fingerprint."""
        keys, seen, cursor = self.shard.keys, Bitset(), -1
        failed = self._key("failed")
        while cursor:
            scan: RedisCommand = ("ZSCAN", failed, max(cursor, 0), "COUNT", _COUNT)
            [(after, found)] = await self.shard.read([scan])
            cursor = int(after)
            jobs = [(int(member), int(float(score))) for member, score in pairs(found)]
            # A scan may return a job twice.
            jobs = [job for job in jobs if seen.add(self.shard.sequence_of(job[0]))]
            ends = await self.shard.read(
                [("GETRANGE", keys.job(job_id), -_TAIL, -1) for job_id, _ in jobs]
            )
            for (job_id, at), end in zip(jobs, ends, strict=True):
                if match := _FINGERPRINT.search(end):
                    yield match[1], job_id, at

    async def _compare(
        self, inspection: Inspection, counted: dict[bytes, FailedJobs]
    ) -> list[RedisFinding]:
        _, _, _, size, *rest = inspection.facts
        rows, fields = rest[: int(size)], set(rest[int(size) :])
        written = dict(zip(rows[::2], map(float, rows[1::2]), strict=True))
        right = {mark: float(failed.jobs) for mark, failed in counted.items()}
        wrong = {mark for mark, _ in written.items() ^ right.items()}
        wrong |= {field[:LENGTH] for field in _fields(right) - fields}
        stray = sorted(fields - _fields(right))
        if not wrong and not stray:
            return []
        commands: list[RedisCommand] = []
        for mark in sorted(wrong)[:_AT_ONCE]:
            commands += await self._rewrite(mark, counted.get(mark))
        if stray:
            commands.append(("HDEL", self._key("causes"), *stray[:_AT_ONCE]))
        name = unquote(self.job_type)
        message = f"the errors of {name!r} are not counted as its failed jobs have them"
        finding = Finding("error-drift", message, None, "count again")
        return [RedisFinding(finding, tuple(commands), inspection)]

    async def _rewrite(
        self, mark: bytes, failed: FailedJobs | None
    ) -> list[RedisCommand]:
        errors, causes = self._key("errors"), self._key("causes")
        if failed is None:
            return [("ZREM", errors, mark)]
        [record] = await self.shard.read([("GET", self.shard.keys.job(failed.job_id))])
        last = b"%d\t%d\t%s" % (failed.last_at, failed.job_id, _error_in(record or b""))
        return [
            ("ZADD", errors, failed.jobs, mark),
            ("HSET", causes, mark, failed.first_at, mark + b":last", last),
        ]

    def _key(self, structure: str) -> str:
        return self.shard.keys.of_shard(f"{self.job_type}:{structure}")


def _error_in(record: bytes) -> bytes:
    """Return the error in the last line of a record, as JSON."""
    error: Error | None = None
    for attempt in read_story(record.rpartition(b"\n")[2]):
        error = attempt.error
    return b"" if error is None else encode_json(Error(error.kind, error.message))


def _fields(marks: Iterable[bytes]) -> set[bytes]:
    """Return the fields of ``:causes`` that errors must have."""
    return {field for mark in marks for field in (mark, mark + b":last")}
