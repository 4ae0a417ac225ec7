"""Shards of a store: the keys of each, and running scripts on the right one."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any, TypeVar

from kue.model.errors import StoreUnavailable
from kue.store.redis.keys import Keys, root_of, shard_of_type
from kue.store.redis.wire.client import RedisClient
from kue.store.redis.wire.server_check import ServerInfo, probe, verify
from kue.store.redis.wire.url import read_url

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from kue.model.settings import Settings
    from kue.store.redis.wire.url import RedisAddress

T = TypeVar("T")


def ms_of(time: list[bytes]) -> int:
    """Return the reply of TIME, seconds and microseconds, in ms."""
    seconds, micros = map(int, time)
    return seconds * 1000 + micros // 1000


def _retrieve(opening: asyncio.Task[ServerInfo]) -> None:
    """Retrieve the exception: asyncio warns of it if every caller has given up."""
    if not opening.cancelled():
        opening.exception()


class Shards:
    """The shards of one store, and what this process knows of them."""

    def __init__(self, settings: Settings, address: RedisAddress | None = None) -> None:
        address = self.address = address or read_url(settings.url)
        self.name = address.name
        self.settings = settings
        self.count = address.shards
        self.client = RedisClient(address, budget_seconds=settings.budget / 1000)
        self.keys = [
            Keys(root_of(settings.prefix, shard, self.count))
            for shard in range(self.count)
        ]
        self._opening: asyncio.Task[ServerInfo] | None = None
        self.durability = ""
        self._ids: list[bytes] = []
        self._pid = os.getpid()
        #: The last call of each producer; the one that called last is the last.
        self.last_seqs: dict[str, int] = {}
        #: By shard: what to add to our monotonic clock to get Redis' time.
        self.clocks: dict[int, float] = {}
        #: By shard: our last pass of maintenance (at first, the last one known); the
        #: last pass of any process; and when the next one was due when we last asked.
        self.our_pass: dict[int, float] = {}
        self.last_pass: dict[int, float] = {}
        self.next_look: dict[int, float] = {}

    async def open(self) -> str:
        # Sockets shared with the parent process would mix up the replies of both.
        if os.getpid() != self._pid:
            raise StoreUnavailable(
                "this queue was opened before the process forked; "
                "make a new Kue() in the child"
            )
        if not self.durability:
            # Callers that come while it is being opened share the attempt.
            if self._opening is None:
                self._opening = asyncio.create_task(self._probe(), name="kue-open")
                self._opening.add_done_callback(_retrieve)
            self.durability, self._ids = await asyncio.shield(self._opening)
        return self.durability

    async def verify(self) -> None:
        await self.open()
        await verify(self.client, self.keys, self._ids, self.settings)

    async def _probe(self) -> ServerInfo:
        try:
            async with asyncio.timeout(self.settings.budget / 1000):
                return await probe(self.client, self.keys, self.settings)
        except TimeoutError as exc:
            raise self.client.translate(exc) from exc
        finally:
            self._opening = None

    async def close(self) -> None:
        self.durability = ""
        if self._opening is not None:
            self._opening.cancel()
        await self.client.close()

    async def now(self) -> int:
        return ms_of(await self.client.read(self.keys[0].root, "TIME"))

    async def run(
        self,
        shard: int,
        script: str,
        *args: Any,
        now: int | None = None,
        heartbeat: bool = False,
    ) -> Any:
        """Run a script on one shard, opening the store first if necessary."""
        if not self.durability or os.getpid() != self._pid:
            await self.open()
        return await self.client.run(
            script,
            self.keys[shard].root,
            "" if now is None else now,
            self.count,
            shard,
            *args,
            heartbeat=heartbeat,
        )

    async def read_many(self, shard: int, commands: list[tuple[Any, ...]]) -> list[Any]:
        """Send commands that only read to one shard, in one round trip."""
        if not self.durability:
            await self.open()
        return await self.client.read_many(self.keys[shard].root, commands)

    async def read(self, shard: int, *command: Any) -> Any:
        """Send a command that only reads to one shard."""
        [reply] = await self.read_many(shard, [command])
        return reply

    async def read_all(self, command: str, structure: str) -> list[Any]:
        """Send a command that only reads one key to every shard at once."""
        return await self.on_all(
            lambda shard: self.read(
                shard, command, self.keys[shard].of_shard(structure)
            )
        )

    async def on_all(self, call: Callable[[int], Awaitable[T]]) -> list[T]:
        """Make *call* on every shard at once."""
        return await asyncio.gather(*(call(shard) for shard in range(self.count)))

    def shard_of(self, job_id: int) -> int:
        return job_id % self.count

    def home_of(self, job_type: str) -> int:
        return shard_of_type(job_type, self.count)

    def by_shard(self, job_ids: Sequence[int]) -> dict[int, list[int]]:
        """Return the positions in *job_ids*, by shard."""
        if self.count == 1:
            return {0: list(range(len(job_ids)))} if job_ids else {}
        positions: dict[int, list[int]] = {}
        for position, job_id in enumerate(job_ids):
            positions.setdefault(self.shard_of(job_id), []).append(position)
        return positions

    def homes(self, types: Iterable[str]) -> dict[int, list[str]]:
        """Return *types*, by shard."""
        homes: dict[int, list[str]] = {}
        for job_type in types:
            homes.setdefault(self.home_of(job_type), []).append(job_type)
        return homes
