"""Jobs that wait for the opening of a time window: released at night, run at nine."""

from __future__ import annotations

from kue.model.job import Released, State
from kue.model.time_window import TimeWindow
from kue.store.contract import Store
from tests.support.jobs import (
    HOUR,
    SECOND,
    T0,
    add_one,
    claim,
    claim_one,
    count_of,
    end,
)

WINDOW = TimeWindow.parse("9:00-20:00", tz="Europe/Berlin")
#: It is nine in Berlin.
NINE = T0
NIGHT = NINE - 6 * HOUR


async def test_jobs_added_at_night_run_at_nine_in_order_without_a_lost_attempt(
    store: Store,
) -> None:
    assert WINDOW.opens_at(NIGHT) == NINE
    priorities = [10, 0, -10, 0, 10, -10]
    ids = [
        await add_one(store, priority=priority, attempts=1, now=NIGHT + number)
        for number, priority in enumerate(priorities)
    ]
    # Workers try them one by one, in whatever order and for as long as that takes.
    for number in range(len(ids)):
        now = NIGHT + number * 7 * SECOND
        job = await claim_one(store, now=now)
        wait = WINDOW.opens_at(now) - now
        await end(store, job, Released(wait, counts=False), now=now)
    assert await count_of(store) == {State.DELAYED: 6}
    assert await claim(store, now=NINE - 1) == []

    jobs = await claim(store, now=NINE)

    # By priority, and first in, first out.
    assert [job.id for job in jobs] == [ids[n] for n in (2, 5, 1, 3, 0, 4)]
    assert {job.attempts for job in jobs} == {1}
