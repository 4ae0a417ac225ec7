"""Hooks (start or stop of a worker, failure of a job) and middleware."""

from __future__ import annotations

import functools
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from kue.aio.callbacks import awaited
from kue.model.job import Error, Job
from kue.model.payload import JSON

if TYPE_CHECKING:
    from kue.aio.tasks import BackgroundTasks
    from kue.client.failover_connection import FailedOver
    from kue.model.alerts import AlertNotice
    from kue.worker.active_job import ActiveJob

CallNext: TypeAlias = Callable[[Any], Awaitable[JSON]]
#: A function around a run, ``async def m(job, call_next)``: it may do something before,
#: call ``await call_next(job)`` (or not), and do something with the result.  It may
#: raise whatever a handler may: `Retry`, `Release`, `Skip` …
Middleware: TypeAlias = Callable[["ActiveJob", CallNext], Awaitable[JSON]]
logger = logging.getLogger(__name__)
#: May be a coroutine function.
Hook: TypeAlias = Callable[[], Awaitable[object] | object]
FailureHook: TypeAlias = Callable[[Job, Error], Awaitable[object] | object]
FailoverHook: TypeAlias = Callable[["FailedOver"], Awaitable[object] | object]
AlertHook: TypeAlias = Callable[["AlertNotice"], Awaitable[object] | object]


def compose(layers: Sequence[Middleware], handler: CallNext) -> CallNext:
    """Wrap *handler* so that the first of *layers* is the outermost."""
    for layer in reversed(layers):
        handler = functools.partial(_call, layer, handler)
    return handler


async def _call(layer: Middleware, call_next: CallNext, job: ActiveJob) -> JSON:
    return await layer(job, call_next)


class Hooks:
    """The hooks of a queue, in the order of their registration."""

    def __init__(self) -> None:
        self.startup: list[Hook] = []
        self.shutdown: list[Hook] = []
        self.failure: list[FailureHook] = []
        self.alert: list[AlertHook] = []
        self.failover: list[FailoverHook] = []

    async def start(self) -> None:
        """Call the start-up hooks; one that raises keeps the worker from starting."""
        for hook in self.startup:
            await awaited(hook())

    async def stop(self) -> None:
        """Call the shutdown hooks, the last registered first; none is left out."""
        for hook in reversed(self.shutdown):
            try:
                await awaited(hook())
            except Exception:
                logger.exception("shutdown hook %r raised", hook)

    def notify_alerts(
        self, calls: BackgroundTasks, notices: Sequence[AlertNotice]
    ) -> None:
        """Call the alert hooks in one of *calls*, in the order of the reports."""
        if self.alert:
            calls.start(self._call_on_alert(notices), "kue alert")

    def notify_failover(self, calls: BackgroundTasks, switch: FailedOver) -> None:
        """Call the fail-over hooks in one of *calls*."""
        if self.failover:
            calls.start(self._call_on_failover(switch), "kue failover hooks")

    async def _call_on_failover(self, switch: FailedOver) -> None:
        for hook in self.failover:
            try:
                await awaited(hook(switch))
            except Exception:
                logger.exception("fail-over hook %r raised", hook)

    async def _call_on_alert(self, notices: Sequence[AlertNotice]) -> None:
        for notice in notices:
            for hook in self.alert:
                try:
                    await awaited(hook(notice))
                except Exception:
                    logger.exception("alert hook %r raised", hook)
