"""What one script of maintenance may cost: counted in commands, not in time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kue.store.values import Claim
from tests.support.jobs import HOUR, SECOND, T0, add_one

if TYPE_CHECKING:
    from kue.store.base import Store
    from tests.support.hands import Hands

pytestmark = pytest.mark.parametrize("engine", ["redis"], indirect=True)


class Meter:
    """Counts what Redis does, inside scripts too."""

    def __init__(self, hands: Hands) -> None:
        self._hands = hands

    def calls(self, command: str) -> int:
        """Return how often a command was called since `reset`."""
        stats = self._hands.redis.info("commandstats")
        return int(stats.get(f"cmdstat_{command}", {"calls": 0})["calls"])

    def commands(self) -> int:
        stats = self._hands.redis.info("commandstats")
        return sum(stat["calls"] for stat in stats.values())

    def reset(self) -> None:
        self._hands.do("CONFIG", "RESETSTAT")


@pytest.fixture
def meter(hands: Hands) -> Meter:
    return Meter(hands)


async def dead_workers(store: Store, count: int, lanes: int) -> None:
    """Have workers claim in many lanes, and leave."""
    for number in range(count):
        for lane in range(lanes):
            await store.claim(
                ["email"], 1, worker=f"w{number}", claim=Claim(str(lane), 1), now=T0
            )
        await store.leave(f"w{number}", now=T0)


async def test_the_claims_of_dead_workers_are_not_read_by_maintenance(
    store: Store, meter: Meter
) -> None:
    """R-4: 100 dead workers with 400 lanes blocked Redis for seconds."""
    read: list[int] = []
    for workers in (2, 30):
        await dead_workers(store, workers, lanes=5)
        meter.reset()
        await store.tend(now=T0 + SECOND)
        read.append(meter.calls("hgetall") + meter.calls("hscan"))
        assert await store.workers(now=T0 + SECOND) == []

    assert read[0] == read[1]


async def test_claims_expire_by_themselves(store: Store, hands: Hands) -> None:
    """R-4: a claim is remembered for longer than any call lives, then no more."""
    await dead_workers(store, 1, lanes=1)

    assert 1000 * hands.do("TTL", hands.home(f"claims:{T0 // HOUR}")) > 2 * HOUR


async def test_a_claim_is_remembered_into_the_next_hour(store: Store) -> None:
    """R-4: an old claim that was delayed on its way gets nothing."""
    end_of_hour = T0 // HOUR * HOUR + HOUR - 1
    claim = Claim("lane", 7)
    await store.claim(["email"], 1, worker="w1", claim=claim, now=end_of_hour)
    await add_one(store, now=end_of_hour)

    late = await store.claim(
        ["email"], 1, worker="w1", claim=Claim("lane", 6), now=end_of_hour + 2
    )

    assert late.jobs == []
