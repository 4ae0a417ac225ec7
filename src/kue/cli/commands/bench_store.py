"""Where ``kue bench`` works: beside what is there, and without a trace afterwards."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

import msgspec

from kue.client.queue import Kue
from kue.model.errors import StoreError, StoreUnavailable
from kue.store.sqlite.file_url import FileLocation

if TYPE_CHECKING:
    from pathlib import Path

    from kue.model.settings import Settings

NAME = "kue-bench"
#: Jobs that are weighed.
WEIGHED = 2_000
WEIGHT = "weight"


class BenchStore(Protocol):
    """A place for jobs that nobody will miss."""

    #: How to reach it.
    settings: Settings
    #: What becomes of the store meanwhile, for the person who owns it.
    notice: str

    async def weigh(self) -> float | None:
        """Return the bytes a waiting job takes, or None where nobody can tell."""

    async def clear(self) -> None:
        """Remove everything."""


def ground_for(known: Settings) -> BenchStore:
    """Return a place of our own in the store that *known* names."""
    name = f"{NAME}-{secrets.token_hex(6)}"
    scheme = urlsplit(known.url).scheme
    if scheme == "memory":
        return MemoryBenchStore(known)
    return (FileBenchStore if scheme == "sqlite" else RedisBenchStore)(known, name)


class RedisBenchStore:
    """Keys with a prefix of their own, on a server that others may use."""

    def __init__(self, known: Settings, prefix: str) -> None:
        # What the server would evict here is no loss.
        self.settings = msgspec.structs.replace(
            known, prefix=prefix, allow_eviction=True
        )
        self.notice = f"its keys begin with {{{prefix} and are removed afterwards"
        # Here, so that commands on SQLite need no redis.
        from kue.store.redis.namespace import Namespace

        self._namespace = Namespace(self.settings)

    async def weigh(self) -> float | None:
        async with queue_at(self.settings) as q:
            added = await q.enqueue_many(WEIGHT, ({"i": i} for i in range(WEIGHED)))
        try:
            return await self._namespace.weigh(WEIGHT, [job.id for job in added])
        except StoreUnavailable:
            raise
        except StoreError:
            return None

    async def clear(self) -> None:
        try:
            await self._namespace.erase()
        finally:
            await self._namespace.close()


class FileBenchStore:
    """Files beside the store: the same disk, another database."""

    def __init__(self, known: Settings, name: str) -> None:
        path = FileLocation.of(known.url).path
        assert path is not None, "a sqlite URL names a file"
        self._path = path.with_name(f".{name}.db")
        self._scale = path.with_name(f".{name}-weight.db")
        self.settings = _moved(known, self._path)
        self.notice = f"in a file beside {path.name}, which is removed afterwards"

    async def weigh(self) -> float | None:
        async with queue_at(_moved(self.settings, self._scale)) as q:
            await q.open()
            before = self._scale.stat().st_size
            await q.enqueue_many(WEIGHT, ({"i": i} for i in range(WEIGHED)))
        # Closed: everything is in the file now.
        return (self._scale.stat().st_size - before) / WEIGHED

    async def clear(self) -> None:
        for path in (self._path, self._scale):
            for end in ("", "-wal", "-shm"):
                path.with_name(path.name + end).unlink(missing_ok=True)


class MemoryBenchStore:
    """The memory of this process."""

    def __init__(self, known: Settings) -> None:
        self.settings = known
        self.notice = "in the memory of this process"

    async def weigh(self) -> float | None:
        return None

    async def clear(self) -> None: ...


def queue_at(known: Settings) -> Kue:
    """Return a queue with these settings; what is not of a place comes as always."""
    return Kue(known.url, prefix=known.prefix, allow_eviction=known.allow_eviction)


def _moved(known: Settings, path: Path) -> Settings:
    return msgspec.structs.replace(known, url=f"sqlite:///{path}")
