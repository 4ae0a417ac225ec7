"""When there should be more processes, and when fewer."""

from __future__ import annotations

import asyncio

import pytest

from kue.supervisor.child_lease_renewal import ChildHeartbeats
from kue.supervisor.child_pool import ChildPool
from kue.supervisor.options import ProcessCount, SupervisorOptions
from kue.supervisor.protocol import StartFailed
from kue.supervisor.scaling import (
    WINDOW_SECONDS,
    BacklogMeter,
    ScalingRule,
    SlotLoad,
    SlotReading,
)

TARGET, COOLDOWN = 5.0, 30.0
LEAST, MOST = 1, 8


def busy(*, waiting: int, ended: int, seconds: float = 10, **facts: int) -> SlotLoad:
    """A process that runs ten jobs at once."""
    given = {"slots": 10, "running": 10} | facts
    return SlotLoad(waiting=waiting, ended=ended, seconds=seconds, **given)


#: Nothing waits, and nothing runs.
IDLE = SlotLoad(slots=10, waiting=0, running=0)


def new_rule() -> ScalingRule:
    return ScalingRule(target_wait=TARGET, cooldown=COOLDOWN)


def wanted(rule: ScalingRule, *loads: SlotLoad, processes: int, now: float) -> int:
    return rule.wanted(loads, processes, least=LEAST, most=MOST, now=now)


@pytest.mark.parametrize(
    ("load", "processes", "needed"),
    [
        pytest.param(IDLE, 1, 1, id="nothing to do"),
        pytest.param(busy(waiting=0, ended=0), 1, 1, id="busy, and nothing waits"),
        pytest.param(busy(waiting=50, ended=100), 1, 1, id="just in time"),
        pytest.param(busy(waiting=51, ended=100), 1, 2, id="a little too slow"),
        pytest.param(busy(waiting=200, ended=100), 1, 4, id="four times too slow"),
        pytest.param(busy(waiting=200, ended=100), 2, 8, id="two are too slow"),
        pytest.param(busy(waiting=9999, ended=100), 1, 8, id="never above the most"),
        pytest.param(busy(waiting=9999, ended=1), 8, 8, id="the most are there"),
        pytest.param(busy(waiting=15, ended=1), 1, 3, id="a slot for each is enough"),
        pytest.param(busy(waiting=15, ended=0), 1, 3, id="nothing ends"),
        pytest.param(busy(waiting=15, ended=0, seconds=0), 1, 1, id="not measured yet"),
        pytest.param(busy(waiting=1, ended=0, seconds=5), 1, 1, id="one, not for long"),
        pytest.param(busy(waiting=1, ended=0, seconds=6), 1, 2, id="one, for too long"),
        pytest.param(
            busy(waiting=2, ended=0, running=1), 3, 4, id="free slots that take nothing"
        ),
    ],
)
def test_as_many_are_wanted_as_take_the_backlog_in_time(
    load: SlotLoad, processes: int, needed: int
) -> None:
    assert wanted(new_rule(), load, processes=processes, now=0) == needed


def test_a_job_that_waits_for_too_long_counts_before_anything_has_ended() -> None:
    load = SlotLoad(1, waiting=1, running=1, seconds=1, first_wait=TARGET + 1)

    assert wanted(new_rule(), load, processes=1, now=0) == 2


def test_the_type_that_needs_the_most_decides() -> None:
    loads = [IDLE, busy(waiting=200, ended=100), busy(waiting=51, ended=100)]

    assert wanted(new_rule(), *loads, processes=1, now=0) == 4


def test_one_process_leaves_at_a_time_each_after_a_cool_down() -> None:
    rule, processes, seen = new_rule(), 4, []
    for now in range(200):
        fewer = wanted(rule, IDLE, processes=processes, now=now)
        if fewer != processes:
            seen.append((now, fewer))
        processes = fewer

    assert seen == [(30, 3), (60, 2), (90, 1)]


def test_a_backlog_starts_the_cool_down_again() -> None:
    rule = new_rule()

    assert wanted(rule, IDLE, processes=2, now=0) == 2
    assert wanted(rule, busy(waiting=40, ended=100), processes=2, now=29) == 2
    assert wanted(rule, IDLE, processes=2, now=30) == 2
    assert wanted(rule, IDLE, processes=2, now=59) == 2
    assert wanted(rule, IDLE, processes=2, now=60) == 1


def test_processes_that_came_stay_for_a_cool_down() -> None:
    rule = new_rule()
    wanted(rule, IDLE, processes=2, now=0)

    assert wanted(rule, busy(waiting=200, ended=100), processes=2, now=29) == 8
    assert wanted(rule, IDLE, processes=8, now=30) == 8
    assert wanted(rule, IDLE, processes=8, now=60) == 7


@pytest.mark.parametrize(
    ("processes", "running", "after"),
    [(2, 7, 1), (2, 8, 2), (8, 52, 7), (8, 53, 8), (8, 80, 8)],
)
def test_a_process_stays_while_the_others_would_be_nearly_full(
    processes: int, running: int, after: int
) -> None:
    rule = new_rule()
    load = SlotLoad(slots=10, waiting=0, running=running)
    wanted(rule, load, processes=processes, now=0)

    assert wanted(rule, load, processes=processes, now=COOLDOWN) == after


def test_jobs_that_wait_for_a_moment_only_do_not_keep_a_process() -> None:
    """At any moment some job of a busy queue has just been added."""
    rule = new_rule()
    load = busy(waiting=3, ended=1000, running=2)
    wanted(rule, load, processes=2, now=0)

    assert wanted(rule, load, processes=2, now=COOLDOWN) == 1


def test_a_load_that_neither_needs_more_nor_fits_fewer_changes_nothing() -> None:
    """What brings a process up does not let it leave, and the other way round."""
    rule = new_rule()
    load = busy(waiting=40, ended=100, running=20)

    found = {wanted(rule, load, processes=2, now=now) for now in range(1000)}

    assert found == {2}


def test_more_than_the_most_are_left_alone_while_they_are_needed() -> None:
    """An operator who stopped processes has lowered the most."""
    rule = new_rule()
    load = busy(waiting=200, ended=100)

    assert rule.wanted([load], 4, least=1, most=3, now=0) == 4


# -- measuring -----------------------------------------------------------------


def reading(waiting: int, ended: int) -> dict[str, SlotReading]:
    return {"email": SlotReading(slots=1, waiting=waiting, running=1, ended=ended)}


def test_the_rate_is_that_of_the_time_in_which_jobs_waited() -> None:
    """A quiet minute before a burst is not a low rate."""
    meter = BacklogMeter()
    for now in range(60):
        meter.measure(reading(0, 0), now)
    [first] = meter.measure(reading(100, 50), 60)
    [second] = meter.measure(reading(60, 40), 61)

    assert (first.seconds, first.expected_wait) == (0, 0)
    assert (second.ended, second.seconds) == (40, 1)
    assert second.expected_wait == 1.5


def test_the_rate_is_that_of_the_last_seconds() -> None:
    meter = BacklogMeter()
    for now in range(100):
        [load] = meter.measure(reading(50, 10 if now < 80 else 1), now)

    assert (load.seconds, load.ended) == (WINDOW_SECONDS, 10)


def test_other_processes_have_another_rate() -> None:
    meter = BacklogMeter()
    meter.measure(reading(50, 1), 0)
    meter.measure(reading(50, 1), 1)
    meter.reset()

    [load] = meter.measure(reading(50, 1), 2)

    assert (load.ended, load.seconds) == (0, 0)


def test_a_type_that_is_gone_is_forgotten() -> None:
    meter = BacklogMeter()
    meter.measure(reading(50, 1), 0)
    meter.measure({}, 1)

    [load] = meter.measure(reading(50, 1), 2)

    assert load.seconds == 0


# -- the pool ------------------------------------------------------------------


def failed(failure: StartFailed) -> None:
    raise AssertionError(failure)


async def test_without_a_working_pool_nothing_is_added_or_given_up() -> None:
    """It has not begun, or is stopping."""
    options = SupervisorOptions(target="app:q", processes=2, most_processes=4)
    pool = ChildPool(
        options, ChildHeartbeats(), asyncio.TaskGroup(), on_failed_start=failed
    )

    assert (pool.grow(2), pool.shrink()) == (0, False)
    assert (pool.count, pool.room) == (ProcessCount(now=2, least=2, most=4), 2)


async def test_a_process_that_an_operator_stopped_is_not_among_the_most() -> None:
    options = SupervisorOptions(target="app:q", processes=2, most_processes=4)
    pool = ChildPool(
        options, ChildHeartbeats(), asyncio.TaskGroup(), on_failed_start=failed
    )
    for slot in pool.slots:
        slot.is_dismissed = True

    assert pool.count == ProcessCount(now=0, least=2, most=2)
