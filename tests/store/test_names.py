"""Names of all kinds: no name, however it is chosen, is taken for something else."""

from __future__ import annotations

from kue.model.draft import draft
from kue.model.events import Kind
from kue.model.job import Completed, State
from kue.store.contract import Store
from kue.store.values import (
    Claim,
    ClaimRequest,
    Filter,
    Limits,
    PageRequest,
    PauseRequest,
    RenewRequest,
    Result,
)
from tests.support.jobs import (
    T0,
    add,
    add_one,
    claim,
    claim_ids,
    claim_one,
    count_of,
    end,
    get_one,
    start_one,
)
from tests.support.listening import read_until
from tests.support.upkeep import lose_worker, tend

NAMES = [
    "learn vertx",
    "a:b{c}%",
    "}{",
    "%3A",
    ":waiting",
    "🚀 launch",
    'it\'s "quoted"',
    "back\\slash",
    "[a-z]*?",
    "-1",
    " ",
    "Ä" * 100,
    "x" * 200,
]


async def test_a_type_may_have_any_name(store: Store) -> None:
    for name in NAMES:
        job = await start_one(store, name)
        assert job.type == name
        await end(store, job, Completed())
        delayed = await add_one(store, name, delay=1)
        await tend(store, T0 + 1000)

        assert name in await store.types()
        assert await count_of(store, name) == {State.COMPLETE: 1, State.WAITING: 1}
        page = await store.page(PageRequest(State.WAITING, name))
        assert [waiting.id for waiting in page.jobs] == [delayed]
        found = await store.find(Filter(type=name, state=State.COMPLETE))
        assert [complete.id for complete in found.jobs] == [job.id]


async def test_a_type_of_any_name_can_be_paused_limited_and_cleared(
    store: Store,
) -> None:
    for name in NAMES:
        await store.pause(PauseRequest(name), now=T0)
        await store.limit(name, Limits(concurrency=1), now=T0)
        await add_one(store, name)
        await add_one(store, name)
        assert await claim(store, name) == []
        assert [pause.type for pause in await store.paused()] == [name]
        assert (await store.limits())[name] == Limits(concurrency=1)
        await store.resume(name, now=T0)

        assert len(await claim(store, name)) == 1
        assert await store.clear(name, [State.WAITING], now=T0) == 1


async def test_a_worker_and_a_lane_may_have_any_name(store: Store) -> None:
    for name in NAMES:
        await add_one(store)
        asked = Claim(name, 1)
        request = ClaimRequest(["email"], 1, worker=name, claim=asked)
        [job] = (await store.claim(request, now=T0)).jobs
        assert job.run is not None
        assert (job.worker, job.run.claim) == (name, f"{name}.1")
        assert (await store.claim(request, now=T0)).jobs == [job]

        assert (await store.renew(RenewRequest(name, runs=[job]), now=T0)).lost == []
        workers = {worker.name: worker for worker in await store.workers(now=T0)}
        assert workers[name].active == 1
        assert await end(store, job, Completed()) is Result.DONE
        assert await end(store, job, Completed()) is Result.ALREADY
        assert (await get_one(store, job.id)).worker == name


async def test_a_lost_worker_may_have_had_any_name(store: Store) -> None:
    for name in NAMES:
        job = await start_one(store, name, worker=name)
        await lose_worker(store, T0)

        error = (await get_one(store, job.id)).error
        assert error is not None
        assert name in error.message


async def test_a_unique_key_and_a_producer_may_have_any_name(store: Store) -> None:
    for name in NAMES:
        [first] = await store.add(
            [draft("email", unique=name)], producer=name, seq=1, now=T0
        )
        [again] = await store.add(
            [draft("email", unique=name)], producer=name, seq=2, now=T0
        )

        assert again == first._replace(new=False)
        assert (await get_one(store, first.id)).unique == name
        await store.cancel([first.id], now=T0)
        [fresh] = await add(store, [draft("email", unique=name)])
        assert fresh.new


async def test_a_group_may_have_any_name(store: Store) -> None:
    await store.limit("email", Limits(per_key=1), now=T0)
    for name in NAMES:
        first = await add_one(store, group=name)
        second = await add_one(store, group=name)
        job = await claim_one(store)
        assert (job.id, job.group) == (first, name)
        assert await claim_ids(store) == []
        await end(store, job, Completed())

        assert await claim_ids(store) == [second]


async def test_tags_meta_and_reasons_may_say_anything(store: Store) -> None:
    for name in NAMES:
        job_id = await add_one(store, tags=[name], meta={name: name})
        await store.cancel([job_id], reason=name, now=T0)

        job = await get_one(store, job_id)
        assert (job.tags, job.spec.meta) == ((name,), {name: name})
        assert job.history[-1].reason == name
        found = await store.find(Filter(tag=name))
        assert [match.id for match in found.jobs] == [job_id]


async def test_events_tell_any_name_as_it_is(store: Store) -> None:
    for name in NAMES:
        async with store.watch() as events:
            job_id = await add_one(store, name)
            await store.cancel([job_id], reason=name, now=T0)
            heard = await read_until(events, lambda event: event.kind is Kind.CANCELLED)

        assert [event.type for event in heard] == [name, name]
        assert heard[-1].detail == {"reason": name}


async def test_all_these_names_live_side_by_side(store: Store) -> None:
    ids = {name: await add_one(store, name, name, unique=name) for name in NAMES}

    assert await store.types() == sorted(NAMES)
    jobs = await claim(store, *NAMES, limit=100)
    assert {job.type: job.id for job in jobs} == ids
    assert all(job.data == job.type for job in jobs)
    assert all(
        state == {State.ACTIVE: 1}
        for state in [await count_of(store, name) for name in NAMES]
    )


async def test_names_that_differ_little_are_different(store: Store) -> None:
    names = ["a", "A", "a ", " a", "á", "a\u0301", "%61", "a%", "a:", "a{}"]
    for name in names:
        await add_one(store, name)

    assert len(await store.types()) == len(names)
    for name in names:
        assert [job.type for job in await claim(store, name)] == [name]
