"""Alerts noticed by several processes at once: one of them reports."""

from __future__ import annotations

import asyncio
import signal

import msgspec
import pytest

from kue import Kue
from kue.model.alerts import AlertState
from kue.worker.alert_records import ALERTS, STATE
from tests.support import warm
from tests.support.engines import Engine
from tests.support.patience import PATIENCE_SECONDS, eventually

PROCESSES = 3


async def state_of(q: Kue) -> AlertState:
    text = await q.store.kept(ALERTS, STATE)
    return msgspec.json.decode(text or "{}", type=AlertState)


async def checked_again(q: Kue, times: int) -> None:
    """Wait until that many checks were made, by whichever process."""
    marks: set[str] = set()

    async def is_enough() -> bool:
        marks.add((await state_of(q)).mark)
        return len(marks) > times

    await eventually(is_enough)


@pytest.mark.parametrize("place", ["sqlite", "redis"], indirect=True)
async def test_one_process_reports_what_all_notice(place: Engine, q: Kue) -> None:
    """No worker takes the type: only workers of another one can notice."""
    await q.set_alert("email", no_worker="30ms", remind=0)
    job = await q.enqueue("email")
    url, prefix = place.settings.url, place.settings.prefix
    programs = [
        await warm.start("tests.worker.alert_program", url, prefix)
        for _ in range(PROCESSES)
    ]

    async with asyncio.timeout(PATIENCE_SECONDS):
        await eventually(q.alerts)
        await checked_again(q, 20)
        await job.remove()
        await eventually(lambda: resolved(q))
        await checked_again(q, 20)
        said = b""
        for program in programs:
            program.send_signal(signal.SIGTERM)
            assert await program.wait() == 0
            said += await program.stdout.read()
            await program.close()

    assert sorted(said.decode().splitlines()) == [
        "raised email no_worker",
        "resolved email no_worker",
    ]


async def resolved(q: Kue) -> bool:
    return not await q.alerts()
