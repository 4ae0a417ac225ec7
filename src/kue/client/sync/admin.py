"""The verbs of a queue that an operator uses, for ordinary code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kue.client.sync.connection import BlockingCalls
from kue.model.job import FINAL

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from kue.client.admin import Order
    from kue.client.bulk_actions import OnSwept
    from kue.model.duration import Duration
    from kue.model.job import State


class SyncQueueAdmin(BlockingCalls):
    """What can be asked of a queue as a whole; `client.admin.Operating`, blocking."""

    def pause(
        self,
        type: str | None = None,
        *,
        worker: str | None = None,
        reason: str = "",
        by: str = "",
        until: Duration | datetime | None = None,
    ) -> None:
        """Hand out no more jobs of *type* (None: of any), or none to *worker*."""
        self.call(
            lambda q: q.pause(type, worker=worker, reason=reason, by=by, until=until)
        )

    def resume(self, type: str | None = None, *, worker: str | None = None) -> bool:
        """End the pause of a type, of a worker or of everything, if there was one."""
        return self.call(lambda q: q.resume(type, worker=worker))

    def order(self, worker: str, order: Order) -> bool:
        """Have a live worker do something; tell whether there is one of that name."""
        return self.call(lambda q: q.order(worker, order))

    def limit(
        self,
        type: str,
        *,
        concurrency: int | None = None,
        rate: int | None = None,
        per: Duration = 1,
        per_key: int | None = None,
    ) -> None:
        """Hold jobs of *type* back, in all workers together."""
        self.call(
            lambda q: q.limit(
                type, concurrency=concurrency, rate=rate, per=per, per_key=per_key
            )
        )

    def clear(
        self,
        type: str | None = None,
        states: Iterable[State | str] = FINAL,
        *,
        on_progress: OnSwept | None = None,
    ) -> int:
        """Remove all jobs of *type* (None: of any) in *states*; return how many."""
        wanted = tuple(states)
        return self.call(lambda q: q.clear(type, wanted, on_progress=on_progress))
