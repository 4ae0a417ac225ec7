"""Server check: is this Redis fit for jobs, how durable, and still the same one?"""

from __future__ import annotations

import re
import secrets
from typing import TYPE_CHECKING, Any, NamedTuple

from kue.model.errors import StoreCorrupt, StoreRefused
from kue.store.redis.keys import SCHEMA, Keys, root_of

if TYPE_CHECKING:
    from kue.model.settings import Settings
    from kue.store.redis.wire.client import RedisClient

MIN_VERSION = (7, 0)
#: The sections of INFO that show whether a server is fit, and how durable it is.
_SECTIONS = ("server", "replication", "memory", "persistence")


class ServerInfo(NamedTuple):
    """What is learned about a store when it is opened."""

    #: Its durability, as a sentence.
    durability: str
    #: The id of each shard, written when it was first opened.
    ids: list[bytes]


async def probe(
    client: RedisClient, keys: list[Keys], settings: Settings
) -> ServerInfo:
    """
    Check every node that holds a shard.

    Raises:
        StoreRefused: A node is not fit; the message says what to change.
    """
    sentences: dict[str, None] = {}
    ids: list[bytes] = []
    # Only reads, and comes first: a refused store must not have been written to.
    await _check_other_layout(client, settings.prefix, len(keys))
    for key in _of_servers(client, keys):
        info = await client.info(key.root, *_SECTIONS)
        info["save"] = await client.config(key.root, "save") or ""
        check(info, allow_eviction=settings.allow_eviction)
        sentences[durability(info)] = None
    for shard, key in enumerate(keys):
        ids.append(await _check_layout(client, key.root, shard, len(keys)))
    return ServerInfo("; ".join(sentences), ids)


async def verify(
    client: RedisClient, keys: list[Keys], ids: list[bytes], settings: Settings
) -> None:
    """
    Check what may change while the store is open.

    Raises:
        StoreRefused: It was emptied or replaced, or is no longer fit.
    """
    for key in _of_servers(client, keys):
        info = await client.info(key.root, "server", "replication", "memory")
        check(info, allow_eviction=settings.allow_eviction)
    for key, opened in zip(keys, ids, strict=True):
        if await client.read(key.root, "HGET", key.of_shard("meta"), "id") != opened:
            raise StoreRefused(
                f"{client.name} was emptied or replaced while it was in use: its jobs "
                "are lost, and new jobs reuse their ids; restore a backup, or restart "
                "all workers and producers to continue with what is there"
            )


def _of_servers(client: RedisClient, keys: list[Keys]) -> list[Keys]:
    """Return the keys of one shard per server, or in a Cluster of every shard."""
    return keys[:1] if client.has_one_server else keys


def check(info: dict[str, Any], *, allow_eviction: bool) -> None:
    """Raise `StoreRefused` if a server with this *info* is not fit for jobs."""
    version = str(info.get("redis_version", "0"))
    if tuple(int(part) for part in version.split(".")[:2]) < MIN_VERSION:
        raise StoreRefused(
            f"this is Redis {version}; Kue needs Redis 7.0 or newer, or Valkey"
        )
    if info.get("role") not in (None, "master"):
        raise StoreRefused(
            "this Redis is a replica and takes no writes; use the master's address, "
            "or redis+sentinel:// to have it found automatically"
        )
    policy = info.get("maxmemory_policy", "noeviction")
    if policy != "noeviction" and not allow_eviction:
        raise StoreRefused(
            f"this Redis may evict jobs when memory is short (maxmemory-policy "
            f"{policy}); run `redis-cli config set maxmemory-policy noeviction`, use "
            "a separate Redis for jobs, or accept it with KUE_ALLOW_EVICTION=1"
        )


def durability(info: dict[str, Any]) -> str:
    """Return what a crash can lose, judged by the server's INFO."""
    server = f"Redis {info.get('redis_version', '?')}"
    if "valkey_version" in info:
        server = f"Valkey {info['valkey_version']}"
    if str(info.get("aof_enabled", "0")) == "1":
        text = f"{server} with AOF: a crash of Redis or of its machine loses at most "
        text += "the last second or two"
    elif info.get("save"):
        text = (
            f"{server} with snapshots only: a crash loses what came after the last one"
        )
    else:
        text = f"{server} without persistence: a crash of Redis loses every job"
    replicas = int(info.get("connected_slaves", 0))
    return f"{text}; {replicas} replica{'s' * (replicas != 1)}" if replicas else text


async def _check_layout(
    client: RedisClient, root: str, shard: int, shards: int
) -> bytes:
    """Check the layout of a shard; return its id."""
    new_id = secrets.token_hex(8)
    schema, written, known_id = await client.run(
        "open_shard", root, "", shards, shard, SCHEMA, new_id
    )
    version = _number(root, "schema", schema, SCHEMA)
    if version > SCHEMA:
        raise StoreRefused(
            f"the jobs here were written by a newer Kue (data version {version}, "
            f"this one supports {SCHEMA}); upgrade Kue in this process"
        )
    count = _number(root, "shards", written, shards)
    if count != shards:
        raise _wrong_shards(count, shards)
    return bytes(known_id)


def _number(root: str, name: str, text: bytes, expected: int) -> int:
    """Return a number from a shard's ``:meta``."""
    if not re.fullmatch(rb"[1-9]\d{0,5}", text):
        raise StoreCorrupt(
            f"the field {name} of {root}:meta is {text[:60]!r}, which Kue does not "
            f"write; if nothing else is damaged, HSET {root}:meta {name} {expected}, "
            "and run kue doctor"
        )
    return int(text)


async def _check_other_layout(client: RedisClient, prefix: str, shards: int) -> None:
    """Refuse a store laid out with one shard instead of several, or vice versa."""
    other = root_of(prefix, 0, 2) if shards == 1 else root_of(prefix, 0, 1)
    written = await client.read(other, "HGET", f"{other}:meta", "shards")
    if written is not None:
        count = _number(other, "shards", written, 1 if shards > 1 else 2)
        if count != shards:
            raise _wrong_shards(count, shards)


def _wrong_shards(written: int, given: int) -> StoreRefused:
    return StoreRefused(
        f"the jobs here are spread over {written} shards, but the URL has {given}; "
        f"write ?shards={written}"
    )
