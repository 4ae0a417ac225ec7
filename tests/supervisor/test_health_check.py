"""When a supervisor is worth keeping, and when it is ready."""

from __future__ import annotations

import asyncio

import pytest

from kue.model import settings
from kue.supervisor import health_check as module
from kue.supervisor.child_lease_renewal import ChildHeartbeats
from kue.supervisor.child_pool import ChildPool
from kue.supervisor.health_check import HealthCheck
from kue.supervisor.options import ProcessCount, SupervisorOptions
from kue.supervisor.protocol import Hello, StartFailed

HELLO = Hello(
    worker="host-1",
    settings=settings.load(environ={}),
    store="sqlite:///kue.db",
    durability="durable",
    types=(),
    concurrency=1,
    beats_itself=False,
    is_private=False,
    folder=None,
)


def failed(failure: StartFailed) -> None:
    raise AssertionError(failure)


@pytest.fixture
async def pool() -> ChildPool:
    """Slots without children."""
    options = SupervisorOptions(target="app:q", processes=2)
    return ChildPool(
        options, ChildHeartbeats(), asyncio.TaskGroup(), on_failed_start=failed
    )


async def test_before_the_first_child_is_up_it_is_live_and_not_ready(
    pool: ChildPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow import is no reason to be restarted."""
    monkeypatch.setattr(module, "NO_CHILD_SECONDS", 0)

    found = HealthCheck(pool, ChildHeartbeats()).check()

    assert (found.live, found.ready) == (True, False)
    assert found.reasons == ("process #1 is not up", "process #2 is not up")
    assert found.summary.startswith("0 processes, 0 jobs running, 0 done; process #1")


async def test_a_process_that_is_being_added_does_not_make_it_unready(
    pool: ChildPool,
) -> None:
    for slot in pool.slots:
        slot.is_added = slot.number == 2

    found = HealthCheck(pool, ChildHeartbeats()).check()

    assert found.reasons == ("process #1 is not up",)
    assert found.processes == ProcessCount(now=2, least=2, most=2)


async def test_without_any_child_for_long_it_is_not_live(
    pool: ChildPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool.first.set_result(HELLO)
    health_check = HealthCheck(pool, ChildHeartbeats())

    soon = health_check.check()
    monkeypatch.setattr(module, "NO_CHILD_SECONDS", 0)
    late = health_check.check()

    assert (soon.live, late.live) == (True, False)


async def test_while_it_stops_it_is_live_and_not_ready(
    pool: ChildPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool.first.set_result(HELLO)
    health_check = HealthCheck(pool, ChildHeartbeats())
    health_check.is_stopping = True

    found = health_check.check()

    assert (found.live, found.ready) == (True, False)
    assert found.reasons[0] == "stopping"
