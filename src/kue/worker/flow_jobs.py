"""
Built-in jobs of flows and batches, which every worker runs.

A worker has lanes for them from the first member of a flow that it claims, or once it
reads that some program uses them: a queue without flows has no lane more.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from kue.model.errors import Cancel, StoreError
from kue.model.job import State
from kue.store.values import MAX_BATCH, KeepRequest, PageRequest
from kue.worker.batch_progress import PROGRESS, report_progress
from kue.worker.batches import BATCH, FIRST_FAILURE, end_batch, first_failure
from kue.worker.lane import Processor

if TYPE_CHECKING:
    from collections.abc import Callable

    from kue.model.payload import JSON
    from kue.store.contract import Store
    from kue.worker.active_run import ActiveRun
    from kue.worker.shared_context import Sleep

#: Holds a flow back until all of it was added.
GATE = "kue.gate"
#: The data of a gate that was opened.
OPEN = {"open": True}
ABANDONED = "the program that added the flow stopped before it was complete"
TYPES = frozenset({GATE, BATCH, FIRST_FAILURE, PROGRESS})

ROOM, USED = "flows", "used"
#: When a worker without lanes for these jobs first reads whether there may be some,
#: and how often after that.
FIRST_SECONDS = 1.0
LOOK_SECONDS = 5.0
SLOTS = 10


def processors(store: Store) -> list[Processor]:
    """Return the built-in handlers."""
    return [
        Processor(GATE, SLOTS, partial(_gate, store)),
        Processor(BATCH, SLOTS, partial(end_batch, store)),
        Processor(FIRST_FAILURE, SLOTS, partial(first_failure, store)),
        Processor(PROGRESS, SLOTS, partial(report_progress, store)),
    ]


async def use_flow_jobs(store: Store) -> None:
    """Note that there may be such jobs, for workers that start later."""
    if await store.kept(ROOM, USED) is None:
        await store.keep(KeepRequest(ROOM, USED, "1"))


async def handle_when_used(
    store: Store, handle: Callable[[], None], sleep: Sleep
) -> None:
    """Call *handle* once a program has used such jobs."""
    seconds = FIRST_SECONDS
    while True:
        await sleep(seconds)
        seconds = LOOK_SECONDS
        # Others report an outage.
        with suppress(StoreError):
            if await store.kept(ROOM, USED) is not None:
                handle()
                return


async def _gate(store: Store, run: ActiveRun) -> JSON:
    if run.data != OPEN:
        await _cancel_behind(store, run.id)
        raise Cancel(ABANDONED)
    return None


async def _cancel_behind(store: Store, gate_id: int) -> None:
    """Cancel what a gate holds back, as some jobs run whatever happens to it."""
    cursor = None
    while True:
        request = PageRequest(State.BLOCKED, limit=MAX_BATCH, cursor=cursor)
        page = await store.page(request)
        # A batch ends by itself, with what was added of it.
        held = [job for job in page.jobs if job.type not in TYPES]
        ids = [job.id for job in held if gate_id in job.spec.after]
        if ids:
            await store.cancel(ids, reason=ABANDONED)
        cursor = page.cursor
        if cursor is None:
            return
