"""The backlog: jobs that one more worker would start."""

from __future__ import annotations

import pytest

from kue.store.contract import Store
from kue.store.values import Limits, PauseRequest
from kue.worker.backlog import Backlog, backlogs, first_waits
from tests.support.jobs import add_many, add_one, claim


async def test_waiting_and_running_jobs_are_counted_by_type(store: Store) -> None:
    await add_many(store, 5, now=None)
    await add_one(store, "report", now=None, delay="1h")
    await claim(store, limit=2, now=None)

    found = await backlogs(store, ["email", "report", "unheard-of"])

    assert found == {
        "email": Backlog(waiting=3, running=2),
        "report": Backlog(0, 0),
        "unheard-of": Backlog(0, 0),
    }


@pytest.mark.parametrize("type", ["email", None])
async def test_jobs_of_a_paused_type_wait_for_nobody(
    store: Store, type: str | None
) -> None:
    await add_many(store, 5, now=None)
    await store.pause(PauseRequest(type))

    assert await backlogs(store, ["email"]) == {"email": Backlog(0, 0)}


async def test_a_paused_worker_pauses_no_type(store: Store) -> None:
    await add_one(store, now=None)
    await store.pause(PauseRequest(None, worker="web-1"))

    assert (await backlogs(store, ["email"]))["email"].waiting == 1


async def test_no_more_wait_than_the_limit_allows_to_run(store: Store) -> None:
    await store.limit("email", Limits(concurrency=3))
    await add_many(store, 5, now=None)
    await claim(store, limit=2, now=None)

    [found] = (await backlogs(store, ["email"])).values()

    assert found == Backlog(waiting=1, running=2, is_limited=True)


@pytest.mark.parametrize(
    ("is_limited", "running", "runnable"),
    [(False, 1, 5), (False, 2, 5), (True, 1, 0), (True, 2, 5)],
)
def test_jobs_that_wait_for_a_limit_do_not_wait_for_a_slot(
    is_limited: bool, running: int, runnable: int
) -> None:
    found = Backlog(waiting=5, running=9, is_limited=is_limited)

    assert found.runnable(running=running, slots=2) == runnable


async def test_the_first_job_has_waited_since_it_was_ready(store: Store) -> None:
    now = await store.now()
    await add_one(store, now=now - 90_000)
    await add_one(store, now=now)
    await add_one(store, "report", now=now - 7_000)
    found = await backlogs(store, ["email", "report", "unheard-of"])

    assert await first_waits(store, found, now=now) == {"email": 90, "report": 7}
    assert await first_waits(store, found, now=now, most=1) == {"email": 90}
