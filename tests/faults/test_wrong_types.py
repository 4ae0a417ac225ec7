"""
A structure of the wrong kind stops what needs it, and changes nothing else.

Redis does not undo a script that stops half-way.  So for every key and every verb: it
works, or it raises `StoreError` and has written nothing at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest
import redis

from kue.client.stuck_jobs import failed_parents, failed_parents_of
from kue.model.errors import StoreError
from kue.store.contract import Store
from kue.store.redis.keys import JOB_KEYS, SHARD_KEYS, TYPE_KEYS, Keys, root_of
from tests.faults.conftest import NewStore
from tests.faults.scene import TYPE, VERBS, Scene, build, id_of
from tests.support.flows import add_linked, linked
from tests.support.servers import RedisServer

pytestmark = pytest.mark.damages

_MINUTE = 30_000_000
_HOUR = 500_000
#: Where a wrong type is planted, after the tag; {name} is a job of the scene.
PLACES = [
    *SHARD_KEYS,
    *(f"{TYPE}:{name}" for name in TYPE_KEYS),
    f"{TYPE}:held:g",
    "live:0",
    "lost:0",
    *("flow:{complete}", "members:{complete}"),
    f"stats:{_MINUTE}",
    f"producers:{_HOUR}",
    *(f"job:{{{name}}}" for name in ("waiting", "held", "delayed", "complete")),
    *(f"job:{{{name}}}" for name in ("plain", "rich", "blocked")),
    *(f"job:{{plain}}:{name}" for name in JOB_KEYS),
    "job:{blocked}:after",
]


class Spoiled:
    """The keys of one test with something wrong at *key*, again and again the same."""

    def __init__(self, client: redis.Redis, key: str) -> None:
        self._client = client
        self._key = key
        self._sound = self._read()
        # What is restored does not expire by itself.
        self.restore()
        self._spoiled = self._read()

    def changes(self) -> list[str]:
        """Return the names of keys that are not as they were."""
        changed = self._spoiled.items() ^ self._read().items()
        return sorted({name.decode().partition("}:")[2] for name, _ in changed})

    def restore(self) -> None:
        pipe = self._client.pipeline(transaction=False)
        pipe.flushall()
        for name, value in self._sound.items():
            pipe.restore(name, 0, value)
        pipe.execute()
        plant(self._client, self._key)

    def _read(self) -> dict[bytes, bytes]:
        keys = [*self._client.scan_iter(count=1000)]
        pipe = self._client.pipeline(transaction=False)
        for key in keys:
            pipe.dump(key)
        return dict(zip(keys, pipe.execute(), strict=True))


@pytest.fixture
def client(redis_server: RedisServer) -> Iterator[redis.Redis]:
    """An operator's, of a Redis that has nothing but the keys of one test."""
    with closing(redis_server.client()) as client:
        client.flushall()
        yield client


@pytest.mark.parametrize("place", PLACES)
async def test_a_key_of_the_wrong_type_leaves_no_verb_half_done(
    redis_server: RedisServer,
    new_store: NewStore,
    client: redis.Redis,
    prefix: str,
    place: str,
) -> None:
    store = new_store(redis_server.url)
    scene = await build(store)
    [member] = await add_linked(store, linked(TYPE, flow=scene.complete))
    scene = replace(scene, waiting=member)
    key = Keys(root_of(prefix, 0, 1)).of_shard(_at(place, scene))
    spoiled = Spoiled(client, key)
    faults: list[str] = []

    for verb in VERBS:
        faults += await say(verb, store, scene, spoiled)

    assert "\n".join(faults) == ""


async def test_a_damaged_list_of_parents_keeps_no_job_from_being_shown(
    redis_server: RedisServer, new_store: NewStore, client: redis.Redis, prefix: str
) -> None:
    store = new_store(redis_server.url)
    scene = await build(store)
    keys = Keys(root_of(prefix, 0, 1))
    plant(client, keys.of_shard(_at("job:{blocked}:after", scene)))
    [blocked] = await store.get([scene.blocked])

    assert blocked is not None
    assert await failed_parents_of(store, blocked) == []
    assert await failed_parents(store) == []


async def say(verb: str, store: Store, scene: Scene, spoiled: Spoiled) -> list[str]:
    """Return what is wrong with how *verb* meets a key of the wrong type."""
    try:
        await VERBS[verb](store, scene)
    except StoreError:
        names = spoiled.changes()
        if names:
            spoiled.restore()
        # Maintenance is many calls, of which each is whole and those before it stand.
        is_whole = verb == "tend" or not names
        return [] if is_whole else [f"{verb} stopped half-way and left {names}"]
    except Exception as exc:
        spoiled.restore()
        return [f"{verb} raised {exc!r}"]
    spoiled.restore()
    return []


def plant(client: redis.Redis, key: str) -> None:
    """Put something there that no verb can have written."""
    was_string = client.type(key) == b"string"
    client.delete(key)
    if was_string or key.endswith((":ids", ":fence", ":live:0", ":lost:0")):
        client.sadd(key, "not", "a", "string")
    else:
        client.set(key, "neither a set nor a hash nor a list")


def _at(place: str, scene: Scene) -> str:
    return place.format(**{name: id_of(scene, name) for name in scene.__slots__})
