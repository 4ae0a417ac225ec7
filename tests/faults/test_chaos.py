"""The chaos harness: it finds nothing wrong with Kue, and everything that is wrong."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
from chaos.breach import Breach
from chaos.command import Seeds, summed
from chaos.facts import Attempted, Away, Came, Died, Given, Idled, Loss, Started
from chaos.figures import breaches, effects_repeated, figures
from chaos.fleet import Fleet
from chaos.fleet import Kind as WorkerKind
from chaos.history import History
from chaos.losses import missing
from chaos.plan import ENGINES, TYPES, Plan, draw
from chaos.processes import HOME, Household, descendants_of, is_running, leashed
from chaos.recovery import times
from chaos.run import run
from chaos.sink import Effect, Sink
from chaos.sqlite_stage import SqliteStage
from chaos.view import View

from kue import Event, Job, Kind, State
from kue.model.job import Attempt, Error, Spec
from tests.support.patience import PATIENCE_SECONDS, until
from tests.support.warm import start

SECONDS = 4.0

# -- plans -------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
def test_the_same_seed_is_the_same_plan(engine: str) -> None:
    assert draw(engine, 7, 60) == draw(engine, 7, 60)
    assert draw(engine, 7, 60) != draw(engine, 8, 60)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_plan_of_a_minute_has_every_kind_of_trouble(engine: str) -> None:
    plan = draw(engine, 1, 60)

    chores = [one for calls in plan.calls for call in calls for one in call.chores]
    assert {chore.type for chore in chores} == set(TYPES)
    assert {"return", "raise", "exit", "block", "spin"} <= {one.does for one in chores}
    assert {"kill", "stop"} <= {fault.kind for fault in plan.faults}
    verbs = {"cancel", "retry", "retry_many", "retry_late", "promote", "promote_many"}
    assert verbs | {"pause", "resume", "remove"} <= {
        order.verb for order in plan.orders
    }


def test_a_shorter_run_is_the_beginning_of_a_longer_one() -> None:
    short, long = draw("redis", 3, 10), draw("redis", 3, 20)

    assert long.calls[0][: len(short.calls[0])] == short.calls[0]
    assert long.faults[: len(short.faults)] == short.faults


def test_a_plan_reads_as_it_was_written(tmp_path: Path) -> None:
    plan = draw("redis", 5, 3)
    plan.write(tmp_path / "plan.json")

    assert Plan.read(tmp_path / "plan.json") == plan


# -- workers -----------------------------------------------------------------------

#: A worker that takes its time to start.
SLOW = """
import signal, sys, time
time.sleep(0.3)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
while True:
    signal.pause()
"""


async def test_a_worker_that_is_still_starting_is_stopped_once_it_can_be(
    tmp_path: Path,
) -> None:
    household = Household()
    slow = WorkerKind((sys.executable, "-I", "-S", "-c", SLOW))
    fleet = Fleet(household, tmp_path, os.environ, [slow])
    fleet.start()

    try:
        assert await fleet.stop() == []
    finally:
        household.end()


# -- what must not be, is found ----------------------------------------------------


def line(fence: int, at: int, outcome: str, **more: Any) -> Attempt:
    """A line of a story: a run that began at its fence, by the clock of the tests."""
    attempt = more.pop("attempt", 1)
    return Attempt(
        token=f"{fence}:{fence}:{attempt}:w:a.1", at=at, outcome=outcome, **more
    )


def job(job_id: int, state: State, *history: Attempt, **more: Any) -> Job:
    spec = Spec(data={"key": f"k{job_id}"}, **more)
    return Job(
        id=job_id,
        type="quick",
        state=state,
        priority=0,
        created_at=10,
        spec=spec,
        history=history,
    )


def started(job_id: int, fence: int, **more: Any) -> Started:
    facts = {"key": f"k{job_id}", "type": "quick", "attempt": 1, "pid": 7, "parent": 1}
    return Started(
        **{"id": job_id, "fence": fence, "started_at": fence, **facts, **more}
    )


def event(kind: Kind, job_id: int) -> Event:
    return Event(kind=kind, job_id=job_id, type="quick", at=0)


LOST_WORKER = Error("WorkerLost", "worker w was lost while it ran this job")

#: Job 1 ran, job 2 lost its worker and ran again, job 3 was cancelled while it waited.
SOUND = History(
    attempted=(
        Attempted("k1", 1, 2, 1),
        Attempted("k2", 1, 2, 2),
        Attempted("k3", 1, 2, 3),
        Attempted("k4", 1, 9, error="the store cannot be reached"),
    ),
    started=(started(1, 20), started(2, 30), started(2, 3000, pid=8)),
    effects=(Effect(1, 20, 1, 7, 25), Effect(2, 3000, 1, 8, 3005)),
    given=(Given("cancel", 40, 45, "done", id=3),),
    came=tuple(Came(pid, 0) for pid in (7, 8, 9)),
    died=(Died(7, 1000),),
    events=(
        event(Kind.ENQUEUE, 1),
        event(Kind.START, 1),
        event(Kind.COMPLETE, 1),
        event(Kind.LAGGED, 0),
        event(Kind.RELEASE, 2),
        event(Kind.START, 2),
        event(Kind.COMPLETE, 2),
    ),
    jobs=(
        job(1, State.COMPLETE, line(20, 26, "complete", result=20)),
        job(
            2,
            State.COMPLETE,
            line(30, 2500, "stalled", error=LOST_WORKER, taken="lease"),
            line(3000, 3006, "complete", result=3000),
        ),
        job(3, State.CANCELLED, Attempt(token="", at=42, outcome="cancelled")),
    ),
)


def doctored(**changes: Any) -> History:
    return msgspec.structs.replace(SOUND, **changes)


def with_job(changed: Job) -> History:
    jobs = {**SOUND.job, changed.id: changed}
    return doctored(jobs=tuple(jobs.values()))


def and_started(*more: Started) -> History:
    return doctored(started=(*SOUND.started, *more))


def and_given(*more: Given, to: History = SOUND) -> History:
    return msgspec.structs.replace(to, given=(*SOUND.given, *more))


def test_a_sound_history_has_no_breach() -> None:
    assert breaches(SOUND) == []


#: Job 3 was retried after it had been cancelled, and ran; another did so too late.
CANCELLATION = '{"run":"","at":42,'
RETRIED = job(
    3,
    State.COMPLETE,
    Attempt(token="", at=42, outcome="cancelled"),
    Attempt(token="", at=52, outcome="restarted"),
    line(60, 62, "complete", result=60),
)
RETRY = Given("retry", 50, 55, "done", id=3, ending=CANCELLATION)
LATE_RETRY = Given("retry", 70, 75, "already", id=3, ending=CANCELLATION)

DOCTORED = {
    "lost": doctored(jobs=SOUND.jobs[1:], events=()),
    "stuck": with_job(
        job(2, State.WAITING, line(30, 2500, "stalled", error=LOST_WORKER))
    ),
    "unexpected": doctored(attempted=SOUND.attempted[1:]),
    "duplicated": and_started(started(9, 50, key="k4"), started(10, 60, key="k4")),
    "completed-twice": with_job(
        job(
            1,
            State.COMPLETE,
            line(20, 26, "complete", result=20),
            line(20, 27, "complete", result=20),
        )
    ),
    "went-on": with_job(
        job(
            1,
            State.COMPLETE,
            line(15, 16, "failed", error=Error("Planned", "")),
            line(20, 26, "complete", result=20),
        )
    ),
    "restarted": and_given(
        msgspec.structs.replace(RETRY, ending="another"), to=with_job(RETRIED)
    ),
    "retried-twice": and_given(RETRY, RETRY, to=with_job(RETRIED)),
    "retry-lost": and_given(RETRY),
    "state-differs": with_job(
        job(1, State.FAILED, line(20, 26, "complete", result=20))
    ),
    "fence": with_job(
        job(
            1,
            State.COMPLETE,
            line(21, 22, "retry", error=Error("Planned", "")),
            line(20, 26, "complete", result=20, attempt=2),
            max_attempts=2,
        )
    ),
    "attempts": with_job(
        job(1, State.COMPLETE, line(20, 26, "complete", result=20, attempt=2))
    ),
    "early": with_job(
        job(1, State.COMPLETE, line(20, 26, "complete", result=20), delay=15)
    ),
    "run-twice": and_started(started(1, 20, pid=8)),
    "orphan": and_started(started(1, 22, type="apart", parent=1)),
    "untold": and_started(started(1, 22)),
    "without-effect": doctored(effects=SOUND.effects[1:]),
    "other-result": with_job(
        job(1, State.COMPLETE, line(20, 26, "complete", result=19))
    ),
    "once": doctored(
        started=(
            SOUND.started[0],
            started(2, 30, once=True),
            started(2, 3000, once=True),
        )
    ),
    "failed": with_job(
        job(1, State.FAILED, line(20, 26, "failed", error=Error("KeyError", "'x'")))
    ),
    "cancelled": doctored(given=()),
    "removed": and_given(Given("remove", 40, 45, "done", id=1)),
    "paused": and_given(Given("pause", 5, 10, "done", type="quick")),
    "event": doctored(events=(*SOUND.events, event(Kind.COMPLETE, 2))),
    "store": doctored(findings=("in-two-states: job 1",)),
    "process": doctored(mishaps=("worker 7 is alive and runs no jobs",)),
}


@pytest.mark.parametrize("rule", DOCTORED)
def test_a_doctored_history_is_found_out(rule: str) -> None:
    assert rule in {breach.rule for breach in breaches(DOCTORED[rule])}


def test_a_job_whose_id_belongs_to_another_is_lost() -> None:
    misread = doctored(attempted=(*SOUND.attempted[:3], Attempted("k4", 1, 9, 2)))

    assert breaches(misread) == [Breach("lost", "job 2 (k4) was acknowledged")]


def test_a_run_that_begins_after_its_job_was_cancelled_is_found_out() -> None:
    late = and_started(started(3, 50))

    assert "job 3 began 5 ms after it was cancelled" in {
        breach.message for breach in breaches(late)
    }


def test_a_cancelled_job_that_was_retried_may_run() -> None:
    retried = doctored(
        started=(*SOUND.started, started(3, 60)),
        effects=(*SOUND.effects, Effect(3, 60, 1, 7, 61)),
        given=(*SOUND.given, RETRY, LATE_RETRY),
        jobs=(*SOUND.jobs[:2], RETRIED),
    )

    assert breaches(retried) == []


def test_a_job_that_is_promoted_may_run_before_its_time() -> None:
    moved = and_given(Given("promote", 12, 14, "done", id=1), to=DOCTORED["early"])

    assert breaches(moved) == []


@pytest.mark.parametrize("events", [SOUND.events[:-1], (event(Kind.REMOVE, 1),)])
def test_a_last_event_that_is_not_so_is_found_out(events: tuple[Event, ...]) -> None:
    assert {breach.rule for breach in breaches(doctored(events=events))} == {"event"}


def test_an_add_that_was_not_answered_is_neither_lost_nor_unexpected() -> None:
    there = doctored(
        jobs=(*SOUND.jobs, job(4, State.COMPLETE, line(70, 71, "complete", result=70))),
        effects=(*SOUND.effects, Effect(4, 70, 1, 7, 70)),
    )

    assert breaches(SOUND) == breaches(there) == []


def test_a_removed_job_is_not_lost_even_without_an_event() -> None:
    removed = doctored(
        jobs=SOUND.jobs[1:],
        events=(),
        given=(*SOUND.given, Given("remove", 50, 5050, "error", id=1)),
    )

    assert breaches(removed) == []


def test_recovery_is_from_the_death_of_a_process_to_the_next_run() -> None:
    assert times(SOUND) == [2.0]
    assert times(doctored(away=(Away(1500, 1600),))) == []
    assert times(doctored(given=(Given("pause", 900, 950, "done", type="quick"),))) == [
        2.0
    ]
    assert times(doctored(died=())) == []
    assert times(doctored(idled=(Idled(8, 2000, 2100),))) == []


def test_effects_that_came_again_are_counted_unless_somebody_asked_for_it() -> None:
    again = doctored(effects=(*SOUND.effects, Effect(2, 30, 1, 7, 3)))
    asked = and_given(Given("retry", 1, 2, "done", id=2), to=again)

    assert [effects_repeated(one) for one in (SOUND, again, asked)] == [0, 1, 0]


def test_figures_are_not_good_when_too_little_was_done_to_tell() -> None:
    plan = draw("sqlite", 1, 60)

    drawn = figures(plan, SOUND, Counter(), drain=0)

    assert (drawn.acknowledged, drawn.lost, drawn.violations) == (3, 0, 0)
    assert not drawn.ok


def test_figures_of_several_seeds_add_up() -> None:
    plan = draw("sqlite", 1, 0.1)
    first = figures(plan, SOUND, Counter(kill=2), drain=1)
    second = figures(plan, DOCTORED["stuck"], Counter(kill=1, lock=4), drain=1)

    total = summed([first, second])

    assert (first.ok, second.ok, total["ok"]) == (True, False, False)
    assert (total["acknowledged"], total["lost"], total["stuck"]) == (6, 0, 1)
    assert total["faults"] == {"kill": 3, "lock": 4}
    assert total["recovery_max_s"] == 2.0


@pytest.mark.parametrize(
    ("given", "seeds"), [("3", [3]), ("1..3", [1, 2, 3]), ("7..7", [7])]
)
def test_seeds_are_one_or_a_range(given: str, seeds: list[int]) -> None:
    assert Seeds().convert(given, None, None) == seeds


@pytest.mark.parametrize("given", ["", "x", "3..1", "1-3", "-1"])
def test_what_is_not_a_range_of_seeds_is_refused(given: str) -> None:
    with pytest.raises(click.BadParameter, match=re.escape(repr(given))):
        Seeds().convert(given, None, None)


def test_the_sink_takes_no_effect_of_an_older_run(tmp_path: Path) -> None:
    sink = Sink(tmp_path)
    sink.create()
    for fence in (5, 4, 6):
        sink.take(Effect(1, fence, 1, 7, 0))

    assert [effect.fence for effect in sink.effects()] == [5, 6]
    assert sink.refusals() == 1


async def test_a_process_that_is_stopped_while_it_writes_takes_the_store_away(
    tmp_path: Path,
) -> None:
    stage = SqliteStage(Household(), tmp_path)
    with closing(sqlite3.connect(tmp_path / "kue.db", isolation_level=None)) as writer:
        await stage.pause(0)
        assert stage.away == []

        writer.execute("BEGIN IMMEDIATE")
        await stage.pause(0)

    assert len(stage.away) == 1


# -- stores that lose what they acknowledged ---------------------------------------


#: Job 4 was added while no replica listened, and is gone with the fail-over.
FORGOTTEN = doctored(
    attempted=(*SOUND.attempted[:3], Attempted("k4", 8_000, 8_100, 4)),
    losses=(Loss(7_900, 8_200),),
)


def test_what_a_fail_over_lost_is_counted_apart() -> None:
    assert breaches(FORGOTTEN) == []
    assert [one.key for one in missing(FORGOTTEN)] == ["k4"]


@pytest.mark.parametrize(
    "attempt",
    [
        Attempted("k4", 8_000, 8_100, 4, is_durable=True),
        Attempted("k4", 7_000, 7_100, 4),
        Attempted("k4", 8_300, 8_400, 4),
    ],
    ids=["durable", "before", "after"],
)
def test_what_a_fail_over_must_not_lose_is_lost(attempt: Attempted) -> None:
    history = msgspec.structs.replace(
        FORGOTTEN, attempted=(*SOUND.attempted[:3], attempt)
    )

    assert [breach.rule for breach in breaches(history)] == ["lost"]


def test_an_emptied_store_may_lose_all_that_it_had() -> None:
    history = doctored(jobs=(), losses=(Loss(9_000, 9_001, is_all=True),))

    assert breaches(history) == []
    assert [one.key for one in missing(history)] == ["k1", "k2", "k3"]


@pytest.mark.parametrize("rule", ["completed-twice", "without-effect", "stuck"])
def test_what_was_added_after_the_last_loss_is_held_to_all_rules(rule: str) -> None:
    early = (Loss(-9_000, -8_000),)
    late = (Loss(9_000, 9_001, is_all=True),)
    broken = DOCTORED[rule]

    found = breaches(msgspec.structs.replace(broken, losses=early))
    excused = breaches(msgspec.structs.replace(broken, losses=late))

    assert rule in {breach.rule for breach in found}
    # Whatever was lost, what is there must end.
    assert {breach.rule for breach in excused} == ({rule} & {"stuck"})


# -- the real thing ----------------------------------------------------------------


#: Seeds whose first seconds have the faults that an engine is there for.
TELLING = {"redis": 1, "sqlite": 1, "sentinel": 1, "cluster": 2, "lossy": 34}
STRIKING = {
    "sentinel": {"failover"},
    "cluster": {"failover", "move_slot"},
    "lossy": {"failover", "empty"},
}


@pytest.mark.long
@pytest.mark.parametrize("engine", ENGINES)
async def test_a_short_run_loses_nothing(engine: str, tmp_path: Path) -> None:
    with View() as view:
        outcome = await run(draw(engine, TELLING[engine], SECONDS), tmp_path, view)

    assert outcome.breaches == []
    assert outcome.figures.ok
    assert outcome.figures.acknowledged > 100
    assert outcome.figures.faults.keys() >= STRIKING.get(engine, set())


def test_a_process_does_not_start_if_its_run_was_killed_before(tmp_path: Path) -> None:
    """A process that is started at the moment its parent dies gets no signal."""
    started = tmp_path / "started"
    with subprocess.Popen(["true"]) as killed:
        killed.wait()
    command = leashed(["touch", str(started)])
    [parent] = [at for at, word in enumerate(command) if word == str(os.getpid())]
    command[parent] = str(killed.pid)

    assert subprocess.run(command, timeout=PATIENCE_SECONDS).returncode == 1
    assert not started.exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
async def test_no_process_survives_a_run_that_is_broken_off(
    number: signal.Signals, tmp_path: Path
) -> None:
    environ = {**os.environ, "TMPDIR": str(tmp_path)}
    command = ("chaos", "--engine", "redis", "--seconds", "100")
    harness = await start(*command, cwd=HOME, environ=environ, has_log=True)
    try:
        await until(lambda: any(tmp_path.glob("*/started-*.jsonl")))
        family = descendants_of(harness.pid)
        harness.send_signal(number)
        async with asyncio.timeout(PATIENCE_SECONDS):
            complaint = (await harness.stderr.read()).decode()
            code = await harness.wait()
        await until(lambda: not any(map(is_running, family)))
    finally:
        with contextlib.suppress(ProcessLookupError):
            harness.send_signal(signal.SIGKILL)
        await harness.close()

    assert code != 0
    if number != signal.SIGKILL:
        assert re.search(rf"kept: {tmp_path}/kue-chaos-redis-1-", complaint)
