"""A Redis Cluster that keeps what it acknowledged, with or without replicas."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import redis

from kue.store.redis.keys import root_of, shard_of_type
from tests.support.servers import (
    HOST,
    SLOTS,
    RedisServer,
    free_port,
    wait_until,
)

if TYPE_CHECKING:
    from pathlib import Path

MASTERS = 3
SHARDS = 4
#: A master is thought dead after this long.
NODE_TIMEOUT_MS = 1000


class Cluster:
    """Three masters that share the slots evenly; with *replicas*, each has one."""

    def __init__(self, directory: Path, *, replicas: bool = False) -> None:
        self._servers: list[RedisServer] = []
        try:
            for number in range(2 * MASTERS if replicas else MASTERS):
                self._servers.append(_node(directory / f"node-{number}"))
            self._join()
            self._replicate()
        except BaseException:
            self.stop()
            raise

    @property
    def url(self) -> str:
        hosts = ",".join(server.address for server in self._servers)
        return f"redis+cluster://{hosts}?shards={SHARDS}"

    def owner_of(self, prefix: str, job_type: str) -> RedisServer:
        """Return the master that jobs of a type were on when all began."""
        root = root_of(prefix, shard_of_type(job_type, SHARDS), SHARDS)
        slot = int(_ask(self._servers[0], "KEYSLOT", root))
        return next(
            server
            for number, server in enumerate(self._servers)
            if slot < _first_slot(number + 1)
        )

    def move_slot(self, key: str) -> None:
        """Move the slot of *key* to the next master, key by key as operators do."""
        slot = int(_ask(self._servers[0], "KEYSLOT", key))
        masters = self._servers[:MASTERS]
        ids = [_ask(server, "MYID").decode() for server in masters]
        at = ids.index(_owner_id(masters[0], slot))
        to = (at + 1) % MASTERS
        _ask(masters[to], "SETSLOT", slot, "IMPORTING", ids[at])
        _ask(masters[at], "SETSLOT", slot, "MIGRATING", ids[to])
        while names := _ask(masters[at], "GETKEYSINSLOT", slot, 10):
            _send(
                masters[at],
                *("MIGRATE", HOST, masters[to].port, "", 0, 5000, "KEYS", *names),
            )
        for server in (masters[to], masters[at], *masters):
            _ask(server, "SETSLOT", slot, "NODE", ids[to])

    def stop(self) -> None:
        for server in self._servers:
            server.stop()

    def _join(self) -> None:
        first, *others = self._servers
        for number, server in enumerate(self._servers[:MASTERS]):
            low, high = _first_slot(number), _first_slot(number + 1) - 1
            _ask(server, "SET-CONFIG-EPOCH", number + 1)
            _ask(server, "ADDSLOTSRANGE", low, high)
        for server in others:
            _ask(server, "MEET", HOST, first.port, first.cluster_port)
        wait_until(self._is_whole, "the cluster is whole")

    def _replicate(self) -> None:
        for master, replica in zip(
            self._servers, self._servers[MASTERS:], strict=False
        ):
            _ask(replica, "REPLICATE", _ask(master, "MYID").decode())
        wait_until(self._is_in_step, "each master has its replica")

    def _is_whole(self) -> bool:
        infos = [_ask(server, "INFO") for server in self._servers]
        return all(
            info["cluster_state"] == "ok"
            and int(info["cluster_known_nodes"]) == len(self._servers)
            for info in infos
        )

    def _is_in_step(self) -> bool:
        return all(
            _info(server).get("master_link_status") == "up"
            for server in self._servers[MASTERS:]
        )


def _first_slot(number: int) -> int:
    return number * SLOTS // MASTERS


def _node(directory: Path) -> RedisServer:
    directory.mkdir(parents=True)
    return RedisServer(
        directory,
        config={
            "cluster-enabled": "yes",
            "cluster-node-timeout": str(NODE_TIMEOUT_MS),
            # The slots of those who are there are served, whoever else is away.
            "cluster-require-full-coverage": "no",
            # Ports past 55535 leave no room for the default of port + 10000.
            "cluster-port": str(free_port()),
            "appendonly": "yes",
            # With "everysec" Redis may answer for up to 2 s before it writes.
            "appendfsync": "no",
            "repl-diskless-sync-delay": "0",
        },
    )


def _ask(server: RedisServer, *command: Any) -> Any:
    with closing(server.client()) as client:
        return client.cluster(*command)


def _send(server: RedisServer, *command: Any) -> Any:
    with closing(server.client()) as client:
        send: Any = client.execute_command
        return send(*command)


def _owner_id(server: RedisServer, slot: int) -> str:
    """Return the id of the node that has a slot, as *server* knows it."""
    for first, last, master, *_ in _send(server, "CLUSTER", "SLOTS"):
        if first <= slot <= last:
            return str(master[2].decode())
    raise LookupError(f"no node has slot {slot}")


def _info(server: RedisServer) -> dict[str, Any]:
    with closing(server.client()) as client:
        try:
            return dict(client.info("replication"))
        except redis.BusyLoadingError:
            return {}
