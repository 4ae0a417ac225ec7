"""Events of jobs on the bus: where they are told, and what."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path

import pytest

from kue import Job, Kue
from kue.bus import EventBus
from kue.model.job import Completed, Failed, Released, Retried
from kue.vertx import Addresses, EventPublisher, on, on_job
from kue.vertx import event_publisher as relaying
from kue.vertx.job_json import show
from tests.bus.hearing import Heard
from tests.support.damage import spoil_record
from tests.support.engines import engine_at
from tests.support.jobs import OOPS, claim, end
from tests.support.patience import until
from tests.support.servers import RedisServer
from tests.vertx.hearing import add, at, at_job, at_queue, finish, relayed, start

pytestmark = pytest.mark.usefixtures("relay")


async def test_start_and_complete_are_told_with_the_job(q: Kue, bus: EventBus) -> None:
    job = await add(q, data={"to": "ann"})
    started, completed = at_job(bus, "start", job), at_job(bus, "complete", job)

    await finish(q, job, Completed({"sent": True}))

    told = await completed.next()
    assert told == show(await (await q.get(job.id)).refresh())
    assert (told["state"], told["result"]) == ("COMPLETE", {"sent": True})
    assert (await started.next())["address_id"] == job.address_id


async def test_a_job_is_subscribed_to_before_it_is_saved(q: Kue, bus: EventBus) -> None:
    builder, enqueued = q.create_job("email"), Heard()
    on_job(bus, "enqueue", builder, enqueued)

    job = await builder.save()

    assert (await enqueued.next())["id"] == job.id


async def test_at_the_queue_an_event_comes_with_the_job_and_what_else_there_is(
    q: Kue, bus: EventBus
) -> None:
    completed, failed = at_queue(bus, "job_complete"), at_queue(bus, "job_failed")

    await finish(q, await add(q), Completed(1))
    await finish(q, await add(q), Failed(OOPS))

    told = await completed.next()
    assert (told["job"]["id"], told["job"]["result"], told["extra"]) == (1, 1, None)
    told = await failed.next()
    assert (told["job"]["id"], told["extra"]) == (2, {"message": "oops"})


async def test_a_failed_attempt_and_a_failure_say_why(q: Kue, bus: EventBus) -> None:
    job = await add(q, attempts=2)
    attempt, failed = at_job(bus, "failed_attempt", job), at_job(bus, "failed", job)

    await finish(q, job, Retried(OOPS))
    await finish(q, job, Failed(OOPS))

    for heard in (attempt, failed):
        told = await heard.next()
        assert told["extra"] == {"message": "oops"}
        assert told["job"]["id"] == job.id


async def test_who_listens_for_removals_hears_of_removals(
    q: Kue, bus: EventBus
) -> None:
    """D-9: and not of starts."""
    job = await add(q)
    removed, gone = at_job(bus, "remove", job), Heard()
    on_job(bus, "remove", job, gone)
    at_all, completed = at_queue(bus, "job_remove"), at_queue(bus, "job_complete")

    await finish(q, job, Completed())
    await completed.next()
    await q.remove_many([job.id])

    assert await removed.next() == {"id": job.id}
    assert await gone.hears() == [{"id": job.id}]
    assert removed.told == [{"id": job.id}]
    assert await at_all.next() == {
        "job": {"address_id": job.address_id, "id": job.id, "type": "email"},
        "extra": None,
    }


async def test_a_promotion_is_told_with_the_job(q: Kue, bus: EventBus) -> None:
    """D-10: not with its id alone."""
    job = await add(q, delay="1h")
    promoted = at_job(bus, "promotion", job)

    await q.handle(job).promote()

    assert (await promoted.next())["state"] == "INACTIVE"


async def test_every_event_is_told_at_both_levels(q: Kue, bus: EventBus) -> None:
    """D-11: promotions, progress, removals and additions, too."""
    address_id = str(uuid.uuid4())
    at_job_ = at(bus, Addresses().job("any", address_id, "email"))
    names = [
        "enqueue",
        "promotion",
        "start",
        "progress",
        "release",
        "failed_attempt",
        "complete",
        "remove",
    ]
    at_queue_ = {name: at_queue(bus, f"job_{name}") for name in names}

    job = await add(q, delay="1h", attempts=3, address_id=address_id)
    await q.handle(job).promote()
    run = await start(q, job)
    await q.handle(job).progress(30)
    await end(q.store, run, Released(), now=await q.now())
    await finish(q, job, Retried(OOPS))
    await finish(q, job, Completed())
    await at_queue_["complete"].next()
    await q.remove_many([job.id])

    for heard in at_queue_.values():
        assert (await heard.next())["job"]["id"] == job.id
    told = [each["event"] for each in await at_job_.hears(11)]
    assert [name for name in told if name != "start"] == [
        "enqueue",
        "promotion",
        "progress",
        "release",
        "error",
        "failed_attempt",
        "complete",
        "remove",
    ]
    assert told.count("start") == 3


async def test_an_error_has_one_shape_wherever_it_is_told(
    q: Kue, bus: EventBus
) -> None:
    """D-12: of a job and of the queue, of an attempt and of the last."""
    job = await add(q, attempts=2)
    of_job, of_queue = at_job(bus, "error", job), at_queue(bus, "error")
    unknown = at_queue(bus, "job_error")

    await finish(q, job, Retried(OOPS))
    await finish(q, job, Failed(OOPS))

    shape = {"id": job.id, "type": "email", "message": "oops"}
    assert await of_job.hears(2) == [shape, shape]
    assert await of_queue.hears(2) == [shape, shape]
    assert unknown.told == []


async def test_every_listener_hears_every_event(q: Kue, bus: EventBus) -> None:
    """D-13: events are published; nobody takes them from another."""
    listeners = [Heard(), Heard(), Heard()]
    for heard in listeners:
        on(bus, "job_complete", heard)

    for _ in range(4):
        await finish(q, await add(q), Completed())

    for heard in listeners:
        assert [told["job"]["id"] for told in await heard.hears(4)] == [1, 2, 3, 4]


async def test_what_is_told_is_already_so(q: Kue, bus: EventBus) -> None:
    """D-14: the job of an event is in the state that the event tells of."""
    progress, completed = at_queue(bus, "job_progress"), at_queue(bus, "job_complete")
    job = await add(q)

    run = await start(q, job)
    await q.handle(job).progress(30, data={"page": 3})
    told = await progress.next()
    await end(q.store, run, Completed(), now=await q.now())

    assert told["job"]["progress"] == 30
    assert told["extra"] == {"progress": 30, "data": {"page": 3}}
    assert (await completed.next())["job"]["state"] == "COMPLETE"


async def test_a_job_that_goes_when_it_is_complete_is_told_complete_then_gone(
    q: Kue, bus: EventBus
) -> None:
    """D-14: of what is gone, what is known of it is told."""
    address_id = str(uuid.uuid4())
    heard = at(bus, Addresses().job("any", address_id, "email"))
    job = await add(q, address_id=address_id, remove_on_complete=True)

    run = await start(q, job)
    await heard.hears(2)
    await end(q.store, run, Completed({"sent": 1}), now=await q.now())

    told = {each["event"]: each["body"] for each in await heard.hears(4)}
    assert list(told) == ["enqueue", "start", "complete", "remove"]
    assert told["complete"] == {
        "address_id": job.address_id,
        "id": job.id,
        "result": {"sent": 1},
        "state": "COMPLETE",
        "type": "email",
    }


@pytest.mark.parametrize("ending", [Completed(), Failed(OOPS)])
async def test_a_listener_ends_with_the_job(
    q: Kue, bus: EventBus, ending: Completed | Failed
) -> None:
    """D-15: however it ends, and whatever was listened for."""
    job = await add(q)
    consumers = [
        on_job(bus, event, job, lambda body: None)
        for event in ("progress", "complete", "failed")
    ]
    assert list(bus.consumers().values()) == [3]

    await finish(q, job, ending)

    await until(lambda: not any(consumer.is_registered for consumer in consumers))
    assert bus.consumers() == {}


async def test_a_listener_that_raises_ends_with_the_job_all_the_same(
    q: Kue, bus: EventBus, caplog: pytest.LogCaptureFixture
) -> None:
    """D-15: and the others hear what there is."""
    job = await add(q)
    heard = Heard()

    def raises(body: object) -> None:
        raise ValueError("no")

    bad = on_job(bus, "complete", job, raises)
    on_job(bus, "complete", job, heard)
    await finish(q, job, Completed())

    assert (await heard.next())["id"] == job.id
    await until(lambda: not bad.is_registered)
    assert "no" in caplog.text


async def test_a_slow_listener_hears_all_before_it_ends(q: Kue, bus: EventBus) -> None:
    """D-15: the end does not overtake what came before it."""
    job = await add(q)
    heard = Heard()

    async def slow(body: int) -> None:
        await until(lambda: len(stream.told) >= 5)
        heard(body)

    on_job(bus, "progress", job, slow)
    stream = at_job(bus, "any", job)
    run = await start(q, job)
    for percent in (10, 20, 30):
        await q.handle(job).progress(percent)
    await end(q.store, run, Completed(), now=await q.now())

    assert await heard.hears(3) == [10, 20, 30]


async def test_no_type_hears_of_another(q: Kue, bus: EventBus) -> None:
    """D-16: jobs of types that look like addresses, with one address id."""
    address_id = str(uuid.uuid4())
    types = ["email", "x.email", "x%2Eemail", f"{address_id}.email"]
    heard = {type: Heard() for type in types}
    for type in types:
        job = {"address_id": address_id, "type": type}
        on_job(bus, "complete", job, heard[type])

    for type in types:
        await finish(q, await add(q, type, address_id=address_id), Completed())

    for type in types:
        assert (await heard[type].next())["type"] == type
        assert len(heard[type].told) == 1


async def test_jobs_without_an_address_of_their_own_do_not_share_one(
    q: Kue, bus: EventBus
) -> None:
    """D-16: the address is given by the store, and by nobody twice."""
    jobs = [await add(q), await add(q)]
    heard = [at_job(bus, "complete", job) for job in jobs]

    for job in jobs:
        await finish(q, job, Completed())

    for job, ear in zip(jobs, heard, strict=True):
        assert [told["id"] for told in await ear.hears()] == [job.id]


async def test_a_job_whose_address_is_not_known_cannot_be_listened_to(
    q: Kue, bus: EventBus
) -> None:
    handle = await q.enqueue("email")

    with pytest.raises(ValueError, match=r"refresh\(\) it first"):
        on_job(bus, "complete", handle, print)
    with pytest.raises(ValueError, match="event 'completed' is unknown"):
        on_job(bus, "completed", await handle.refresh(), print)
    with pytest.raises(ValueError, match="event 'complete' is unknown"):
        on(bus, "complete", print)


async def test_a_listener_may_come_before_its_job(q: Kue, bus: EventBus) -> None:
    job = {"address_id": str(uuid.uuid4()), "type": "email"}
    heard = Heard()
    on_job(bus, "enqueue", job, heard)

    await q.enqueue("email", {"to": "ann"}, address_id=job["address_id"])

    assert (await heard.next())["data"] == {"to": "ann"}


async def test_queues_that_share_a_bus_have_different_roots(
    q: Kue, bus: EventBus
) -> None:
    mine, theirs = Heard(), Heard()
    there = Addresses("shop.kue")
    on(bus, "job_enqueue", mine)
    on(bus, "job_enqueue", theirs, there)
    async with Kue("memory://") as other, relayed(other, bus, there):
        await other.enqueue("theirs")
        await q.enqueue("mine")

        assert (await theirs.next())["job"]["type"] == "theirs"
        assert (await mine.next())["job"]["type"] == "mine"


async def test_a_relay_that_was_stopped_tells_no_more(
    q: Kue, bus: EventBus, relay: EventPublisher
) -> None:
    heard = Heard()
    on(bus, "job_enqueue", heard)
    await add(q)
    await heard.hears(1)

    await relay.stop()
    await add(q)
    async with relayed(q, bus):
        await add(q)

        assert [told["job"]["id"] for told in await heard.hears(2)] == [1, 3]


async def test_addresses_of_the_oldest_jobs_are_forgotten(
    q: Kue, bus: EventBus, relay: EventPublisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relaying, "MAX_KNOWN", 2)
    added = at_queue(bus, "job_enqueue")
    first, second, third = [await add(q) for _ in range(3)]
    await added.hears(3)
    removed = [at_job(bus, "remove", job) for job in (first, third)]
    at_all = at_queue(bus, "job_remove")

    await q.remove_many([first.id, second.id, third.id])

    ids = [told["job"]["id"] for told in await at_all.hears(3)]
    assert sorted(ids) == [1, 2, 3]
    assert [ear.told for ear in removed] == [[], [{"id": third.id}]]


async def test_a_lagging_relay_says_so(
    q: Kue, bus: EventBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = at(bus, Addresses("lag").queue("error"))
    monkeypatch.setattr(relaying, "BUFFER", 1)
    async with relayed(q, bus, Addresses("lag")):
        await q.enqueue_many("email", range(2_000))

        assert "events were missed" in (await heard.next())["message"]


@pytest.mark.parametrize("kind", ["sqlite", "redis"])
async def test_a_job_that_cannot_be_read_does_not_stop_the_relay(
    kind: str, bus: EventBus, tmp_path: Path, redis_server: RedisServer
) -> None:
    """D-12: it is told in the shape of all errors."""
    url = redis_server.url if kind == "redis" else f"sqlite:///{tmp_path}/kue.db"
    engine = engine_at(kind, url)
    at_error = at(bus, Addresses("bad").queue("error"))
    completed = at(bus, Addresses("bad").queue("job_complete"))
    async with (
        Kue(url, prefix=engine.settings.prefix) as q,
        relayed(q, bus, Addresses("bad")),
    ):
        bad = await add(q, "bad")
        spoil_record(engine, bad.id)

        assert await claim(q.store, "bad", now=await q.now()) == []
        await finish(q, await add(q), Completed())

        told = await at_error.next()
        assert told.keys() == {"id", "type", "message"}
        assert (told["id"], told["type"]) == (bad.id, "bad")
        assert (await completed.next())["job"]["type"] == "email"


async def test_events_that_nobody_hears_are_not_read(
    q: Kue, bus: EventBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only where a job is must be known, in case someone listens later."""
    read: list[list[int]] = []
    get = q.store.get

    async def counted(ids: Sequence[int]) -> list[Job | None]:
        read.append(list(ids))
        return await get(ids)

    enqueued = at_queue(bus, "job_enqueue")
    job = await add(q)
    await enqueued.next()
    monkeypatch.setattr(q.store, "get", counted)

    await finish(q, job, Completed())
    second = await q.enqueue("email")
    await enqueued.hears(2)

    assert read == [[second.id]]
    heard = at_job(bus, "remove", job)
    await q.remove_many([job.id])
    assert await heard.next() == {"id": job.id}
