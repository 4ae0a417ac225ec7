"""Pages over all states of a Redis store whose ids lie far apart."""

from __future__ import annotations

import pytest

from kue.store.contract import Store
from kue.store.redis.keys import LIVE_CHUNK
from kue.store.values import PageRequest
from tests.support.hands import Hands
from tests.support.jobs import add_many

pytestmark = [
    pytest.mark.parametrize("engine", ["redis", "redis-shards"], indirect=True),
]


@pytest.mark.parametrize("descending", [False, True], ids=["up", "down"])
@pytest.mark.parametrize("limit", [1, 2, 500])
async def test_all_are_found_in_order_however_far_apart(
    store: Store, hands: Hands, descending: bool, limit: int
) -> None:
    ids: list[int] = []
    for apart in (0, 1, 1, 9, 40, 2):
        ids += await add_many(store, 2)
        hands.do("INCRBY", hands.home("ids"), apart * LIVE_CHUNK)
    found: list[int] = []
    cursor: str | None = None

    while True:
        page = await store.page(
            PageRequest(limit=limit, cursor=cursor, descending=descending)
        )
        found += [job.id for job in page.jobs]
        cursor = page.cursor
        if cursor is None:
            break

    assert found == sorted(ids, reverse=descending)
