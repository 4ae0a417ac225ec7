"""Drafts that refer to each other, and to flows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from kue.model.draft import draft
from kue.model.job import Completed, Draft, Ending, State
from kue.store.contract import Store
from kue.store.values import MAX_BATCH, Outcome
from tests.support.jobs import T0, add, claim
from tests.support.upkeep import tend


def linked(
    type: str,
    *,
    after: Iterable[int] = (),
    before: Iterable[int] = (),
    flow: int | None = None,
    **options: Any,
) -> Draft:
    """Return a draft; -k stands for the k-th draft of the same call."""
    plain = draft(type, **options)
    spec = replace(plain.spec, after=tuple(after))
    return replace(plain, spec=spec, before=tuple(before), flow=flow)


async def add_linked(store: Store, *drafts: Draft, now: int = T0) -> list[int]:
    """Add drafts with one call, and have the store pass on what spans shards."""
    added = await add(store, drafts, now=now)
    await tend(store, now)
    return [one.id for one in added]


async def states_of(store: Store, ids: Iterable[int]) -> list[State | None]:
    jobs = await store.get(list(ids))
    return [None if job is None else job.state for job in jobs]


async def run_all(
    store: Store, *types: str, ending: Ending | None = None, now: int = T0
) -> list[int]:
    """Run all jobs of some types that wait, and return their ids."""
    jobs = await claim(store, *types, limit=MAX_BATCH, now=now)
    await store.settle([Outcome(job, ending or Completed()) for job in jobs], now=now)
    await tend(store, now)
    return sorted(job.id for job in jobs)
