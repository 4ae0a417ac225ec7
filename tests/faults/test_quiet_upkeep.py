"""
An idle Redis is left in peace: upkeep rests until something is due or happens.

By the server's own clock: where a test owns the time it owns the passes, too.
"""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from kue.draft import draft
from kue.job import Completed, State
from kue.schedule import every
from kue.settings import Keep
from kue.store.redis.keys import Keys, root_of
from kue.store.values import Claim, Limits, Outcome

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import redis

    from kue.store.base import Store
    from tests.faults.conftest import NewStore
    from tests.support.servers import RedisServer


@pytest.fixture
def store(redis_server: RedisServer, new_store: NewStore) -> Store:
    return new_store(redis_server.url)


@pytest.fixture
def client(redis_server: RedisServer) -> redis.Redis:
    return redis_server.client()


async def add(store: Store, **options: Any) -> int:
    [added] = await store.add(
        [draft("email", **options)], producer=uuid.uuid4().hex, seq=1
    )
    return added.id


async def claim(store: Store) -> Any:
    claimed = await store.claim(["email"], 1, worker="w1", claim=Claim("lane", 1))
    return claimed.jobs[0]


async def end_one(store: Store) -> None:
    await add(store)
    await store.settle([Outcome(await claim(store), Completed())])


async def settle_down(store: Store) -> None:
    """Tend until there is nothing to do; the next pass finds that and asks no more."""
    while not (await store.tend(keep=Keep())).quiet:
        pass


async def test_upkeep_rests_when_nothing_goes_on(
    store: Store, redis_server: RedisServer
) -> None:
    await end_one(store)
    await settle_down(store)
    client = redis_server.client()

    before = client.info("stats")["total_commands_processed"]
    tended = await store.tend(keep=Keep())
    after = client.info("stats")["total_commands_processed"]

    assert tended.quiet
    assert not tended
    # The question itself, and ours about how many there were.
    assert after - before == 2


async def test_a_job_that_waits_or_runs_keeps_upkeep_awake(store: Store) -> None:
    await add(store)
    assert not (await store.tend()).quiet
    assert not (await store.tend()).quiet

    await claim(store)
    assert not (await store.tend()).quiet
    assert not (await store.tend()).quiet


STIRS: dict[str, Callable[[Store], Awaitable[object]]] = {
    "add": add,
    "add delayed": lambda store: add(store, delay="1h"),
    "move": lambda store: store.move([1], State.WAITING),
    "remove": lambda store: store.remove([1]),
    "clear": lambda store: store.clear("email", [State.COMPLETE]),
    "pause": lambda store: store.pause("email"),
    "resume": lambda store: store.resume("email"),
    "limit": lambda store: store.limit("email", Limits(rate=1)),
    "schedule": lambda store: store.schedule(
        every("nightly", "1d", draft("email"), first_at=2**41)
    ),
}


@pytest.mark.parametrize("verb", STIRS)
async def test_whoever_changes_something_wakes_it(store: Store, verb: str) -> None:
    await end_one(store)
    if verb == "resume":
        await store.pause("email")
    await settle_down(store)

    await STIRS[verb](store)

    assert not (await store.tend(keep=Keep())).quiet


@pytest.mark.parametrize(
    "options", [{"delay": 1.6}, {"delay": "1h", "expires": 1.6}], ids=["due", "expires"]
)
async def test_it_wakes_for_what_time_brings(
    store: Store, options: dict[str, Any]
) -> None:
    job_id = await add(store, **options)
    await settle_down(store)

    await _tended(store, lambda tended: bool(tended))

    [job] = await store.get([job_id])
    assert job is not None
    assert job.state in (State.WAITING, State.FAILED)


async def test_a_schedule_fires_in_time(store: Store) -> None:
    first_at = await store.now() + 1600
    await store.schedule(every("soon", "1h", draft("email"), first_at=first_at))
    await settle_down(store)

    await _tended(store, lambda tended: tended.fired == 1)


async def test_a_rest_is_no_reason_for_a_grace(
    store: Store, client: redis.Redis, prefix: str
) -> None:
    """Grace is for leases that ran out while nobody could tend."""
    await end_one(store)
    await settle_down(store)
    meta = Keys(root_of(prefix, 0, 1)).of_shard("meta")
    client.hincrby(meta, "swept", -60_000)

    await add(store)
    await store.tend()

    assert client.hget(meta, "graced") is None
    assert client.hget(meta, "idle") is None


async def test_the_doctor_knows_the_note_that_is_left(store: Store) -> None:
    await end_one(store)
    await settle_down(store)

    assert (await store.check()).findings == ()


async def _tended(store: Store, is_so: Callable[[Any], bool]) -> None:
    while not is_so(await store.tend(keep=Keep())):  # noqa: ASYNC110 - Redis' clock
        await asyncio.sleep(0.02)
