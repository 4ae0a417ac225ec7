"""Counts of jobs by monitored tag, in one bounded read of the newest jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kue.model.job import State
from kue.store.values import MAX_BATCH, MAX_SCAN, PageRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kue.store.contract import Store


class TagCount(NamedTuple):
    """How many of the newest jobs have a tag."""

    tag: str
    jobs: int
    #: Of those, how many are failed.
    failed: int


async def count_tags(
    store: Store, tags: Sequence[str], *, scan: int = MAX_SCAN
) -> list[TagCount]:
    """Return how many of the newest *scan* jobs have each of *tags*."""
    found = {tag: [0, 0] for tag in tags}
    seen, cursor = 0, None
    while found and seen < scan:
        page = await store.page(
            PageRequest(limit=MAX_BATCH, cursor=cursor, descending=True)
        )
        for job in page.jobs:
            for tag in found.keys() & set(job.tags):
                found[tag][0] += 1
                found[tag][1] += job.state is State.FAILED
        seen += len(page.jobs)
        cursor = page.cursor
        if cursor is None:
            break
    return [TagCount(tag, *numbers) for tag, numbers in found.items()]
