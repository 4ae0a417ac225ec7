"""The program that looks whether each tick of a schedule fires once under faults."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from chaos.schedules import FAULTS, Wanted, run
from chaos.ticks import Definition, TickRun, account, draw
from chaos.view import View

from kue.model.draft import draft
from kue.model.schedule_options import schedule_of
from tests.support.jobs import HOUR, MINUTE, SECOND, T0

#: Due at T0, and 20 and 40 seconds later.
ONE = Definition("one", T0, T0 + 59 * SECOND, every=20 * SECOND)
TICKS = [T0, T0 + 20 * SECOND, T0 + 40 * SECOND]
JOBS = [("one", tick, number) for number, tick in enumerate(TICKS)]
RUNS = [TickRun(*job, at=0) for job in JOBS]


def test_the_same_seed_draws_the_same_schedules_of_all_kinds() -> None:
    drawn = draw(200, 3, T0, T0 + MINUTE)

    assert drawn == draw(200, 3, T0, T0 + MINUTE) != draw(200, 4, T0, T0 + MINUTE)
    kinds = {(bool(one.every), one.cron.count(" "), bool(one.at)) for one in drawn}
    assert kinds == {
        (True, 0, False),
        (False, 4, False),
        (False, 5, False),
        (False, 0, True),
    }


def test_definitions_and_schedules_are_due_at_the_same_times() -> None:
    for one in draw(200, 1, T0 + 123, T0 + 123 + HOUR):
        schedule = schedule_of(one.name, draft("tick"), now=T0, **one.options)

        assert list(one.ticks) == list(schedule.upcoming(1000, since=T0)), one


def test_ticks_that_fired_once_are_in_order() -> None:
    again = TickRun(*JOBS[0], at=1)

    found = account([ONE], JOBS, [*RUNS, again])

    assert (found.due, found.repeated) == (3, 1)
    assert found.missing == found.twice == found.unexpected == []


@pytest.mark.parametrize(
    ("trouble", "jobs", "runs"),
    [
        ("missing", JOBS[:-1], RUNS[:-1]),
        ("missing", JOBS, RUNS[:-1]),
        ("twice", [*JOBS, ("one", TICKS[-1], 7)], RUNS),
        ("twice", JOBS, [*RUNS, TickRun("one", TICKS[-1], 7, at=0)]),
    ],
)
def test_a_tick_that_did_not_fire_once_is_found(
    trouble: str, jobs: list[Any], runs: list[TickRun]
) -> None:
    found = account([ONE], jobs, runs)._asdict()

    assert found.pop(trouble) == [("one", TICKS[-1])]
    assert [] == found.get("missing", []) == found.get("twice", [])


def test_a_tick_that_was_not_due_is_found() -> None:
    early = ("one", T0 - SECOND, 9)

    assert account([ONE], [*JOBS, early], RUNS).unexpected == [early[:2]]


@pytest.mark.long
@pytest.mark.parametrize("engine", FAULTS)
async def test_each_tick_of_a_short_run_fires_once(engine: str, tmp_path: Path) -> None:
    with View() as view:
        figures = await run(Wanted(engine, 150, 6, seed=1), tmp_path, view)

    assert figures.ok, figures
    assert sum(figures.faults.values()) > 1
