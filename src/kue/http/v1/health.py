"""Health and readiness, for load balancers, orchestrators, and people in a hurry."""

from __future__ import annotations

import msgspec

from kue.http.framework.operations import RequestContext, Section

section = Section("health", "Health of the server and its store.")


class Health(msgspec.Struct, frozen=True):
    """The server answers."""

    status: str = "ok"


class Readiness(msgspec.Struct, frozen=True):
    """The store answers, too."""

    status: str
    #: How safe jobs are in this store, in a sentence.
    durability: str
    #: The store's clock.
    now: int


@section.get("/health", is_open=True)
async def health(context: RequestContext) -> Health:
    """Whether the server answers; does not query the store."""
    return Health()


@section.get("/ready")
async def ready(context: RequestContext) -> Readiness:
    """Whether the store answers; 503 if it does not."""
    durability = await context.q.open()
    return Readiness(status="ok", durability=durability, now=await context.q.now())
