"""
Middleware: functions around a run.

A middleware is ``async def m(job, call_next)``: it may do something before, call
``await call_next(job)`` (or not), and do something with the result.  It may raise
whatever a handler may: `Retry`, `Release`, `Skip` …
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from kue.model.payload import JSON

if TYPE_CHECKING:
    from kue.worker.active_job import ActiveJob

CallNext: TypeAlias = Callable[[Any], Awaitable[JSON]]
Middleware: TypeAlias = Callable[["ActiveJob", CallNext], Awaitable[JSON]]


def compose(layers: Sequence[Middleware], handler: CallNext) -> CallNext:
    """Wrap *handler* so that the first of *layers* is the outermost."""
    for layer in reversed(layers):
        handler = functools.partial(_call, layer, handler)
    return handler


async def _call(layer: Middleware, call_next: CallNext, job: ActiveJob) -> JSON:
    return await layer(job, call_next)
