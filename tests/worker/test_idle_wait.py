"""The call that waits for work on behalf of idle lanes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kue.aio.retry import StoreRetry
from kue.model import settings
from kue.store import store_for
from kue.worker.idle_wait import IdleWait
from kue.worker.shared_context import SharedContext
from tests.support.jobs import add_one
from tests.support.patience import PATIENCE_SECONDS

MEMORY = settings.load(environ={}, url="memory://")


class EmptyLane:
    """A lane that has no work, and is told when there is some."""

    type = "email"
    is_empty = True
    spare = 1
    due = None

    def __init__(self) -> None:
        self.got_work = asyncio.Event()

    def expect(self, room: int) -> None: ...

    def receive(self, jobs: list[Any], claimed: object, expected: int) -> None:
        if jobs:
            self.got_work.set()

    def wake(self) -> None:
        self.got_work.set()


@pytest.mark.parametrize("claims", [True, False])
async def test_a_wait_that_is_interrupted_before_its_first_step_begins_again(
    claims: bool,
) -> None:
    store = store_for(MEMORY)
    lane: Any = EmptyLane()
    context = SharedContext("w1", store, StoreRetry(store.name), MEMORY, [lane])
    became_idle = asyncio.Event()
    wait = IdleWait(context, became_idle, claims=claims)
    became_idle.set()
    waiting = asyncio.create_task(wait.run())
    while not wait._calls:  # noqa: ASYNC110 - nobody may run before we interrupt
        await asyncio.sleep(0)
    assert not wait._waiting, "the call has made its first step"

    wait.interrupt()
    await add_one(store, "email")

    async with asyncio.timeout(PATIENCE_SECONDS):
        await lane.got_work.wait()
    waiting.cancel()
    await asyncio.wait([waiting])
    await store.close()
