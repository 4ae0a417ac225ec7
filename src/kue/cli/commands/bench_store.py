"""Temporary stores for ``kue bench``: beside existing data, removed afterwards."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from kue.client.queue import Kue
from kue.model.errors import StoreError, StoreUnavailable
from kue.store.sqlite.file_url import FileLocation

if TYPE_CHECKING:
    from pathlib import Path

    from kue.model.settings import Settings

NAME = "kue-bench"
#: Jobs added to measure their size.
WEIGHED = 2_000
WEIGHT = "weight"


class BenchStore:
    """A temporary store for jobs: the memory of this process."""

    def __init__(self, settings: Settings, notice: str) -> None:
        #: How to connect to it.
        self.settings = settings
        #: Where its data is, for the user.
        self.notice = notice

    async def weigh(self) -> float | None:
        """Return the bytes that a waiting job takes, or None if unknown."""
        return None

    async def clear(self) -> None:
        """Remove everything."""


class RedisBenchStore(BenchStore):
    """Keys under a separate prefix, on a server that others may use."""

    def __init__(self, config: Settings, prefix: str) -> None:
        super().__init__(
            # Eviction does no harm here.
            msgspec.structs.replace(config, prefix=prefix, allow_eviction=True),
            f"its keys begin with {{{prefix} and are removed afterwards",
        )
        # Imported here, so that commands on SQLite do not need redis.
        from kue.store.redis.temporary_prefix import Namespace

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


class FileBenchStore(BenchStore):
    """Separate files in the folder of the store, and so on the same disk."""

    def __init__(self, config: Settings, name: str) -> None:
        path = FileLocation.of(config.url).path
        assert path is not None, "a sqlite URL names a file"
        self._path = path.with_name(f".{name}.db")
        self._scale = path.with_name(f".{name}-weight.db")
        notice = f"in a file beside {path.name}, which is removed afterwards"
        super().__init__(_moved(config, self._path), notice)

    async def weigh(self) -> float | None:
        async with queue_at(_moved(self.settings, self._scale)) as q:
            await q.open()
            before = self._scale.stat().st_size
            await q.enqueue_many(WEIGHT, ({"i": i} for i in range(WEIGHED)))
        # The queue is closed: everything is in the file now.
        return (self._scale.stat().st_size - before) / WEIGHED

    async def clear(self) -> None:
        for path in (self._path, self._scale):
            for end in ("", "-wal", "-shm"):
                path.with_name(path.name + end).unlink(missing_ok=True)


def bench_store_for(config: Settings) -> BenchStore:
    """Return a temporary store beside the one of *config*."""
    name = f"{NAME}-{secrets.token_hex(6)}"
    scheme = urlsplit(config.url).scheme
    if scheme == "memory":
        return BenchStore(config, "in the memory of this process")
    return (FileBenchStore if scheme == "sqlite" else RedisBenchStore)(config, name)


def queue_at(config: Settings) -> Kue:
    """Return a queue at this URL and prefix; other settings are loaded as usual."""
    return Kue(config.url, prefix=config.prefix, allow_eviction=config.allow_eviction)


def _moved(config: Settings, path: Path) -> Settings:
    return msgspec.structs.replace(config, url=f"sqlite:///{path}")
