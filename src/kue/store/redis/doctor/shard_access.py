"""Shards of a store, as a check reads, inspects and repairs them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kue.store.redis.sharding import Shards

#: What `doctor_inspect.lua` can inspect: a kind, and its arguments.
Subject: TypeAlias = tuple[str | int | bytes, ...]
#: A Redis command, word by word.
RedisCommand: TypeAlias = tuple[str | int | bytes, ...]
#: Subjects inspected in one call: a few milliseconds of Redis.
MAX_SUBJECTS = 100


class Inspection(NamedTuple):
    """The facts about a subject at one moment: what a repair rests on."""

    shard: Shard
    subject: Subject
    digest: bytes
    facts: list[bytes]
    #: By the engine's clock, Unix ms.
    now: int


class Shard:
    """The keys of a shard, its jobs, and calls to it."""

    def __init__(self, db: Shards, number: int, shards: Sequence[Shard]) -> None:
        self.number = number
        self.keys = db.keys[number]
        self._db = db
        #: All shards, with this one.
        self._shards = shards

    def home_of(self, job_id: int) -> Shard:
        """Return the shard that a job lives on."""
        return self._shards[job_id % len(self._shards)]

    def sequence_of(self, job_id: int) -> int:
        return job_id // len(self._shards)

    def id_of(self, sequence: int) -> int:
        return sequence * len(self._shards) + self.number

    async def read(self, commands: Sequence[RedisCommand]) -> list[Any]:
        """Run several reading commands in one round trip."""
        return await self._db.read_many(self.number, list(commands))

    async def inspect(self, subjects: Sequence[Subject]) -> list[Inspection]:
        """Return the facts about each subject, each read atomically."""
        found: list[Inspection] = []
        for start in range(0, len(subjects), MAX_SUBJECTS):
            part = subjects[start : start + MAX_SUBJECTS]
            args = [word for subject in part for word in (len(subject), *subject)]
            now, *answers = await self._db.run(self.number, "doctor_inspect", *args)
            for subject, (digest, facts) in zip(part, answers, strict=True):
                found.append(Inspection(self, subject, digest, facts, now))
        return found

    async def repair(
        self, inspection: Inspection, commands: Sequence[RedisCommand]
    ) -> str:
        """Run *commands* if nothing has changed: done | changed | refused."""
        subject = inspection.subject
        args = [word for command in commands for word in (len(command), *command)]
        word: bytes = await self._db.run(
            self.number,
            "doctor_repair",
            inspection.digest,
            len(subject),
            *subject,
            *args,
        )
        return word.decode()


def text_of(value: bytes) -> str:
    """Return a value as text: damage need not be text, and is shown all the same."""
    return value.decode("utf-8", "backslashreplace")
