"""Backpressure: what producers do when the cap of a type refuses their jobs."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

from kue.model.errors import QueueFull
from kue.store.values import WhenFull

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from kue.model.job import Draft
    from kue.store.contract import Store
    from kue.store.values import Added

#: How long a producer waits before it tries again: first, and at most.
FIRST_WAIT_SECONDS = 0.02
MAX_WAIT_SECONDS = 1.0


async def add_when_room(
    store: Store,
    drafts: Sequence[Draft],
    answers: Sequence[Added],
    add: Callable[[Sequence[Draft]], Awaitable[list[Added]]],
) -> list[Added]:
    """
    Add the drafts that were refused, as the limits of their types say.

    *answers* is what adding *drafts* returned; returned is the same with all added.

    Raises:
        QueueFull: A type refuses jobs at once, or had no room in time.
    """
    found = list(answers)
    started = asyncio.get_running_loop().time()
    pause = FIRST_WAIT_SECONDS
    while refused := [at for at, added in enumerate(found) if added.is_refused]:
        waited = asyncio.get_running_loop().time() - started
        types = {drafts[at].type for at in refused}
        try:
            left = await _time_left(store, types, waited)
        except QueueFull as exc:
            exc.added = len(found) - len(refused)
            raise
        # Producers that were refused together do not come again together.
        await asyncio.sleep(min(left, pause * random.uniform(0.5, 1)))
        pause = min(2 * pause, MAX_WAIT_SECONDS)
        again = await add([drafts[at] for at in refused])
        for at, added in zip(refused, again, strict=True):
            found[at] = added
    return found


async def queue_full(store: Store, type: str) -> QueueFull:
    """Return the error for a job of *type* that was refused."""
    rule = (await store.limits()).get(type)
    return QueueFull(type, (rule and rule.max_waiting) or 0)


async def _time_left(store: Store, types: set[str], waited: float) -> float:
    """Return how long producers of all *types* wait on; raises `QueueFull`."""
    limits = await store.limits()
    left = MAX_WAIT_SECONDS
    for type in sorted(types):
        rule = limits.get(type)
        if rule is None or rule.max_waiting is None:
            # The cap was removed since.
            continue
        if rule.when_full is not WhenFull.WAIT:
            raise QueueFull(type, rule.max_waiting)
        if waited * 1000 >= rule.full_timeout:
            raise QueueFull(type, rule.max_waiting, waited=rule.full_timeout / 1000)
        left = min(left, rule.full_timeout / 1000 - waited)
    return left
