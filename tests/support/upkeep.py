"""Maintenance as a living system has it: often, and until nothing is left to do."""

from __future__ import annotations

from kue.model.settings import LEASE_MS, Keep
from kue.store.contract import Store
from kue.store.values import GRACE_GAP_MS, MAX_BATCH, MaintenanceResult
from tests.support.jobs import T0

#: Keeps everything forever.
KEEP_ALL = Keep(
    complete_count=None, failed_age=None, cancelled_count=None, cancelled_age=None
)
#: Time passes in steps too short for anyone to think that the store was away.
STEP_MS = GRACE_GAP_MS - 1_000
#: More passes than any test has work for: maintenance that never ends is a fault.
PASSES = 200


async def tend(
    store: Store, now: int = T0, *, keep: Keep = KEEP_ALL, limit: int = MAX_BATCH
) -> MaintenanceResult:
    """Tend until nothing is left to do, and return all that was done."""
    done = MaintenanceResult()
    for _ in range(PASSES):
        tended = await store.tend(now=now, keep=keep, limit=limit)
        if not tended:
            return done
        done = together(done, tended)
    raise AssertionError(f"still something to do after {PASSES} passes: {tended}")


async def pass_time(store: Store, since: int, until: int) -> MaintenanceResult:
    """Tend from *since* to *until* as often as workers do, and return all of it."""
    done = MaintenanceResult()
    for now in [*range(since, until, STEP_MS), until]:
        done = together(done, await tend(store, now))
    return done


async def lose_worker(
    store: Store, since: int, *, lease: int = LEASE_MS
) -> MaintenanceResult:
    """Let time pass from *since* until a lease given then is over."""
    return await pass_time(store, since, since + lease + 1)


def together(one: MaintenanceResult, other: MaintenanceResult) -> MaintenanceResult:
    return MaintenanceResult(
        *(
            getattr(one, name) + getattr(other, name)
            for name in MaintenanceResult.COUNTS
        )
    )
