"""A master, its replica, and the three Sentinels that watch over them."""

from __future__ import annotations

import subprocess
from contextlib import closing
from typing import TYPE_CHECKING, Any

import redis

from tests.support.servers import (
    HOST,
    RedisServer,
    free_port,
    server_binary,
    wait_until,
)

if TYPE_CHECKING:
    from pathlib import Path

SERVICE = "mymaster"
#: The master is thought dead after this long; the rest of a fail-over takes about 1 s.
DOWN_AFTER_MS = 500


class Replicated:
    """A master and a replica in step with it."""

    def __init__(self, directory: Path) -> None:
        self.master = _server(directory / "master")
        self.replica = _server(directory / "replica")
        say(self.replica, "REPLICAOF", HOST, str(self.master.port))
        wait_until(self._is_in_step, "the replica is in step")

    def promote(self) -> None:
        """Make the replica a master of its own: what the other is told now is lost."""
        if self.master.is_running:
            wait_until(self._is_in_step, "the replica is in step")
        say(self.replica, "REPLICAOF", "NO", "ONE")

    def stop(self) -> None:
        # Killed, because a master that is asked to end waits for its replica.
        self.master.kill()
        self.replica.kill()

    def _is_in_step(self) -> bool:
        info = info_of(self.replica, "replication")
        there = info_of(self.master, "replication")["master_repl_offset"]
        is_up = info["role"] == "slave" and info["master_link_status"] == "up"
        return is_up and bool(info["slave_repl_offset"] >= there)


class Sentinels:
    """Three Sentinels, which agree on who is master."""

    def __init__(self, directory: Path, master: RedisServer) -> None:
        self._directory = directory
        self._processes: list[subprocess.Popen[bytes]] = []
        self.ports = [free_port() for _ in range(3)]
        for port in self.ports:
            self._start(port, master)
        wait_until(self._are_acquainted, "the Sentinels know each other")

    @property
    def url(self) -> str:
        hosts = ",".join(f"{HOST}:{port}" for port in self.ports)
        return f"redis+sentinel://{hosts}/{SERVICE}"

    def callers(self) -> list[str]:
        """Return the addresses of all clients but the Sentinels themselves."""
        found: list[str] = []
        for port in self.ports:
            with closing(redis.Redis(host=HOST, port=port)) as client:
                ask: Any = client.client_list
                found += (
                    known["addr"]
                    for known in ask()
                    if not known["name"].startswith("sentinel-")
                    and known["id"] != str(client.client_id())
                )
        return found

    def stop_one(self) -> None:
        process = self._processes.pop()
        process.kill()
        process.wait()

    def stop(self) -> None:
        while self._processes:
            self.stop_one()

    def _start(self, port: int, master: RedisServer) -> None:
        config = self._directory / f"sentinel-{port}.conf"
        config.write_text(
            f"port {port}\n"
            f"bind {HOST}\n"
            f'dir "{self._directory}"\n'
            f"sentinel monitor {SERVICE} {HOST} {master.port} 2\n"
            f"sentinel down-after-milliseconds {SERVICE} {DOWN_AFTER_MS}\n"
            f"sentinel failover-timeout {SERVICE} 5000\n"
        )
        command = [server_binary(), str(config), "--sentinel"]
        self._processes.append(subprocess.Popen(command, stdout=subprocess.DEVNULL))

    def _are_acquainted(self) -> bool:
        return all(self._knows_all(port) for port in self.ports)

    @staticmethod
    def _knows_all(port: int) -> bool:
        with closing(redis.Redis(host=HOST, port=port)) as client:
            ask: Any = client.sentinel_master
            try:
                seen = ask(SERVICE)
            except redis.RedisError:
                return False
        return bool(seen["num-other-sentinels"] == 2 and seen["num-slaves"] == 1)


def say(server: RedisServer, *command: str) -> Any:
    """Send the server a command as an operator would."""
    with closing(server.client()) as client:
        send: Any = client.execute_command
        return send(*command)


def info_of(server: RedisServer, section: str) -> dict[str, Any]:
    with closing(server.client()) as client:
        return dict(client.info(section))


def _server(directory: Path) -> RedisServer:
    directory.mkdir(parents=True)
    # A replica that a test froze is not given up, however long that takes.
    config = {"repl-diskless-sync-delay": "0", "repl-timeout": "600"}
    return RedisServer(directory, config=config)
