"""A master, its replica, and the three Sentinels that watch over them."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import redis

from tests.support.servers import (
    HOST,
    RedisServer,
    free_port,
    server_binary,
    wait_until,
)

SERVICE = "mymaster"
#: The master is thought dead after this long; the rest of a fail-over takes about 1 s.
DOWN_AFTER_MS = 500


class Replicated:
    """A master and a replica in step with it."""

    def __init__(
        self, directory: Path, *, kind: type[RedisServer] = RedisServer
    ) -> None:
        self.master = _server(directory / "master", kind)
        self.replica = _server(directory / "replica", kind)
        say(self.replica, "REPLICAOF", HOST, str(self.master.port))
        wait_until(self.is_in_step, "the replica is in step")

    def promote(self) -> None:
        """Make the replica a master of its own: later writes to the other are lost."""
        if self.master.is_running:
            wait_until(self.is_in_step, "the replica is in step")
        say(self.replica, "REPLICAOF", "NO", "ONE")

    def stop(self) -> None:
        # Killed, because a master that is asked to end waits for its replica.
        self.master.kill()
        self.replica.kill()

    def is_in_step(self) -> bool:
        info = info_of(self.replica, "replication")
        there = info_of(self.master, "replication")["master_repl_offset"]
        is_up = info["role"] == "slave" and info["master_link_status"] == "up"
        return is_up and bool(info["slave_repl_offset"] >= there)


class Sentinels:
    """Three Sentinels, which agree on who is master."""

    def __init__(
        self,
        directory: Path,
        master: RedisServer,
        *,
        down_after_ms: int = DOWN_AFTER_MS,
        wrap: Callable[[list[str]], list[str]] = list,
    ) -> None:
        """Start them; *wrap* makes the command that starts another command."""
        self._directory = directory
        self._wrap = wrap
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self.ports = [free_port() for _ in range(3)]
        for port in self.ports:
            self._configure(port, master, down_after_ms)
            self.start_one(port)
        self.until_acquainted()

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

    def protect(self, password: str) -> None:
        """Have all of them ask for a password from now on."""
        for port in self.ports:
            with closing(redis.Redis(host=HOST, port=port)) as client:
                send: Any = client.execute_command
                send("ACL", "SETUSER", "default", "resetpass", f">{password}")

    def start_one(self, port: int) -> None:
        config = str(self._config_of(port))
        command = self._wrap([server_binary(), config, "--sentinel"])
        self._processes[port] = subprocess.Popen(command, stdout=subprocess.DEVNULL)

    def stop_one(self) -> int:
        """Kill one of them; return its port, at which it can be started again."""
        port, process = self._processes.popitem()
        process.kill()
        process.wait()
        return port

    def stop(self) -> None:
        while self._processes:
            self.stop_one()

    def until_acquainted(self) -> None:
        wait_until(self._are_acquainted, "the Sentinels know each other")

    def fail_over(self) -> None:
        """Have the replica take over, whatever the master does."""
        wait_until(self._has_failed_over, "Sentinel knows a replica to promote")

    def has_master(self, server: RedisServer) -> bool:
        """Return whether all of them call *server* the master."""
        return all(_master_at(port) == server.port for port in self.ports)

    def _has_failed_over(self) -> bool:
        with closing(redis.Redis(host=HOST, port=self.ports[0])) as client:
            send: Any = client.execute_command
            try:
                send("SENTINEL", "FAILOVER", SERVICE)
            except redis.ResponseError as exc:
                # On a busy machine it may not know of the replica for a while.
                if "NOGOODSLAVE" not in str(exc):
                    raise
                return False
        return True

    def _config_of(self, port: int) -> Path:
        return self._directory / f"sentinel-{port}.conf"

    def _configure(self, port: int, master: RedisServer, down_after_ms: int) -> None:
        self._config_of(port).write_text(
            f"port {port}\n"
            f"bind {HOST}\n"
            f'dir "{self._directory}"\n'
            f"sentinel monitor {SERVICE} {HOST} {master.port} 2\n"
            f"sentinel down-after-milliseconds {SERVICE} {down_after_ms}\n"
            f"sentinel failover-timeout {SERVICE} 5000\n"
        )

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
    return server.send(*command)


def info_of(server: RedisServer, section: str) -> dict[str, Any]:
    with closing(server.client()) as client:
        return dict(client.info(section))


def _master_at(port: int) -> int:
    """Return the port of the master as the Sentinel at *port* knows it."""
    with closing(redis.Redis(host=HOST, port=port)) as client:
        ask: Any = client.sentinel_get_master_addr_by_name
        return int(ask(SERVICE)[1])


def _server(directory: Path, kind: type[RedisServer]) -> RedisServer:
    directory.mkdir(parents=True)
    # A replica that a test froze is not given up, however long that takes.
    config = {"repl-diskless-sync-delay": "0", "repl-timeout": "600"}
    return kind(directory, config=config)
