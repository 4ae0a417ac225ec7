"""The queue whose schedules fire; its handler records each tick."""

from __future__ import annotations

import asyncio
import os
from datetime import datetime
from functools import cache
from pathlib import Path

import kue
from chaos.journal import Journal, now_ms
from chaos.leash import follow
from chaos.ticks import TickRun
from kue import ActiveJob

TYPE = "tick"
#: So that workers are killed between the record and the end of the run as well.
RUN_SECONDS = 0.01

q = kue.Kue()
if harness := os.environ.get("CHAOS_HARNESS"):
    follow(int(harness))


@q.process(TYPE, 50)
async def record(job: ActiveJob) -> None:
    run = TickRun(job.data["schedule"], tick_of(job.job), job.id, now_ms())
    journal(os.getpid()).write(run)
    await asyncio.sleep(RUN_SECONDS)


def tick_of(job: kue.Job) -> int:
    """Return when the schedule of a job was due, Unix ms."""
    moment = datetime.fromisoformat(job.spec.meta["scheduled_for"])
    return round(moment.timestamp() * 1000)


@cache
def journal(pid: int) -> Journal:
    return Journal(Path(os.environ["CHAOS_FOLDER"]) / f"ticks-{pid}.jsonl")
