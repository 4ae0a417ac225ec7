"""Shards of a store, as a check reads, inspects and repairs them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from kue.store.redis.keys import MAX_SEQUENCE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from kue.store.redis.keys import Keys

#: What `inspect.lua` can inspect: a kind, and its arguments.
Subject: TypeAlias = tuple[str | int | bytes, ...]
#: A Redis command, word by word.
RedisCommand: TypeAlias = tuple[str | int | bytes, ...]


class Inspection(NamedTuple):
    """The facts about a subject at one moment."""

    digest: bytes
    facts: list[bytes]
    #: By the engine's clock, Unix ms.
    now: int


class Shard:
    """The keys of a shard, and calls to it."""

    def __init__(
        self,
        number: int,
        keys: Keys,
        run: Callable[..., Awaitable[Any]],
        read: Callable[[int, list[RedisCommand]], Awaitable[list[Any]]],
    ) -> None:
        self.number = number
        self.keys = keys
        self._run = run
        self._read = read

    async def read(self, commands: Sequence[RedisCommand]) -> list[Any]:
        """Run several reading commands in one round trip."""
        return await self._read(self.number, list(commands))

    async def inspect(self, subjects: Sequence[Subject]) -> list[Inspection]:
        """Return the facts about each subject, each read atomically."""
        args: list[Any] = []
        for subject in subjects:
            args += (len(subject), *subject)
        now, *answers = await self._run(self.number, "inspect", *args)
        return [Inspection(digest, facts, now) for digest, facts in answers]

    async def repair(
        self, subject: Subject, digest: bytes, commands: Sequence[RedisCommand]
    ) -> str:
        """Run *commands* if *subject* is unchanged: done | changed | refused."""
        args: list[Any] = [digest, len(subject), *subject]
        for command in commands:
            args += (len(command), *command)
        word: bytes = await self._run(self.number, "repair", *args)
        return word.decode()


class ShardMap:
    """On which shard each job lives, with the keys of all shards."""

    def __init__(self, keys: Sequence[Keys]) -> None:
        self._keys = keys
        self.shards = len(keys)

    def shard_of(self, job_id: int) -> int:
        return job_id % self.shards

    def keys_of(self, job_id: int) -> Keys:
        return self._keys[self.shard_of(job_id)]

    def sequence_of(self, job_id: int) -> int:
        return job_id // self.shards

    def is_possible(self, job_id: int, shard: int | None = None) -> bool:
        """Return whether there can be such a job, on *shard* or at all."""
        is_small = self.sequence_of(job_id) <= MAX_SEQUENCE
        return is_small and shard in (None, self.shard_of(job_id))
