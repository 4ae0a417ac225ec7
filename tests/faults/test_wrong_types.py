"""
A structure of the wrong kind stops what needs it, and changes nothing else.

Redis does not undo a script that stops half-way.  So for every key and every verb: it
works, or it raises `StoreError` and has written nothing at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kue.errors import StoreError
from kue.store.redis.keys import JOB_KEYS, SHARD_KEYS, TYPE_KEYS, Keys, root_of
from tests.faults.scene import TYPE, VERBS, Scene, build, id_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis

    from kue.store.base import Store
    from tests.faults.conftest import NewStore
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
    f"stats:{_MINUTE}",
    f"producers:{_HOUR}",
    *(f"job:{{{name}}}" for name in ("waiting", "held", "delayed", "complete")),
    *(f"job:{{{name}}}" for name in ("plain", "rich", "blocked")),
    *(f"job:{{plain}}:{name}" for name in JOB_KEYS),
    "job:{blocked}:after",
]


class Snapshot:
    """All keys of one test, as they were; what was spoiled can be put back."""

    def __init__(self, client: redis.Redis, prefix: str) -> None:
        self._client = client
        self._match = f"{{{prefix}}}:*"
        self.kept = self.read()

    def read(self) -> dict[bytes, bytes]:
        keys = sorted(self._client.scan_iter(self._match, count=1000))
        pipe = self._client.pipeline(transaction=False)
        for key in keys:
            pipe.dump(key)
        return dict(zip(keys, pipe.execute(), strict=True))

    def restore(self) -> None:
        pipe = self._client.pipeline(transaction=False)
        for key in self._client.scan_iter(self._match, count=1000):
            pipe.delete(key)
        for key, value in self.kept.items():
            pipe.restore(key, 0, value)
        pipe.execute()


@pytest.fixture
def client(redis_server: RedisServer) -> Iterator[redis.Redis]:
    client = redis_server.client()
    yield client
    client.close()


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
    snapshot = Snapshot(client, prefix)
    key = Keys(root_of(prefix, 0, 1)).of_shard(_at(place, scene))
    faults: list[str] = []

    for verb in VERBS:
        snapshot.restore()
        plant(client, key)
        faults += await say(verb, store, scene, snapshot, key)

    assert "\n".join(faults) == ""


async def say(
    verb: str, store: Store, scene: Scene, snapshot: Snapshot, key: str
) -> list[str]:
    """Return what is wrong with how *verb* meets a key of the wrong type."""
    before = snapshot.read()
    try:
        await VERBS[verb](store, scene)
    except StoreError:
        if verb == "tend":
            return []  # many calls, of which each is whole and those before it stand
        after = snapshot.read()
        changed = before.items() ^ after.items()
        names = sorted({name.decode().partition("}:")[2] for name, _ in changed})
        return [f"{verb} stopped half-way and left {names}"] if names else []
    except Exception as exc:
        return [f"{verb} raised {exc!r}"]
    return []


def plant(client: redis.Redis, key: str) -> None:
    """Put something there that no verb can have written."""
    was_string = client.type(key) == b"string"
    client.delete(key)
    if was_string or key.endswith((":ids", ":fence", ":live:0")):
        client.sadd(key, "not", "a", "string")
    else:
        client.set(key, "neither a set nor a hash nor a list")


def _at(place: str, scene: Scene) -> str:
    return place.format(**{name: id_of(scene, name) for name in scene.__slots__})
