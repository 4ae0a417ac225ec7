"""Pages far behind the first: found by counting, not by reading all that is before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kue.model.draft import draft
from kue.model.job import Completed, State
from kue.store.contract import Store
from kue.store.redis.keys import LIVE_CHUNK
from kue.store.values import Outcome, PageRequest
from tests.support.hands import Hands
from tests.support.jobs import T0, add, add_many, add_one, all_ids, claim

TYPES = ("email", "sms", "video")
EACH = 400
COUNT = len(TYPES) * EACH


def _options(state: State, number: int, parent: int) -> dict[str, Any]:
    """Return what brings the job with this number into *state*."""
    options: dict[State, dict[str, Any]] = {
        State.DELAYED: {"delay": (1 + number % 3) * 60},
        State.BLOCKED: {"after": [parent]},
        State.WAITING: {"priority": number % 3 - 1},
    }
    return options.get(state, {})


async def fill(store: Store, state: State) -> None:
    """Bring jobs of several types into *state*, some at the same moment, some not."""
    parent = await add_one(store, "parent", delay="1h")
    for number, type in enumerate(TYPES):
        for part in range(4):
            later = T0 + 7 * part + number
            drafts = [
                draft(type, None, **_options(state, i, parent))
                for i in range(EACH // 4)
            ]
            await add(store, drafts, now=later)
            if state is State.COMPLETE:
                jobs = await claim(store, type, limit=EACH, now=later)
                await store.settle(
                    [Outcome(job, Completed()) for job in jobs], now=later
                )


def skips(total: int) -> Sequence[int]:
    return (0, 1, 499, 501, 502, 777, 800, 801, 1_111, total - 1, total, total + 50)


@pytest.mark.parametrize("descending", [False, True], ids=["up", "down"])
@pytest.mark.parametrize(
    "state", [None, State.WAITING, State.DELAYED, State.BLOCKED, State.COMPLETE]
)
async def test_a_page_far_behind_is_the_one_that_reading_on_leads_to(
    store: Store, state: State | None, descending: bool
) -> None:
    await fill(store, state or State.DELAYED)
    ids = await all_ids(store, PageRequest(state, limit=500, descending=descending))
    assert len(set(ids)) == len(ids) >= COUNT

    for skip in skips(len(ids)):
        page = await store.page(
            PageRequest(state, skip=skip, limit=20, descending=descending)
        )

        assert [job.id for job in page.jobs] == ids[skip : skip + 20], skip
        assert (page.cursor is None) == (skip + 20 >= len(ids)), skip


@pytest.mark.parametrize("engine", ["redis"], indirect=True)
@pytest.mark.parametrize("state", [None, State.COMPLETE])
async def test_a_page_far_behind_costs_no_more_than_a_near_one(
    store: Store, hands: Hands, state: State | None
) -> None:
    """R-7, S-6: 300,000 jobs to skip blocked Redis for 1.7 s."""
    await fill(store, State.COMPLETE)

    def sent() -> int:
        return int(hands.redis.info("stats")["total_net_output_bytes"])

    before, bytes_before = hands.commands(), sent()
    await store.page(PageRequest(state, skip=COUNT - 100, limit=20))
    bytes_sent = sent() - bytes_before

    # A hundred jobs are read, and some numbers: not the 1,100 before them.
    assert hands.commands() - before < 100 * 13 + 150
    assert bytes_sent < 40_000


@pytest.mark.parametrize("engine", ["redis", "redis-shards"], indirect=True)
@pytest.mark.parametrize("descending", [False, True], ids=["up", "down"])
@pytest.mark.parametrize("limit", [1, 2, 500])
async def test_all_ids_are_found_in_order_however_far_apart(
    store: Store, hands: Hands, descending: bool, limit: int
) -> None:
    ids: list[int] = []
    for apart in (0, 1, 1, 9, 40, 2):
        ids += await add_many(store, 2)
        hands.do("INCRBY", hands.home("ids"), apart * LIVE_CHUNK)

    found = await all_ids(store, PageRequest(limit=limit, descending=descending))

    assert found == sorted(ids, reverse=descending)
