"""Clients and jobs for the tests of both old APIs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from starlette.applications import Starlette
from starlette.routing import Mount, Route

from kue import Kue
from kue.model.job import Ending, Job
from tests.http.conftest import serving
from tests.support.jobs import claim_one, end

#: The role below one.
BELOW = {"operator": "viewer", "admin": "operator"}
#: A job, as either API takes it.
EMAIL = {"type": "email", "data": {"to": "ann"}}


@asynccontextmanager
async def client_of(
    prefix: str, routes: list[Route]
) -> AsyncIterator[httpx.AsyncClient]:
    """Yield a client of *routes*, mounted at *prefix*."""
    async with (
        serving(Starlette(routes=[Mount(prefix, routes=routes)])) as address,
        httpx.AsyncClient(
            base_url=f"{address}{prefix}", timeout=45, verify=False
        ) as client,
    ):
        yield client


async def start(q: Kue, type: str = "email", **options: Any) -> Job:
    """Add a job and start it."""
    await q.enqueue(type, **options)
    return await claim_one(q.store, type, now=await q.now())


async def finish(q: Kue, ending: Ending, type: str = "email", **options: Any) -> int:
    """Add a job, run it a second and end it."""
    await q.enqueue(type, **options)
    now = await q.now()
    job = await claim_one(q.store, type, now=now - 1000)
    await end(q.store, job, ending, now=now)
    return job.id
