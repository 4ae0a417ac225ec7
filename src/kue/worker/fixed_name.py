"""
A fixed name of a worker: one process at a time works under it.

Runs belong to a worker by its name, and its heartbeat renews the lease on all of them.
A worker that started under the name of one that was killed would keep alive what that
one ran, and nobody would ever end it.  So it starts when nothing runs under its name:
after a kill, when the lease is over.  Its process id would show that earlier, but two
containers may share the name of a host without seeing each other's processes.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any

from kue.aio.throttled_log import ThrottledLog

if TYPE_CHECKING:
    from kue.store.values import WorkerStatus
    from kue.worker.shared_context import SharedContext

logger = logging.getLogger(__name__)

#: How often to look whether the name is free.
LOOK_SECONDS = 0.2


async def wait_for_name(context: SharedContext) -> None:
    """Return when no worker is alive under our name, and nothing runs under it."""
    log = ThrottledLog(logger)
    persist = context.store_retry.persist
    while (holder := await persist("name", partial(_holder, context))) is not None:
        if holder.alive:
            log.warning(
                "worker %s waits: another worker of this name is alive, %s; give each "
                "its own name, or wait until the lease of one that was killed ends",
                context.name,
                _place(holder.info),
            )
        else:
            await persist("name", partial(_reclaim, context))
        await context.sleep(LOOK_SECONDS)


async def _holder(context: SharedContext) -> WorkerStatus | None:
    """Return the worker that has our name, if it is alive or has running jobs."""
    for status in await context.store.workers():
        if status.name == context.name and (status.alive or status.active):
            return status
    return None


async def _reclaim(context: SharedContext) -> None:
    """End the lease of a worker that was killed, and what it ran."""
    store, settings = context.store, context.settings
    await store.leave(context.name)
    await store.tend(keep=settings.keep, lease=settings.lease, now=await store.now())


def _place(info: dict[str, Any]) -> str:
    return f"pid {info.get('pid', '?')} on {info.get('host', '?')}"
