"""Schedules that cannot fire, or cannot be read: the others do all the same."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from kue.aio import throttled_log
from kue.model.draft import draft
from kue.model.job import State
from kue.model.schedule import Schedule
from kue.store.contract import Store
from kue.store.redis.verbs import schedules as redis_schedules
from kue.store.sqlite.verbs import schedules as sqlite_schedules
from kue.store.validation import InvalidCall
from tests.support.hands import Hands
from tests.support.jobs import MINUTE, T0, count_of
from tests.support.schedules import every
from tests.support.upkeep import tend

GOOD = every("good", "1m", draft("report"), first_at=T0)
#: Of the same type, so that it is on the same shard, and due before the good one.
FIRST = every("a bad one", "1m", draft("report"), first_at=T0 - MINUTE)
#: Nobody can write these through a queue; a newer version, or another machine, may.
NOT_KNOWN_HERE = {
    "time zone 'Nowhere/Land' is not known here": {"tz": "Nowhere/Land"},
    "cron expression '0 0 W * *' cannot be read": {"cron": "0 0 W * *"},
}
UNREADABLE: list[dict[str, Any]] = [
    {"missed": "thrice"},
    {"overlap": None},
    {"ends_at": -1},
    {"cron": 5},
    {"ticks": ((1,),)},
]


def not_known_here(problem: str) -> Schedule:
    cron = {"every": 0, "cron": "* * * * *"} | NOT_KNOWN_HERE[problem]
    return replace(FIRST, **cron)


@pytest.fixture(params=range(len(UNREADABLE)))
def unreadable(request: pytest.FixtureRequest) -> Schedule:
    """A schedule whose fields are written as they are, and are not read again."""
    return replace(FIRST, **UNREADABLE[request.param])


@pytest.mark.parametrize("problem", NOT_KNOWN_HERE)
async def test_times_that_are_not_known_here_do_not_stop_others(
    store: Store,
    problem: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(throttled_log, "REPEAT_SECONDS", 0)
    bad = not_known_here(problem)
    await store.schedule(bad)
    await store.schedule(GOOD)

    assert (await tend(store, T0)).fired == 1

    assert await count_of(store, "report") == {State.WAITING: 1}
    assert f"schedule a bad one does not fire: {problem}" in caplog.text
    # It stays due, for a worker that knows its times.
    assert await store.schedules("a bad one") == [bad]


@pytest.mark.parametrize("problem", NOT_KNOWN_HERE)
async def test_a_schedule_whose_times_are_not_known_here_is_fired_by_hand(
    store: Store, problem: str
) -> None:
    await store.schedule(not_known_here(problem))

    assert await store.fire("a bad one", now=T0) is not None

    assert await count_of(store, "report") == {State.WAITING: 1}


@pytest.mark.damages
async def test_a_schedule_that_cannot_be_read_does_not_stop_others(
    store: Store, unreadable: Schedule
) -> None:
    assert await store.schedule(unreadable)
    await store.schedule(GOOD)

    assert await store.schedules() == [GOOD]
    assert await store.schedules("a bad one") == []
    assert (await tend(store, T0)).fired == 1
    assert await store.fire("a bad one", now=T0) is None


@pytest.mark.damages
async def test_a_schedule_that_cannot_be_read_is_found_and_can_be_deleted(
    store: Store, unreadable: Schedule
) -> None:
    await store.schedule(unreadable)

    [finding] = (await store.check()).findings
    assert finding.code == "bad-record"
    assert "schedule 'a bad one' cannot be read" in finding.message
    assert await store.schedule(FIRST) is False

    assert await store.unschedule("a bad one") is True
    assert (await store.check()).findings == ()
    assert await store.schedule(FIRST) is True


async def test_too_many_schedules_are_refused(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for engine in (redis_schedules, sqlite_schedules):
        monkeypatch.setattr(engine, "MAX_SCHEDULES", 2)
    await store.schedule(GOOD)
    await store.schedule(FIRST)

    with pytest.raises(InvalidCall, match=r"at most 10,000 schedules; delete some"):
        await store.schedule(replace(GOOD, name="third"))

    # Those that there are can be changed.
    assert await store.schedule(replace(GOOD, paused=True), expected=GOOD)
    await store.unschedule("good")
    assert await store.schedule(replace(GOOD, name="third"))


@pytest.mark.damages
@pytest.mark.parametrize("engine", ["redis"], indirect=True)
async def test_schedules_of_a_damaged_type_do_not_stop_others(
    store: Store,
    hands: Hands,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(throttled_log, "REPEAT_SECONDS", 0)
    for number in range(3):
        bad = every(f"bad {number}", "1m", draft("damaged"), first_at=T0 - MINUTE)
        await store.schedule(bad)
    await store.schedule(GOOD)
    hands.do("SET", hands.of_type("waiting", "damaged"), "no sorted set")

    assert (await store.tend(now=T0)).fired == 1

    assert await count_of(store, "report") == {State.WAITING: 1}
    assert "schedule bad 2 does not fire" in caplog.text
    hands.do("DEL", hands.of_type("waiting", "damaged"))
    assert (await store.tend(now=T0)).fired == 3
