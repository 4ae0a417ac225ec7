"""Cycles: a job that would wait for one that waits for it is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kue.model.job import State
from kue.store.values import MAX_BATCH

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from kue.model.job import Draft, Job
    from kue.store.contract import Store

#: Jobs that are looked at; a cycle of more is not found.
MAX_LOOKED_AT = 10_000


async def refuse_cycles(
    store: Store, drafts: Iterable[Draft], targets: Collection[int]
) -> None:
    """
    Check that *drafts*, which come before *targets*, do not wait for one of those.

    Most wait for no stored job, and so nothing is read.

    Raises:
        ValueError: They do, through any number of others.
    """
    ahead = {one for draft in drafts for one in draft.spec.after if one > 0}
    looked_at: set[int] = set()
    while ahead and len(looked_at) < MAX_LOOKED_AT:
        for target in sorted(ahead.intersection(targets)):
            raise ValueError(
                f"job {target} would wait for itself: it is to wait for a new job, "
                f"which waits for job {target} by its after=…"
            )
        looked_at |= ahead
        blocked = await _blocked(store, sorted(ahead))
        ahead = {at for job in blocked for at in job.spec.after} - looked_at


async def _blocked(store: Store, ids: list[int]) -> list[Job]:
    found: list[Job | None] = []
    for start in range(0, len(ids), MAX_BATCH):
        found += await store.get(ids[start : start + MAX_BATCH])
    return [job for job in found if job is not None and job.state is State.BLOCKED]
