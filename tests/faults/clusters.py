"""A Redis Cluster that keeps what it acknowledged, with or without replicas."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import redis

from kue.store.redis.keys import root_of, shard_of_type
from tests.support.servers import (
    HOST,
    SLOTS,
    RedisServer,
    free_port,
    wait_until,
)

MASTERS = 3
SHARDS = 4
#: Redis gives up a fail-over after five seconds.
TRY_SECONDS = 6.0
_CONFIG = {
    "cluster-enabled": "yes",
    # A master is thought dead after so many ms.
    "cluster-node-timeout": "1000",
    # Slots of live nodes are served while others are away.
    "cluster-require-full-coverage": "no",
    "appendonly": "yes",
    # With "everysec" Redis may answer for up to 2 s before it writes.
    "appendfsync": "no",
    "repl-diskless-sync-delay": "0",
}


class Cluster:
    """Three masters that share the slots evenly; with *replicas*, each has one."""

    def __init__(
        self,
        directory: Path,
        *,
        replicas: bool = False,
        kind: type[RedisServer] = RedisServer,
        config: Mapping[str, str] | None = None,
    ) -> None:
        self._servers: list[RedisServer] = []
        known = {**_CONFIG, **(config or {})}
        try:
            for number in range(2 * MASTERS if replicas else MASTERS):
                self._servers.append(_node(directory / f"node-{number}", kind, known))
            self._join()
            self._replicate()
        except BaseException:
            self.stop()
            raise

    @property
    def url(self) -> str:
        hosts = ",".join(server.address for server in self._servers)
        return f"redis+cluster://{hosts}?shards={SHARDS}"

    @property
    def masters(self) -> list[RedisServer]:
        """Those of the servers that are masters now, in the order of starting."""
        return [
            server for server in self._servers if _info(server).get("role") == "master"
        ]

    def owner_of(self, prefix: str, job_type: str) -> RedisServer:
        """Return the master that jobs of a type were on when all began."""
        root = root_of(prefix, shard_of_type(job_type, SHARDS), SHARDS)
        slot = _slot_of(self._servers[0], root)
        return next(
            server
            for number, server in enumerate(self._servers)
            if slot < _first_slot(number + 1)
        )

    def move_slot(self, key: str) -> None:
        """Move the slot of *key* to the next master, key by key as operators do."""
        slot = _slot_of(self._servers[0], key)
        masters = self.masters
        ids = [_ask(server, "MYID").decode() for server in masters]
        at = ids.index(_owner_id(masters[0], slot))
        to = (at + 1) % len(masters)
        _ask(masters[to], "SETSLOT", slot, "IMPORTING", ids[at])
        _ask(masters[at], "SETSLOT", slot, "MIGRATING", ids[to])
        while names := _ask(masters[at], "GETKEYSINSLOT", slot, 10):
            _send(
                masters[at],
                *("MIGRATE", HOST, masters[to].port, "", 0, 5000, "KEYS", *names),
            )
        for server in (masters[to], masters[at], *masters):
            _ask(server, "SETSLOT", slot, "NODE", ids[to])

    @contextmanager
    def without_slot(self, key: str) -> Iterator[None]:
        """Take the slot of *key* from its node in the eyes of all, for a while."""
        slot = _slot_of(self._servers[0], key)
        masters = self.masters
        owner_id = _owner_id(masters[0], slot)
        [owner] = [one for one in masters if _ask(one, "MYID").decode() == owner_id]

        def is_forgotten() -> bool:
            # A node may learn of it once more, from one that has not forgotten.
            known = [server for server in masters if _has_owner(server, slot)]
            for server in known:
                _ask(server, "DELSLOTS", slot)
            return not known

        _ask(owner, "DELSLOTS", slot)
        wait_until(is_forgotten, "no node knows of the slot")
        try:
            yield
        finally:
            _ask(owner, "ADDSLOTS", slot)
            wait_until(
                lambda: all(_has_owner(server, slot) for server in masters),
                "all nodes know of the slot",
            )

    def fail_over(self, master: RedisServer) -> None:
        """Have its replica take over from *master*, with everything that it has."""
        replica = next(
            server
            for server in self._servers
            if _info(server).get("master_port") == master.port
        )
        asked = -TRY_SECONDS

        def has_taken_over() -> bool:
            nonlocal asked
            # Without a majority nothing comes of it.
            if time.monotonic() > asked + TRY_SECONDS:
                _ask(replica, "FAILOVER")
                asked = time.monotonic()
            return replica in self.masters

        wait_until(has_taken_over, "the replica has taken over")

    def until_whole(self) -> None:
        """Wait until all nodes know of all, and replicas follow their masters."""
        wait_until(self._is_whole, "the cluster is whole")

    def stop(self) -> None:
        # Killed, because a master that is asked to end waits for its replica.
        for server in self._servers:
            server.kill()

    def _join(self) -> None:
        first, *others = self._servers
        for number, server in enumerate(self._servers[:MASTERS]):
            low, high = _first_slot(number), _first_slot(number + 1) - 1
            _ask(server, "SET-CONFIG-EPOCH", number + 1)
            _ask(server, "ADDSLOTSRANGE", low, high)
        for server in others:
            _ask(server, "MEET", HOST, first.port, first.cluster_port)
        self.until_whole()

    def _replicate(self) -> None:
        for master, replica in zip(
            self._servers, self._servers[MASTERS:], strict=False
        ):
            _ask(replica, "REPLICATE", _ask(master, "MYID").decode())
        self.until_whole()

    def _is_whole(self) -> bool:
        return all(_is_well(server, len(self._servers)) for server in self._servers)


def _first_slot(number: int) -> int:
    return number * SLOTS // MASTERS


def _node(
    directory: Path, kind: type[RedisServer], config: dict[str, str]
) -> RedisServer:
    directory.mkdir(parents=True)
    # Ports past 55535 leave no room for the default of port + 10000.
    return kind(directory, config=config | {"cluster-port": str(free_port())})


def _is_well(server: RedisServer, nodes: int) -> bool:
    try:
        info = _ask(server, "INFO")
    except redis.BusyLoadingError:
        return False
    return (
        info["cluster_state"] == "ok"
        and int(info["cluster_known_nodes"]) == nodes
        and _info(server).get("master_link_status", "up") == "up"
    )


def _ask(server: RedisServer, *command: Any) -> Any:
    with closing(server.client()) as client:
        return client.cluster(*command)


def _send(server: RedisServer, *command: Any) -> Any:
    with closing(server.client()) as client:
        send: Any = client.execute_command
        return send(*command)


def _slot_of(server: RedisServer, key: str) -> int:
    return int(_ask(server, "KEYSLOT", key))


def _has_owner(server: RedisServer, slot: int) -> bool:
    try:
        return bool(_owner_id(server, slot))
    except LookupError:
        return False


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
