"""Schedules as tests of the command line add and read them."""

from __future__ import annotations

import shlex

from kue.model.draft import draft
from kue.model.job import Completed, Ending, Failed
from kue.model.schedule import Schedule
from kue.store.contract import Store
from tests.support.command_line import CommandLine
from tests.support.jobs import HOUR, MINUTE, OOPS, claim_one, end
from tests.support.schedules import every
from tests.support.upkeep import tend

NIGHTLY = '--cron "0 3 * * *" --tz Europe/Berlin'


def type_in(kue: CommandLine, line: str) -> str:
    """Type a command that succeeds; return its message."""
    said = kue(*shlex.split(line))
    assert (said.code, said.out) == (0, "")
    return said.err


def stored(kue: CommandLine, name: str) -> Schedule:
    """Return a schedule that must exist."""
    [found] = kue.arrange(lambda store: store.schedules(name))
    return found


async def run_three_times(store: Store) -> None:
    """Add a schedule that fired three times; its second job failed."""
    first = await store.now() - 2 * HOUR - 30 * MINUTE
    await store.schedule(every("sweep", "1h", draft("clean"), first_at=first))
    endings: list[Ending] = [Completed(), Failed(OOPS), Completed()]
    for number, ending in enumerate(endings):
        now = first + number * HOUR
        await tend(store, now=now + 20)
        job = await claim_one(store, "clean", now=now + 30)
        await end(store, job, ending, now=now + 280)


async def declare(store: Store) -> None:
    """Add a schedule as a worker does that starts."""
    first = await store.now() + HOUR
    declared = every(
        "digest", "1h", draft("mail"), first_at=first, declared_by="shop.tasks"
    )
    await store.schedule(declared)
