"""Shards of a store: the keys of each, and running scripts on the right one."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any, Self, TypeVar

from kue.model.errors import StoreUnavailable
from kue.store.contract import Store
from kue.store.redis.keys import Keys, root_of, shard_of_type
from kue.store.redis.wire.client import RedisClient
from kue.store.redis.wire.server_check import ServerInfo, probe, verify
from kue.store.redis.wire.url import read_url

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from kue.model.settings import Settings
    from kue.store.values import ExpectedState

T = TypeVar("T")


def _retrieve(opening: asyncio.Task[ServerInfo]) -> None:
    """Retrieve the exception: asyncio warns of it if every caller has given up."""
    if not opening.cancelled():
        opening.exception()


class Sharding(Store):
    """Base of all parts of the Redis store."""

    def __init__(self, settings: Settings) -> None:
        address = read_url(settings.url)
        self.name = address.name
        self._settings = settings
        self._shards = address.shards
        self._client = RedisClient(address, budget_seconds=settings.budget / 1000)
        self._keys = [
            Keys(root_of(settings.prefix, shard, self._shards))
            for shard in range(self._shards)
        ]
        self._opening: asyncio.Task[ServerInfo] | None = None
        self._durability = ""
        self._ids: list[bytes] = []
        self._pid = os.getpid()

    async def open(self) -> str:
        # Sockets shared with the parent process would mix up the replies of both.
        if os.getpid() != self._pid:
            raise StoreUnavailable(
                "this queue was opened before the process forked; "
                "make a new Kue() in the child"
            )
        if not self._durability:
            # Callers that come while it is being opened share the attempt.
            if self._opening is None:
                self._opening = asyncio.create_task(self._probe(), name="kue-open")
                self._opening.add_done_callback(_retrieve)
            self._durability, self._ids = await asyncio.shield(self._opening)
        return self._durability

    @property
    def losses(self) -> int:
        return self._client.losses

    async def verify(self) -> None:
        await self.open()
        await verify(
            self._client,
            self._keys,
            self._ids,
            name=self.name,
            allow_eviction=self._settings.allow_eviction,
        )

    async def _probe(self) -> ServerInfo:
        try:
            async with asyncio.timeout(self._settings.budget / 1000):
                return await probe(
                    self._client,
                    self._keys,
                    prefix=self._settings.prefix,
                    allow_eviction=self._settings.allow_eviction,
                )
        except TimeoutError as exc:
            raise self._client.translate(exc) from exc
        finally:
            self._opening = None

    async def close(self) -> None:
        self._durability = ""
        if self._opening is not None:
            self._opening.cancel()
        await self._client.close()

    def twin(self) -> Self:
        return type(self)(self._settings)

    async def now(self) -> int:
        seconds, micros = await self._client.read(self._keys[0].root, "TIME")
        return int(seconds) * 1000 + int(micros) // 1000

    async def _run(
        self,
        shard: int,
        script: str,
        *args: Any,
        now: int | None = None,
        heartbeat: bool = False,
    ) -> Any:
        """Run a script on one shard, opening the store first if necessary."""
        if not self._durability or os.getpid() != self._pid:
            await self.open()
        return await self._client.run(
            script,
            self._keys[shard].root,
            "" if now is None else now,
            self._shards,
            shard,
            *args,
            heartbeat=heartbeat,
        )

    async def _read_many(
        self, shard: int, commands: list[tuple[Any, ...]]
    ) -> list[Any]:
        """Send commands that only read to one shard, in one round trip."""
        if not self._durability:
            await self.open()
        return await self._client.read_many(self._keys[shard].root, commands)

    async def _on_all(self, call: Callable[[int], Awaitable[T]]) -> list[T]:
        """Make *call* on every shard at once."""
        return await asyncio.gather(*(call(shard) for shard in range(self._shards)))

    def _shard_of(self, job_id: int) -> int:
        return job_id % self._shards

    def _home_of(self, job_type: str) -> int:
        return shard_of_type(job_type, self._shards)

    def _by_shard(self, job_ids: Sequence[int]) -> dict[int, list[int]]:
        """Return the positions in *job_ids*, by shard."""
        if self._shards == 1:
            return {0: list(range(len(job_ids)))} if job_ids else {}
        positions: dict[int, list[int]] = {}
        for position, job_id in enumerate(job_ids):
            positions.setdefault(self._shard_of(job_id), []).append(position)
        return positions

    def _homes(self, types: Iterable[str]) -> dict[int, list[str]]:
        """Return *types*, by shard."""
        homes: dict[int, list[str]] = {}
        for job_type in types:
            homes.setdefault(self._home_of(job_type), []).append(job_type)
        return homes

    async def _run_on_jobs(
        self,
        script: str,
        job_ids: Sequence[int],
        *args: Any,
        seen: Mapping[int, ExpectedState],
        size: int,
        now: int | None = None,
    ) -> list[list[bytes]]:
        """Run an operator's script on jobs; it returns *size* values per job."""
        answers: list[list[bytes]] = [[] for _ in job_ids]
        for shard, positions in self._by_shard(job_ids).items():
            while positions:
                jobs: list[Any] = []
                for position in positions:
                    job_id = job_ids[position]
                    jobs += job_id, *seen_as_arguments(seen.get(job_id))
                # It stops after as many as it may touch at once: see lib/named.lua.
                reply = await self._run(shard, script, *args, *jobs, now=now)
                count = len(reply) // size
                for index, position in enumerate(positions[:count]):
                    answers[position] = reply[index * size : (index + 1) * size]
                positions = positions[count:]
        return answers


def seen_as_arguments(seen: ExpectedState | None) -> tuple[int | str, str]:
    """Return what the caller saw of a job as ``lib/seen.lua`` expects it."""
    created_at, ending = (None, None) if seen is None else seen
    # "-", with which no line begins, stands for a job that had not ended.
    mark = "" if ending is None else ending or "-"
    return "" if created_at is None else created_at, mark
