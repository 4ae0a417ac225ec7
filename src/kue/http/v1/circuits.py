"""
Circuits of circuit breakers: list them, and open or close one by hand.

A circuit may have any name; paths with names are those of `kue.http.v1.queues`.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from kue.http.framework.operations import Input, RequestContext, Section
from kue.http.framework.problem import input_errors, not_found
from kue.http.v1.queues import DurationText
from kue.http.v1.stats import hidden, known_circuits
from kue.model.circuit import MAX_REASON, CircuitState, open_length
from kue.model.names import Name, check_path_name
from kue.model.view_struct import View

section = Section("circuits", "Circuit breakers: which are open, and why.")


class CircuitView(View, frozen=True, kw_only=True):
    """A circuit that opened, or had a failure, in the last day; times are Unix ms."""

    name: str
    state: CircuitState
    #: Until when jobs wait; null unless it is open.
    until: int | None
    #: Since when it is open or half-open; null if it is closed.
    opened_at: int | None
    #: Failures that count now, or that opened it.
    failures: int
    #: The last failure, and when it was.
    last_error: str
    failed_at: int | None
    #: Why it is open, in words; empty if it is closed.
    cause: str
    #: Who opened or closed it; empty if nobody did.
    by: str
    #: The job that runs as the probe of a half-open circuit.
    probe: int | None
    #: When it was last closed.
    closed_at: int | None


class CircuitList(msgspec.Struct, frozen=True):
    """Circuits, by name."""

    circuits: list[CircuitView]


class OpenOrder(Input, frozen=True):
    """For how long to open a circuit ("30m"), and why."""

    lasts: DurationText = msgspec.field(default="5m", name="for")
    reason: Annotated[str, msgspec.Meta(max_length=MAX_REASON)] = ""


@section.get("/circuits")
async def list_circuits(context: RequestContext) -> CircuitList:
    """Circuits that opened, or had a failure, in the last day; others are closed."""
    found = await known_circuits(context)
    return CircuitList([CircuitView.of(one) for one in found])


@section.post("/circuits/{name:path}/open")
async def open_circuit(
    context: RequestContext, name: Name, body: OpenOrder
) -> CircuitView:
    """
    Open a circuit: its jobs wait that long, then one of them is the probe.

    Workers learn of it within about a second; running jobs continue.  A name that no
    task uses has no effect.
    """
    with input_errors("path.name"):
        check_path_name(name, what="circuit name")
    with input_errors("body.for"):
        open_length(body.lasts, "for")
    opened = await context.q.open_circuit(
        name, for_=body.lasts, reason=body.reason, by=context.user.name
    )
    return CircuitView.of(hidden(context, opened))


@section.post("/circuits/{name:path}/close")
async def close_circuit(context: RequestContext, name: Name) -> CircuitView:
    """
    Close a circuit: jobs run, and failures are counted from 0.

    Jobs that were released run when they are due; promote them to run them sooner.
    """
    if name in {one.name for one in await context.q.circuits()}:
        await context.q.close_circuit(name, by=context.user.name)
        for one in await known_circuits(context):
            if one.name == name:
                return CircuitView.of(one)
    raise not_found(f"no circuit {name!r} has opened or failed in the last day")
