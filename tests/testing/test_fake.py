"""A faked queue records what is added, and says what is missing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from unittest.mock import ANY

import pytest
from starlette.background import BackgroundTasks

import kue
from kue.testing import AddedJobs, fake, run_all

#: Nobody listens there: a fake must not connect.
NOWHERE = "redis://127.0.0.1:1"


@pytest.fixture
async def q() -> AsyncIterator[kue.Kue]:
    async with kue.Kue(NOWHERE) as queue:
        yield queue


@pytest.fixture
def send(q: kue.Kue) -> kue.Task[..., object, None]:
    @q.task
    async def send(to: str, subject: str = "Hello") -> None:
        raise AssertionError("nothing may run")

    return send


Send = kue.Task[..., object, None]


def message(call: Callable[[], object]) -> list[str]:
    with pytest.raises(AssertionError) as caught:
        call()
    return str(caught.value).splitlines()


async def test_nothing_runs_and_everything_is_recorded(q: kue.Kue, send: Send) -> None:
    with fake(q) as jobs:
        await send.enqueue("ann@x")
        await send.enqueue_many([{"to": "bob@x"}, {"to": "cid@x"}])
        await q.create_job("plain", [1, 2]).save()
        await asyncio.to_thread(send.delay, "dan@x")
        counts = await q.counts()

    assert [job.data for job in jobs.added(send)] == [
        {"to": "ann@x"},
        {"to": "bob@x"},
        {"to": "cid@x"},
        {"to": "dan@x"},
    ]
    assert counts[kue.State.WAITING] == len(jobs) == 5
    jobs.assert_added(send, times=4)
    jobs.assert_added("plain", data=[1, 2])
    assert jobs[-1].data == {"to": "dan@x"}


def test_blocking_code_is_faked_as_well(q: kue.Kue, send: Send) -> None:
    with fake(q.sync) as jobs:
        job = send.delay("ann@x")
        assert job.refresh().state is kue.State.WAITING
        q.sync.enqueue("plain", 7)

    jobs.assert_added(send, to="ann@x")
    jobs.assert_added("plain", data=7)


async def test_the_queue_is_its_own_again_afterwards(q: kue.Kue, send: Send) -> None:
    store, sync = q.store, q.sync._sync_connection
    with suppress(RuntimeError), fake(q):
        assert q.store is not store
        raise RuntimeError("the test failed")

    assert q.store is store
    assert q.sync._sync_connection is sync
    with pytest.raises(kue.StoreUnavailable):
        await send.enqueue("ann@x")


async def test_arguments_are_compared_as_they_are_bound(q: kue.Kue, send: Send) -> None:
    with fake(q) as jobs:
        await send.enqueue("ann@x")

    jobs.assert_added(send, "ann@x")
    jobs.assert_added(send, subject="Hello", where=lambda job: job.queue == "send")
    jobs.assert_added(send.s("ann@x"))
    jobs.assert_added(send, to=ANY)
    jobs.assert_not_added(send, subject="Bye")
    jobs.assert_not_added("send", subject="Hello")  # a type has no defaults
    with pytest.raises(ValueError, match="use assert_not_added"):
        jobs.assert_added(send, times=0)
    with pytest.raises(TypeError, match="unexpected keyword argument 'too'"):
        jobs.assert_not_added(send, too="ann@x")


async def test_options_are_compared_as_they_are_meant(q: kue.Kue, send: Send) -> None:
    with fake(q) as jobs:
        await send.options(
            delay="1h", priority="high", queue="mail", unique="ann", attempts=5
        ).enqueue("ann@x")
        await send.options(unique=True, unique_for="1d").enqueue("bob@x")

    jobs.assert_added(send, to="ann@x", options={"delay": 3600, "priority": -10})
    jobs.assert_added(send, options={"queue": "mail", "unique": "ann", "attempts": 5})
    jobs.assert_added(send.options(unique=True, unique_for="24h"), "bob@x")
    jobs.assert_added(send, "bob@x", options={"unique_for": "1d"})
    jobs.assert_not_added(send, options={"delay": "2h"})
    jobs.assert_not_added(send, "bob@x", options={"priority": "high"})
    with pytest.raises(TypeError, match="did you mean delay"):
        jobs.assert_added(send, options={"dellay": 1})


async def test_the_message_lists_what_was_added_instead(q: kue.Kue, send: Send) -> None:
    with fake(q) as jobs:
        await q.enqueue("other", {"n": 1})
        await send.options(delay="90m", priority="high").enqueue("bob@x")

    assert message(lambda: jobs.assert_added(send, to="ann@x")) == [
        "send(to='ann@x') was not added",
        "added were:",
        (
            "  send(to='bob@x') with priority=-10, delay=1 h 30 min"
            "  ← to is 'bob@x', not 'ann@x'"
        ),
        "  other(n=1)",
    ]
    assert message(lambda: jobs.assert_added(send, "bob@x", options={"delay": "2h"}))[
        2
    ].endswith("← delay is 1 h 30 min, not '2h'")
    assert message(lambda: jobs.assert_added(send, times=2))[0] == (
        "send was added once, expected 2"
    )
    assert message(lambda: jobs.assert_not_added(send))[0] == (
        "send was added, and should not have been"
    )
    assert message(jobs.assert_nothing_added)[0] == (
        "2 jobs were added, and none should have been"
    )
    assert message(lambda: AddedJobs().assert_added(send)) == [
        "send was not added",
        "no job was added",
    ]


async def test_a_duplicate_is_no_job_and_a_replaced_one_has_the_newest_data(
    q: kue.Kue, send: Send
) -> None:
    with fake(q) as jobs:
        await send.options(unique="k").enqueue("ann@x")
        await send.options(unique="k").enqueue("ann@x")
        debounced = send.options(unique="d", debounce="1m")
        await debounced.enqueue("old@x")
        await debounced.enqueue("new@x")

    assert message(lambda: jobs.assert_added(send, to="ann@x", times=2))[:2] == [
        "send(to='ann@x') was added once, expected 2",
        "1 more found the unique key held, and added no job",
    ]
    jobs.assert_added(send, to="new@x", times=1)
    jobs.assert_not_added(send, to="old@x")


async def test_chains_are_compared_link_by_link(q: kue.Kue) -> None:
    @q.task
    async def fetch(url: str) -> list[int]:
        return []

    @q.task
    async def resize(images: list[int], size: int) -> list[int]:
        return images

    @q.task
    async def publish(parts: list[list[int]]) -> None: ...

    flow = (
        fetch.s("u")
        | kue.group(resize.s(size=1), resize.s(size=2))
        | publish.s().catch(fetch.si("failed"))
    )
    with fake(q) as jobs:
        await flow.enqueue()

    links = jobs.assert_chained(fetch.s("u"), [resize, resize.s(size=1)], publish)
    assert [job.name for job in links] == ["fetch", "resize", "resize", "publish"]
    jobs.assert_chained(fetch, kue.group(resize.s(size=1), resize.s(size=2)), "publish")
    jobs.assert_chained(flow)
    jobs.assert_chained(fetch, [resize.s(2), resize.s(1)], publish)
    assert message(lambda: jobs.assert_chained(fetch.s("v"), publish)) == [
        "the chain fetch(url='v') → publish was not added",
        "flows that were added:",
        "  fetch(url='u') → resize(size=1), resize(size=2) → publish()",
    ]


async def test_batches_have_their_jobs_and_callbacks(q: kue.Kue, send: Send) -> None:
    @q.task
    async def report(batch: int) -> None: ...

    with fake(q) as jobs:
        batch = kue.batch("mails").then(report.s()).finally_(report.si(0))
        await batch.enqueue(send.s(name) for name in ("ann@x", "bob@x"))

    found = jobs.assert_batched(send.s("bob@x"), send.s("ann@x"), name="mails")
    assert [job.name for job in found.then] == ["report"]
    assert [job.data for job in found.finally_] == [{"batch": 0}]
    assert jobs.assert_batched().name == "mails"
    assert message(lambda: jobs.assert_batched(send.s("ann@x"))) == [
        "no batch of send(to='ann@x') was added",
        "batches that were added:",
        "  batch 'mails' of send(to='ann@x'), send(to='bob@x')",
    ]


async def test_a_test_may_run_some_of_what_was_added(q: kue.Kue, send: Send) -> None:
    ended: list[int | None] = []
    q.on("job_complete", lambda event: ended.append(event.job_id))

    @q.task
    async def order(number: int) -> None:
        await send.enqueue(f"{number}@x")

    async with fake(q) as jobs:
        job = await order.enqueue(7)
        assert await run_all(q, types=[order]) == 1
        await job.result()

    jobs.assert_added(send, to="7@x", times=1)
    assert ended == [job.id]


async def test_adds_that_were_put_off_are_recorded(q: kue.Kue, send: Send) -> None:
    tasks = BackgroundTasks()
    async with fake(q) as jobs:
        send.after_response(tasks).delay("ann@x")
        jobs.assert_nothing_added()
        await tasks()

    jobs.assert_added(send, to="ann@x")
    jobs.clear()
    jobs.assert_nothing_added()
