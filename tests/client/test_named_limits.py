"""Named limits of tasks and of a queue: declared, changed at run time, and kept."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import msgspec
import pytest

from kue import (
    ConfigError,
    JobHandle,
    Kue,
    LimitRule,
    State,
    StoredLimit,
    concurrency,
    rate,
)
from tests.support.engines import SHARDS, Engine
from tests.support.jobs import claim
from tests.support.patience import PATIENCE_SECONDS, eventually

FIVE = LimitRule(concurrency=5)


class Customer(msgspec.Struct):
    id: int | None


async def limits_of(q: Kue, id: int) -> dict[str, str]:
    """Return the limits of a stored job."""
    [job] = await q.store.get([id])
    assert job is not None
    return dict(job.limited_by)


async def held_by(job: JobHandle[Any]) -> str:
    """Return why a job is held, if it is."""
    return (await job.refresh()).held


async def started(q: Kue) -> None:
    """Start a worker, and stop it when nothing is left to do."""
    await q.run(burst=True, signals=False)


# -- the limits of a task ------------------------------------------------------


async def test_a_job_counts_against_the_limits_of_its_task(q: Kue) -> None:
    @q.task(
        limits=[
            rate("10/s", by="customer_id"),
            concurrency(5, name="stripe"),
            concurrency(2, name="house", by="place.house"),
        ]
    )
    async def charge(customer_id: int, place: dict[str, str]) -> None: ...

    job = await charge.enqueue(42, {"house": "north"})

    assert await limits_of(q, job.id) == {
        "charge.rate.customer_id": "42",
        "stripe": "",
        "house": "north",
    }


async def test_a_path_leads_into_an_argument_of_a_class(q: Kue) -> None:
    @q.task(limits=[concurrency(1, by="customer.id")])
    async def charge(customer: Customer) -> None: ...

    job = await charge.enqueue(Customer(7))

    assert await limits_of(q, job.id) == {"charge.concurrency.customer.id": "7"}


async def test_a_default_is_a_key_too(q: Kue) -> None:
    @q.task(limits=[concurrency(1, by="region")])
    async def charge(region: str = "eu") -> None: ...

    job = await charge.enqueue()

    assert await limits_of(q, job.id) == {"charge.concurrency.region": "eu"}


async def test_without_a_key_the_limit_does_not_apply(q: Kue) -> None:
    @q.task(
        limits=[concurrency(1, by="customer.id"), concurrency(5, name="stripe")],
    )
    async def charge(customer: Customer) -> None: ...

    job = await charge.enqueue(Customer(None))

    assert await limits_of(q, job.id) == {"stripe": ""}


async def test_a_key_that_cannot_be_one_is_refused_with_the_call(q: Kue) -> None:
    @q.task(limits=[concurrency(1, by="customer.name")])
    async def charge(customer: dict[str, Any]) -> None: ...

    with pytest.raises(ValueError, match=r"is by 'customer.name', which it does not"):
        await charge.enqueue({})
    with pytest.raises(ValueError, match=r"must be text or a whole number, not 1\.5"):
        await charge.enqueue({"name": 1.5})
    assert await q.counts_by_type() == {}


async def test_a_missing_argument_is_refused_where_it_is_declared(q: Kue) -> None:
    with pytest.raises(
        ValueError,
        match=r"'charge.rate.customer' is by 'customer', which charge has no parameter",
    ):

        @q.task(limits=[rate("1/s", by="customer")])
        async def charge(customer_id: int) -> None: ...


async def test_any_argument_of_a_task_that_takes_all_may_be_the_key(q: Kue) -> None:
    @q.task(limits=[concurrency(1, by="anything")])
    async def charge(**data: str) -> None: ...

    job = await charge.enqueue(anything="goes")

    assert await limits_of(q, job.id) == {"charge.concurrency.anything": "goes"}


async def test_two_rules_under_one_name_are_refused(q: Kue) -> None:
    @q.task(limits=[concurrency(5, name="stripe")])
    async def charge() -> None: ...

    @q.task(limits=[concurrency(5, name="stripe")])
    async def refund() -> None: ...

    with pytest.raises(
        ValueError,
        match="limit 'stripe' is 5 at once for 'charge' and 1 per second for 'cancel'",
    ):

        @q.task(limits=[rate("1/s", name="stripe")])
        async def cancel() -> None: ...


async def test_options_of_a_call_add_to_the_limits_of_the_task(q: Kue) -> None:
    @q.task(limits=[concurrency(5, name="stripe"), concurrency(1, by="to")])
    async def charge(to: str) -> None: ...

    more = {"vip": "", "charge.concurrency.to": "bob"}
    job = await charge.options(limited_by=more, priority="high").enqueue("ann")
    again = await charge.enqueue("ann")

    assert await limits_of(q, job.id) == {"stripe": "", **more}
    assert await limits_of(q, again.id) == {
        "stripe": "",
        "charge.concurrency.to": "ann",
    }


async def test_limits_and_a_unique_key_go_together(q: Kue) -> None:
    @q.task(limits=[concurrency(1, by="to")], unique=True)
    async def charge(to: str) -> None: ...

    job = await charge.enqueue("ann")
    again = await charge.enqueue("ann")

    assert (again.id, again.is_new) == (job.id, False)
    assert await limits_of(q, job.id) == {"charge.concurrency.to": "ann"}


async def test_many_calls_have_a_key_each(q: Kue) -> None:
    @q.task(limits=[concurrency(1, by="to")])
    async def charge(to: str) -> None: ...

    jobs = await q.enqueue_many(charge.draft(to) for to in ("ann", "bob"))

    found = [await limits_of(q, job.id) for job in jobs]
    assert [one["charge.concurrency.to"] for one in found] == ["ann", "bob"]


async def test_a_job_by_name_counts_against_what_it_names_alone(q: Kue) -> None:
    @q.task(limits=[concurrency(5, name="stripe")])
    async def charge() -> None: ...

    bare = await q.enqueue("charge")
    named = await q.create_job("charge").limited_by({"stripe": ""}).save()

    assert await limits_of(q, bare.id) == {}
    assert await limits_of(q, named.id) == {"stripe": ""}


# -- beside the limits of a type -----------------------------------------------


async def claimed(q: Kue, type: str) -> list[Any]:
    """Return the data of the jobs that may start now."""
    return [job.data for job in await claim(q.store, type, now=await q.now())]


async def test_a_rate_is_that_of_a_type_or_of_each_value_of_an_argument(q: Kue) -> None:
    @q.task(limits=[rate("1/h", by="customer")])
    async def charge(customer: str) -> None: ...

    await q.limit("email", rate=2, per="1h")
    await q.set_limit("charge.rate.customer", rate("1/h"))
    await q.enqueue_many("email", range(3))
    await charge.enqueue_many({"customer": name} for name in ("ann", "ann", "bob"))

    assert await claimed(q, "email") == [0, 1]
    assert await claimed(q, "charge") == [{"customer": "ann"}, {"customer": "bob"}]


async def test_concurrency_is_that_of_a_type_a_group_or_a_value_of_an_argument(
    q: Kue,
) -> None:
    @q.task(limits=[concurrency(1, by="customer")])
    async def charge(customer: str) -> None: ...

    await q.limit("email", concurrency=2)
    await q.limit("report", per_key=1)
    await q.set_limit("charge.concurrency.customer", concurrency(1))
    await q.enqueue_many("email", range(3))
    for group in ("north", "north", "south"):
        await q.enqueue("report", group, group=group)
    await charge.enqueue_many({"customer": name} for name in ("ann", "ann", "bob"))

    assert await claimed(q, "email") == [0, 1]
    assert await claimed(q, "report") == ["north", "south"]
    assert await claimed(q, "charge") == [{"customer": "ann"}, {"customer": "bob"}]


def test_ordinary_code_has_the_same_limits(plain_q: Kue) -> None:
    @plain_q.task(limits=[concurrency(1, by="to")])
    def charge(to: str) -> None: ...

    q = plain_q.sync
    job = q.get(q.enqueue_many([charge.draft("ann")])[0].id)
    q.set_limit("stripe", concurrency(5))

    assert job.job is not None
    assert dict(job.job.limited_by) == {"charge.concurrency.to": "ann"}
    assert q.named_limits() == {"stripe": StoredLimit(FIVE)}
    assert q.limit_use("stripe") == []
    assert q.clear_limit("stripe")
    assert not q.clear_limit("stripe")


async def test_a_schedule_of_a_limited_task_adds_limited_jobs(q: Kue) -> None:
    @q.every("1h", arguments={"region": "eu"})
    @q.task(limits=[concurrency(1, by="region"), concurrency(5, name="stripe")])
    async def sweep(region: str) -> None: ...

    await started(q)
    job = await q.run_schedule("sweep")

    assert await limits_of(q, job.id) == {
        "sweep.concurrency.region": "eu",
        "stripe": "",
    }


# -- declared limits in the store ----------------------------------------------


async def test_limits_are_in_force_before_the_first_job_runs(
    q: Kue, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[StoredLimit | None] = []

    @q.task(limits=[concurrency(5, name="stripe")])
    async def charge() -> None:
        seen.append((await q.named_limits()).get("stripe"))

    await charge.enqueue()
    assert await q.named_limits() == {}
    with caplog.at_level(logging.INFO, logger="kue.client.declared_limits"):
        await started(q)

    assert seen == [StoredLimit(FIVE, FIVE)]
    assert "limit stripe added: 5 at once" in caplog.text


async def test_no_more_run_at_once_than_the_limit_of_both_tasks(q: Kue) -> None:
    running = most = 0

    async def run() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        # Others that may start have started by then.
        for _ in range(20):
            await asyncio.sleep(0)
        await q.counts()
        running -= 1

    q.task(limits=[concurrency(2, name="stripe")], name="charge")(run)
    q.task(limits=[concurrency(2, name="stripe")], name="refund")(run)
    drafts = [
        q.draft(type, limited_by={"stripe": ""})
        for type in ("charge", "refund")
        for _ in range(8)
    ]
    jobs = await q.enqueue_many(drafts)
    async with q.work(concurrency=10):
        for job in jobs:
            await job.result(timeout=PATIENCE_SECONDS)

    assert 1 <= most <= 2
    assert [(await job.refresh()).attempts for job in jobs] == [1] * 16


def declaring(q: Kue, number: int) -> Kue:
    """Return another program with the store of *q*, which declares a limit."""
    program = Kue(store=q.store)

    @program.task(limits=[concurrency(number, name="stripe")])
    async def charge() -> None: ...

    return program


async def test_what_was_set_at_run_time_survives_a_restart(
    q: Kue, caplog: pytest.LogCaptureFixture
) -> None:
    await started(declaring(q, 5))
    await q.set_limit("stripe", concurrency(9))

    with caplog.at_level(logging.INFO, logger="kue.client.declared_limits"):
        await started(declaring(q, 5))

    assert await q.named_limits() == {
        "stripe": StoredLimit(LimitRule(concurrency=9), FIVE)
    }
    assert (
        "limit stripe is 9 at once, as it was set at run time; the program declares "
        "5 at once"
    ) in caplog.text


async def test_a_changed_declaration_replaces_what_was_set_at_run_time(q: Kue) -> None:
    await started(declaring(q, 5))
    await q.set_limit("stripe", concurrency(9))

    await started(declaring(q, 6))

    six = LimitRule(concurrency=6)
    assert await q.named_limits() == {"stripe": StoredLimit(six, six)}


async def test_a_deleted_limit_comes_back_with_the_program(q: Kue) -> None:
    await started(declaring(q, 5))
    assert await q.clear_limit("stripe")
    assert await q.named_limits() == {}

    await started(declaring(q, 5))

    assert await q.named_limits() == {"stripe": StoredLimit(FIVE, FIVE)}


async def test_a_limit_that_was_set_first_is_replaced_by_the_declared_one(
    q: Kue,
) -> None:
    await q.set_limit("stripe", concurrency(9))

    await started(declaring(q, 5))

    assert await q.named_limits() == {"stripe": StoredLimit(FIVE, FIVE)}


@pytest.mark.parametrize("engine", ["redis-shards"], indirect=True)
async def test_a_limit_of_types_on_different_shards_keeps_the_worker_from_starting(
    engine: Engine,
) -> None:
    async with Kue(engine.settings.url, prefix=engine.settings.prefix) as q:
        ran: list[str] = []

        async def charge() -> None:
            ran.append("one of them")

        # A name decides on which shard its type lives: not all of these on one.
        types = [f"type {number}" for number in range(4 * SHARDS)]
        for type in types:
            q.task(name=type, limits=[concurrency(1, name="stripe")])(charge)
        jobs = await q.enqueue_many(q.draft(type) for type in types)

        with pytest.raises(ConfigError, match="which live on different shards"):
            await started(q)

        assert ran == []
        assert {(await job.refresh()).attempts for job in jobs} == {0}


# -- at run time ---------------------------------------------------------------


async def test_a_wider_limit_lets_held_jobs_run_while_the_worker_goes_on(
    q: Kue,
) -> None:
    both, done = asyncio.Event(), asyncio.Event()
    running: list[int] = []

    @q.task(limits=[concurrency(1, name="stripe")])
    async def charge(number: int) -> None:
        running.append(number)
        if len(running) == 2:
            both.set()
        await done.wait()

    jobs = [await charge.enqueue(number) for number in range(2)]
    async with q.work(concurrency=2), asyncio.timeout(PATIENCE_SECONDS):
        held = await eventually(lambda: held_by(jobs[1]))
        assert held == "waits for limit 'stripe', 1 running"
        [use] = await q.limit_use("stripe")
        assert (use.key, use.running, use.waiting) == ("", 1, 1)

        await q.set_limit("stripe", concurrency(2))
        await both.wait()
        done.set()
        for job in jobs:
            await job.result()

    assert {(await job.refresh()).state for job in jobs} == {State.COMPLETE}


@pytest.mark.parametrize(
    "limit",
    [concurrency(1, by="to"), concurrency(1, name="other"), rate("1/s", by="x")],
)
async def test_a_rule_for_all_keys_is_not_that_of_a_task(q: Kue, limit: Any) -> None:
    with pytest.raises(ValueError, match="by= and name= are for the limits of a task"):
        await q.set_limit("stripe", limit)
    assert await q.named_limits() == {}


async def test_a_rule_may_name_its_limit(q: Kue) -> None:
    await q.set_limit("stripe", concurrency(5, name="stripe"))

    assert await q.named_limits() == {"stripe": StoredLimit(FIVE)}


@pytest.mark.parametrize("name", ["", ".", "..", "a\nb"])
async def test_a_name_that_cannot_be_one_is_refused(q: Kue, name: str) -> None:
    with pytest.raises(ValueError, match="limit"):
        await q.set_limit(name, concurrency(5))
