"""The Redis server that all contenders share, and its statistics."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from tests.support.servers import RedisServer

from benchmarks.peers.cores import pin

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.peers.cores import Cores

#: Commands of the benchmark itself, or of a client that connects.
NOT_OF_JOBS = frozenset(
    {"info", "config|resetstat", "hello", "client|setinfo", "client|setname", "select"}
)


class Server:
    """A redis-server without persistence, on a free port, pinned to cores."""

    def __init__(self, folder: Path, cores: Cores) -> None:
        # Async peers open a connection for each add in flight.
        self._server = RedisServer(folder, config={"maxclients": "4000"})
        pin(self._server.pid, cores)
        self._client = self._server.client()
        self.port = self._server.port

    def close(self) -> None:
        self._client.close()
        self._server.stop()

    @property
    def version(self) -> str:
        return str(self._info("server")["redis_version"])

    def empty(self) -> None:
        self._client.flushall()
        # FLUSHALL keeps scripts.
        self._client.script_flush()

    def memory(self) -> int:
        return int(self._info("memory")["used_memory"])

    def reset_commands(self) -> None:
        self._client.config_resetstat()

    def commands(self) -> int:
        """Return how many commands ran since the reset, including those in scripts."""
        stats = self._info("commandstats")
        names = {name.removeprefix("cmdstat_"): name for name in stats}
        return sum(
            int(stats[names[name]]["calls"]) for name in names.keys() - NOT_OF_JOBS
        )

    def reads(self) -> int:
        """Return how many reads from clients were processed since the reset."""
        return int(self._info("stats")["total_reads_processed"])

    def _info(self, section: str) -> dict[str, Any]:
        info: dict[str, Any] = self._client.info(section)
        return info


@contextmanager
def started(cores: Cores) -> Iterator[Server]:
    with TemporaryDirectory() as folder:
        server = Server(Path(folder), cores)
        try:
            yield server
        finally:
            server.close()
