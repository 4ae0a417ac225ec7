"""Is it well?  For load balancers, orchestrators, and people in a hurry."""

from __future__ import annotations

import msgspec

from kue.http.framework.operations import RequestContext, Section

section = Section("health", "Whether the server and its store are well.")


class Health(msgspec.Struct, frozen=True):
    """Says that the server answers."""

    status: str = "ok"


class Readiness(msgspec.Struct, frozen=True):
    """Says that the store answers, too."""

    status: str
    #: How safe jobs are in this store, in a sentence.
    durability: str
    #: The store's clock.
    now: int


@section.get("/health", is_open=True)
async def health(call: RequestContext) -> Health:
    """Whether the server answers; asks nothing of the store."""
    return Health()


@section.get("/ready")
async def ready(call: RequestContext) -> Readiness:
    """Whether the store answers; 503 when it does not."""
    durability = await call.q.open()
    return Readiness(status="ok", durability=durability, now=await call.q.now())
