"""Starting children again: pauses, and systems that have no process left."""

from __future__ import annotations

import asyncio

import pytest

from kue.supervisor.child_process import ChildProcess
from kue.supervisor.child_slot import (
    LONGEST_PAUSE,
    STABLE_SECONDS,
    ChildSlot,
    RestartBackoff,
)
from kue.supervisor.protocol import StartFailed
from tests.support.patience import PATIENCE_SECONDS


def test_pauses_double_up_to_the_longest() -> None:
    backoff = RestartBackoff()

    pauses = [backoff.after(age=1) for _ in range(12)]

    assert pauses[:4] == [0.1, 0.2, 0.4, 0.8]
    assert pauses[-2:] == [LONGEST_PAUSE] * 2


def test_a_child_that_lived_well_is_followed_quickly_again() -> None:
    backoff = RestartBackoff()
    for _ in range(5):
        backoff.after(age=1)

    assert backoff.after(age=STABLE_SECONDS) == 0.1
    assert backoff.after(age=1) == pytest.approx(0.2)


class Poor:
    """A system that has no process left, until it has one."""

    is_burst = False

    def __init__(self, refusals: int) -> None:
        self.refusals = refusals
        self.found = asyncio.Event()

    async def start(self, number: int) -> ChildProcess:
        if self.refusals:
            self.refusals -= 1
            raise BlockingIOError("Resource temporarily unavailable")
        self.found.set()
        return await asyncio.Future()

    async def handle_failed_start(
        self, child: ChildProcess, failure: StartFailed, pause: float
    ) -> None:
        raise AssertionError("nobody came up")


async def test_a_system_without_processes_is_asked_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    system = Poor(refusals=2)
    keeping = asyncio.create_task(ChildSlot(1, system).run())

    async with asyncio.timeout(PATIENCE_SECONDS):
        await system.found.wait()
    keeping.cancel()

    assert len(caplog.records) == 2
    assert "no process can be started, next try in 0.1 s" in caplog.text
