"""
An idle Redis is left in peace: maintenance rests until something is due or happens.

By the server's own clock: where a test owns the time it owns the passes, too.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import redis

from kue.model.draft import draft
from kue.model.job import Completed, State
from kue.model.settings import Keep
from kue.store.contract import Store
from kue.store.redis.keys import Keys, root_of
from kue.store.values import Claim, ClaimRequest, MoveRequest, Outcome
from tests.faults.conftest import NewStore
from tests.support.schedules import every
from tests.support.servers import RedisServer

SettleDown = Callable[[], Awaitable[None]]


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
    claimed = await store.claim(
        ClaimRequest(["email"], 1, worker="w1", claim=Claim("lane", 1))
    )
    return claimed.jobs[0]


async def end_one(store: Store) -> None:
    await add(store)
    await store.settle([Outcome(await claim(store), Completed())])


@pytest.fixture
def settle_down(store: Store, client: redis.Redis, prefix: str) -> SettleDown:
    """Tends until there is nothing to do for a while."""
    meta = Keys(root_of(prefix, 0, 1)).of_shard("meta")

    async def until_idle() -> None:
        await _tended(store, lambda _: client.hexists(meta, "idle"))

    return until_idle


async def test_maintenance_rests_when_nothing_goes_on(
    store: Store, redis_server: RedisServer, settle_down: SettleDown
) -> None:
    await end_one(store)
    await settle_down()

    tended = await store.tend(keep=Keep())
    assert tended.quiet
    assert not tended
    # When something is due.
    assert await fewest_commands(redis_server, store) == 1


async def test_a_job_that_waits_or_runs_is_looked_at_again_and_again(
    store: Store, client: redis.Redis, prefix: str
) -> None:
    await add(store)
    await looked_at(store, client, prefix)
    await looked_at(store, client, prefix)

    await claim(store)
    await looked_at(store, client, prefix)
    await looked_at(store, client, prefix)


async def looked_at(store: Store, client: redis.Redis, prefix: str) -> None:
    """Tend until a pass was made: no later than it is due for anything that goes on."""
    keys = Keys(root_of(prefix, 0, 1))
    due = client.zscore(keys.of_shard("agenda"), "email")
    assert due is not None
    assert due <= await store.now() + 1000
    await _tended(store, lambda tended: not tended.quiet)


async def test_one_pass_a_second_is_made_however_many_workers_there_are(
    redis_server: RedisServer, new_store: NewStore
) -> None:
    """R-8: maintenance cost as much as workers times types."""
    stores = [new_store(redis_server.url) for _ in range(5)]
    for number in range(20):
        await stores[0].add([draft(f"type {number}")], producer="p", seq=number + 1)
    for store in stores:
        await store.tend()

    async def make_a_pass() -> None:
        await _tended(stores[0], lambda tended: not tended.quiet)

    # When something is due, and who made the last pass.
    assert await fewest_commands(redis_server, *stores[1:], after=make_a_pass) == 2 * 4


async def fewest_commands(
    server: RedisServer,
    *stores: Store,
    after: Callable[[], Awaitable[None]] | None = None,
) -> int:
    """
    Return how many commands Redis runs when *stores* tend, the fewest of some tries.

    The clock that a store takes Redis' to be is a little ahead: who asks right before a
    pass is due asks once more.
    """
    client = server.client()
    counts: list[int] = []
    for _ in range(5):
        if after:
            await after()
        before = client.info("stats")["total_commands_processed"]
        for store in stores:
            await store.tend(keep=Keep())
        after_it = client.info("stats")["total_commands_processed"]
        # The first of our own questions is counted in the second.
        counts.append(after_it - before - 1)
    return min(counts)


STIRS: dict[str, Callable[[Store], Awaitable[object]]] = {
    "add": add,
    "add delayed": lambda store: add(store, delay="1h"),
    "add after": lambda store: add(store, after=[1]),
    "move": lambda store: store.move(MoveRequest([1], State.WAITING)),
    "schedule": lambda store: store.schedule(
        every("nightly", "1d", draft("email"), first_at=2**41)
    ),
}


def first_of(client: redis.Redis, agenda: str) -> float:
    """Return when maintenance next has something to look at."""
    found: Any = client.zrange(agenda, 0, 0, withscores=True)
    return float(found[0][1])


@pytest.mark.parametrize("verb", STIRS)
async def test_what_brings_something_to_do_wakes_it(
    store: Store, client: redis.Redis, prefix: str, verb: str, settle_down: SettleDown
) -> None:
    await end_one(store)
    await settle_down()
    agenda = Keys(root_of(prefix, 0, 1)).of_shard("agenda")
    before = first_of(client, agenda)

    await STIRS[verb](store)

    due = first_of(client, agenda)
    assert due < before
    assert due <= await store.now() + 1000


@pytest.mark.parametrize(
    "options", [{"delay": 1.6}, {"delay": "1h", "expires": 1.6}], ids=["due", "expires"]
)
async def test_it_wakes_for_what_time_brings(
    store: Store, options: dict[str, Any]
) -> None:
    job_id = await add(store, **options)
    await _tended(store, lambda tended: not tended.quiet)

    await _tended(store, lambda tended: bool(tended))

    [job] = await store.get([job_id])
    assert job is not None
    assert job.state in (State.WAITING, State.FAILED)


async def test_a_schedule_fires_in_time(store: Store) -> None:
    first_at = await store.now() + 1600
    await store.schedule(every("soon", "1h", draft("email"), first_at=first_at))
    await _tended(store, lambda tended: not tended.quiet)

    await _tended(store, lambda tended: tended.fired == 1)


async def test_a_rest_is_no_reason_for_a_grace(
    store: Store, client: redis.Redis, prefix: str, settle_down: SettleDown
) -> None:
    """Grace is for leases that ran out while nobody could tend."""
    await end_one(store)
    await settle_down()
    meta = Keys(root_of(prefix, 0, 1)).of_shard("meta")
    client.hincrby(meta, "swept", -60_000)

    await add(store)
    await _tended(store, lambda tended: not tended.quiet)

    assert client.hget(meta, "graced") is None
    assert client.hget(meta, "idle") is None


async def test_the_doctor_knows_the_note_that_is_left(
    store: Store, settle_down: SettleDown
) -> None:
    await end_one(store)
    await settle_down()

    assert (await store.check()).findings == ()


async def _tended(store: Store, is_so: Callable[[Any], bool]) -> None:
    while not is_so(await store.tend(keep=Keep())):  # noqa: ASYNC110 - Redis' clock
        await asyncio.sleep(0.02)
