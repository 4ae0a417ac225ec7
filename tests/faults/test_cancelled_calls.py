"""A call that its caller gives up on harms no other call, and ends."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

import pytest

from kue.model.draft import draft
from kue.model.job import Completed, State
from kue.store.contract import Store
from kue.store.redis.verbs import runs
from kue.store.values import Claim, ClaimRequest, Outcome, PageRequest, RenewRequest
from tests.faults.conftest import NewStore
from tests.support.jobs import add_many, count_of
from tests.support.patience import PATIENCE_SECONDS
from tests.support.servers import RedisServer

#: In one test; more find nothing new.
CANCELLATIONS = 3000
#: More calls at once than a store has connections.
MANY = 64
#: A call takes up to about so many turns of the loop on a connection that is open.
MAX_TURNS = 12


@pytest.fixture
async def store(redis_server: RedisServer, new_store: NewStore) -> Store:
    store = new_store(redis_server.url)
    await store.open()
    return store


async def some_turns(random: Random) -> None:
    for _ in range(random.randrange(MAX_TURNS)):
        # One turn of the loop: there is no fact to wait for at a random point.
        await asyncio.sleep(0)


async def cancel_soon(call: Coroutine[Any, Any, object], random: Random) -> bool:
    """Start *call*, cancel it at a random point; return whether it noticed."""
    task = asyncio.create_task(call)
    await some_turns(random)
    was_running = task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    return task.cancelled() or not was_running


@pytest.mark.parametrize("seed", [1, 2])
async def test_cancelled_calls_never_give_their_answer_to_someone_else(
    store: Store, direct: Store, seed: int
) -> None:
    ids = await add_many(direct, 50, now=None)
    random = Random(seed)
    is_over = asyncio.Event()
    read = 0

    async def look() -> None:
        nonlocal read
        while not is_over.is_set():
            number = random.randrange(50)
            [job] = await store.get([ids[number]])
            assert job is not None
            assert (job.id, job.data) == (ids[number], {"i": number})
            read += 1

    async with asyncio.TaskGroup() as tasks:
        for _ in range(4):
            tasks.create_task(look())
        for _ in range(CANCELLATIONS // 10):
            calls = [store.get([random.choice(ids)]) for _ in range(10)]
            await asyncio.gather(*(cancel_soon(call, random) for call in calls))
        is_over.set()

    assert read > 100
    # Had a connection been lost with its caller, these would wait for it forever.
    found = await asyncio.gather(*(store.get(ids[:1]) for _ in range(MANY)))
    assert [jobs[0] and jobs[0].id for jobs in found] == [ids[0]] * MANY


@pytest.mark.parametrize("verb", ["get", "page", "renew"])
async def test_a_cancelled_call_always_ends_as_cancelled(
    store: Store, direct: Store, verb: str
) -> None:
    """A cancellation that gets lost leaves a worker that never stops."""
    ids = await add_many(direct, 5, now=None)
    calls: dict[str, Callable[[], Coroutine[Any, Any, object]]] = {
        "get": lambda: store.get(ids),
        "page": lambda: store.page(PageRequest(State.WAITING)),
        "renew": lambda: store.renew(RenewRequest("w1")),
    }
    random = Random(verb)

    noticed = [await cancel_soon(calls[verb](), random) for _ in range(1000)]

    assert noticed.count(False) == 0


async def test_a_cancelled_wait_ends_at_once(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nobody here waits for as long as it would sleep.
    monkeypatch.setattr(runs, "MAX_BLOCK_SECONDS", 3600)
    random = Random(1)

    for _ in range(300):
        asleep = asyncio.create_task(store.wait(["nothing here"], 3600))
        await some_turns(random)
        asleep.cancel()
        _, still_asleep = await asyncio.wait({asleep}, timeout=PATIENCE_SECONDS)
        assert not still_asleep


@pytest.mark.parametrize("seed", [1, 2])
async def test_adds_and_cycles_that_were_cancelled_can_be_said_again(
    store: Store, direct: Store, seed: int
) -> None:
    """A cancelled caller does not know if it was done; a repeated call returns that."""
    random = Random(seed)
    ids: list[int] = []
    for seq in range(100):
        batch = [draft("email", {"seq": seq})] * 3
        await cancel_soon(store.add(batch, producer="p", seq=seq), random)
        ids += [one.id for one in await store.add(batch, producer="p", seq=seq)]
    assert ids == list(range(1, 301))

    ended: list[Outcome] = []
    started: list[int] = []
    for seq in range(1, 80):
        types, claim = ["email"], Claim("a", seq)
        call = store.cycle(ended, ClaimRequest(types, 5, worker="w1", claim=claim))
        await cancel_soon(call, random)
        _, claimed = await store.cycle(
            ended, ClaimRequest(types, 5, worker="w1", claim=claim)
        )
        started += [job.id for job in claimed.jobs]
        ended = [Outcome(job, Completed(None)) for job in claimed.jobs]

    assert started == ids
    assert await count_of(direct) == {State.COMPLETE: 300}
