"""
Redis servers that belong to the tests: on free ports, in a folder of their own.

No test ever talks to a Redis it did not start, so none can hurt a developer's data.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import redis

from kue.store.redis.wire.connecting import DRIVER
from tests.support.patience import PATIENCE_SECONDS

HOST = "127.0.0.1"
#: A free port may be taken by someone else before the server binds it.
TRIES = 5
SLOTS = 16_384
#: Where servers of tests listen; Linux connects from 32768 on.
PORTS = (10_000, 32_000)

#: Nothing is written to disk unless a test asks for it.
_DEFAULTS = {"save": "", "appendonly": "no", "maxmemory-policy": "noeviction"}


class RedisServer:
    """
    One redis-server process, running from construction until `stop` or `kill`.

    *config* adds to or replaces the defaults (no persistence, no eviction), such as
    ``{"appendonly": "yes"}`` or ``{"maxmemory": "20mb"}``.
    """

    def __init__(
        self, directory: Path, *, config: Mapping[str, str] | None = None
    ) -> None:
        self.folder = directory
        self._config = {**_DEFAULTS, **(config or {})}
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0
        self._start_on_some_port()

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def url(self) -> str:
        return f"redis://{self.address}/0"

    @property
    def pid(self) -> int:
        """The process id; raises `AssertionError` when it does not run."""
        assert self._process is not None, "the server was stopped"
        return self._process.pid

    @property
    def cluster_port(self) -> int:
        """Where it listens to the other nodes of its cluster."""
        return int(self._config["cluster-port"])

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def client(self) -> redis.Redis:
        """Return a plain client, to be closed by the caller."""
        return redis.Redis(host=HOST, port=self.port, **DRIVER)

    def send(self, *command: Any) -> Any:
        """Send a command as an operator would, and return the reply."""
        with closing(self.client()) as client:
            send: Any = client.execute_command
            return send(*command)

    def empty(self) -> None:
        """Delete all there is."""
        # After every test, and making a client takes longer than this.
        with socket.create_connection((HOST, self.port), PATIENCE_SECONDS) as line:
            line.sendall(b"FLUSHALL\r\n")
            assert line.recv(64) == b"+OK\r\n"

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Stop the process where it is, for as long as the context lasts."""
        os.kill(self.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """End the process at once, as a crash would; killing twice is fine."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop(self) -> None:
        """End the process and wait until it is gone; stopping twice is fine."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(PATIENCE_SECONDS)
        finally:
            self.kill()

    def restart(self) -> None:
        """Start it again on the same port and folder, killing it first if it runs."""
        self.kill()
        if not self._start():
            raise RuntimeError(f"redis-server did not come back on port {self.port}")
        if self._config["appendonly"] == "yes":
            self._rewrite_log()

    def _rewrite_log(self) -> None:
        """Do what docs/guides/durability.md advises after a crash."""
        with closing(self.client()) as client:
            client.bgrewriteaof()
            wait_until(
                lambda: not client.info("persistence")["aof_rewrite_in_progress"],
                "the append-only file is rewritten",
            )

    def _start_on_some_port(self) -> None:
        for _ in range(TRIES):
            self.port = free_port()
            if self._start():
                return
        raise RuntimeError(f"redis-server did not start on any of {TRIES} free ports")

    def _start(self) -> bool:
        """Start the process; return whether it answers."""
        self._process = subprocess.Popen(self._command(), stdout=subprocess.DEVNULL)
        try:
            wait_until(self._answers_or_died, "redis-server answers")
        except BaseException:
            self.kill()
            raise
        if self.is_running:
            return True
        self.kill()
        return False

    def _command(self) -> list[str]:
        command = [server_binary(), "--bind", HOST, "--port", str(self.port)]
        command += ["--dir", str(self.folder)]
        for name, value in self._config.items():
            command += [f"--{name}", value]
        return command

    def _answers_or_died(self) -> bool:
        if not self.is_running:
            return True
        with closing(self.client()) as client:
            try:
                return bool(client.ping())
            except redis.RedisError:
                return False


class RedisCluster:
    """A Redis Cluster of masters only, which share the slots evenly."""

    def __init__(self, directory: Path, *, masters: int = 3) -> None:
        self.servers: list[RedisServer] = []
        try:
            for number in range(masters):
                self.servers.append(_cluster_node(directory / str(number)))
            self._join()
        except BaseException:
            self.stop()
            raise

    @property
    def addresses(self) -> str:
        return ",".join(server.address for server in self.servers)

    def url(self, *, shards: int) -> str:
        return f"redis+cluster://{self.addresses}?shards={shards}"

    def empty(self) -> None:
        for server in self.servers:
            server.empty()

    def stop(self) -> None:
        for server in self.servers:
            server.stop()

    def _join(self) -> None:
        first = self.servers[0]
        for number, server in enumerate(self.servers):
            low = number * SLOTS // len(self.servers)
            high = (number + 1) * SLOTS // len(self.servers) - 1
            _cluster(server, "SET-CONFIG-EPOCH", number + 1)
            _cluster(server, "ADDSLOTSRANGE", low, high)
            if server is not first:
                _cluster(server, "MEET", HOST, first.port, first.cluster_port)
        wait_until(self._is_whole, "the cluster is whole")

    def _is_whole(self) -> bool:
        infos = [_cluster(server, "INFO") for server in self.servers]
        return all(
            info["cluster_state"] == "ok"
            and int(info["cluster_known_nodes"]) == len(self.servers)
            for info in infos
        )


def server_binary() -> str:
    """Return the path of redis-server; a machine without one fails the tests."""
    binary = shutil.which("redis-server")
    if binary is None:
        raise RuntimeError("redis-server is not installed; run `make setup`")
    return binary


def free_port() -> int:
    """
    Return a port that nobody listens on.

    It is below those that the system gives to outgoing connections: none of them can
    take it while a server that a test killed is away.
    """
    while True:
        port = random.SystemRandom().randrange(*PORTS)
        with socket.socket() as probe:
            # As servers do: connections that linger after the last one do not count.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind((HOST, port))
                return port


@contextmanager
def black_hole() -> Iterator[int]:
    """Give a port whose queue of callers is full: the next ones are not answered."""
    with ExitStack() as open_sockets:
        listener = open_sockets.enter_context(socket.socket())
        listener.bind((HOST, 0))
        listener.listen(0)
        address = listener.getsockname()
        for _ in range(4):
            caller = open_sockets.enter_context(socket.socket())
            caller.setblocking(False)
            caller.connect_ex(address)
        yield address[1]


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    """Ask again and again until *is_so*; raises `TimeoutError` naming *what*."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {PATIENCE_SECONDS:.0f} s until {what}")
        # Another process is to change; there is nothing to be woken by.
        time.sleep(0.02)


def _cluster_node(directory: Path) -> RedisServer:
    directory.mkdir(parents=True)
    return RedisServer(
        directory,
        config={
            "cluster-enabled": "yes",
            "cluster-node-timeout": "5000",
            # Ports past 55535 leave no room for the default of port + 10000.
            "cluster-port": str(free_port()),
        },
    )


def _cluster(server: RedisServer, *command: Any) -> Any:
    with closing(server.client()) as client:
        return client.cluster(*command)
