"""What is to be looked at again, and again once it was mended."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from kue.store.redis.doctor.shard import Seen, Shard, Subject
    from kue.store.redis.doctor.trouble import Trouble


class Look(NamedTuple):
    """One look: what was looked at, the digest of what was seen, and the verdict."""

    subject: Subject
    digest: bytes
    troubles: list[Trouble]


class Case(ABC):
    """Something suspicious."""

    shard: Shard

    @abstractmethod
    async def look(self) -> Look:
        """Look at it anew."""


class PlainCase(Case):
    """A subject of one shard with a judge of its own."""

    def __init__(
        self, shard: Shard, subject: Subject, judge: Callable[[Seen], list[Trouble]]
    ) -> None:
        self.shard = shard
        self.subject = subject
        self.judge = judge

    async def look(self) -> Look:
        [seen] = await self.shard.inspect([self.subject])
        return Look(self.subject, seen.digest, self.judge(seen))
