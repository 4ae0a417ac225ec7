"""One shard, as the parts of a check reach it: look, look closely, mend."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from kue.store.redis.keys import Keys

#: What `inspect.lua` can look at: a kind, and what it needs.
Subject: TypeAlias = tuple[str | int | bytes, ...]
#: A Redis command, word by word.
Command: TypeAlias = tuple[str | int | bytes, ...]


class Seen(NamedTuple):
    """What was so of a subject at one moment."""

    digest: bytes
    facts: list[bytes]
    #: By the engine's clock, Unix ms.
    at: int


class Shard:
    """A shard's keys, and calls that go to it."""

    def __init__(
        self,
        number: int,
        keys: Keys,
        run: Callable[..., Awaitable[Any]],
        read: Callable[[int, list[Command]], Awaitable[list[Any]]],
    ) -> None:
        self.number = number
        self.keys = keys
        self._run = run
        self._read = read

    async def read(self, commands: Sequence[Command]) -> list[Any]:
        """Read many things in one round trip."""
        return await self._read(self.number, list(commands))

    async def inspect(self, subjects: Sequence[Subject]) -> list[Seen]:
        """Look at each subject closely, each at one moment."""
        args: list[Any] = []
        for subject in subjects:
            args += (len(subject), *subject)
        now, *answers = await self._run(self.number, "inspect", *args)
        return [Seen(digest, facts, now) for digest, facts in answers]

    async def mend(
        self, subject: Subject, digest: bytes, commands: Sequence[Command]
    ) -> str:
        """Carry out *commands* if *subject* is as it was: done | changed | refused."""
        args: list[Any] = [digest, len(subject), *subject]
        for command in commands:
            args += (len(command), *command)
        word: bytes = await self._run(self.number, "mend", *args)
        return word.decode()
