"""Pages over many jobs that share one place in the order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kue.job import State
from tests.support.jobs import HOUR, T0, add_many

if TYPE_CHECKING:
    from kue.store.base import Store


@pytest.mark.parametrize("descending", [False, True])
async def test_jobs_due_at_the_same_moment_are_each_on_one_page(
    store: Store, descending: bool
) -> None:
    """More than a script reads at a time; ids of three and of four digits."""
    ids = await add_many(store, 1_150, delay=HOUR // 1000, now=T0)
    seen: list[int] = []
    cursor: str | None = None

    while True:
        page = await store.page(
            State.DELAYED, "email", limit=130, cursor=cursor, descending=descending
        )
        seen += [job.id for job in page.jobs]
        cursor = page.cursor
        if cursor is None:
            break

    assert seen == sorted(ids, reverse=descending)
