"""Both old APIs, with their clients and jobs, for tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from starlette.applications import Starlette
from starlette.routing import Mount, Route

from kue import Kue
from kue.http.auth.access import Anyone, Guard
from kue.http.compat import automattic_kue, vertx_kue
from kue.model.job import Ending, Job
from tests.http.conftest import serving
from tests.support.jobs import claim_one, end
from tests.support.patience import PATIENCE_SECONDS

#: A job, as either API takes it.
EMAIL = {"type": "email", "data": {"to": "ann"}}


@dataclass(frozen=True)
class OldApi:
    """One of the APIs, and how it spells what both have."""

    name: str
    routes: Callable[[Kue, Guard], list[Route]]
    #: How a job is added, and an ended one restarted.
    add: str
    restart: str
    #: The name of a state, and a range.
    state: Callable[[str], str]
    span: str
    #: Every route: method, path, the role it takes.
    table: list[tuple[str, str, str]]
    #: The status while the store is away.
    away: int

    def status(self, error: int) -> int:
        """Return the status of an error: Kue sends most of them with 200."""
        return 200 if self is KUE else error

    def range(self, where: str, first: int, last: int) -> str:
        """Return the path of a range of all jobs, or of those of a state and type."""
        *types, state = where.split("/")
        parts = ["/jobs", *types, self.state(state)] if where else ["/jobs"]
        return "/".join([*parts, self.span.format(first, last)])

    @asynccontextmanager
    async def client(
        self, q: Kue, guard: Guard | None = None
    ) -> AsyncIterator[httpx.AsyncClient]:
        """Yield a client of someone who may do everything, or whom *guard* knows."""
        routes = self.routes(q, guard or Anyone())
        app = Starlette(routes=[Mount(f"/{self.name}", routes=routes)])
        async with (
            serving(app) as address,
            httpx.AsyncClient(
                base_url=f"{address}/{self.name}",
                timeout=PATIENCE_SECONDS,
                verify=False,
            ) as client,
        ):
            yield client


KUE = OldApi(
    name="kue",
    routes=automattic_kue.routes,
    add="POST",
    restart="GET",
    state=str.lower,
    span="{}..{}",
    table=[
        ("GET", "/stats", "viewer"),
        ("GET", "/job/search?q=ann", "viewer"),
        ("GET", "/jobs/0..9", "viewer"),
        ("GET", "/jobs/0..9/desc", "viewer"),
        ("GET", "/jobs/inactive/0..9", "viewer"),
        ("GET", "/jobs/inactive/0..9/desc", "viewer"),
        ("GET", "/jobs/email/inactive/0..9", "viewer"),
        ("GET", "/jobs/email/inactive/0..9/desc", "viewer"),
        ("GET", "/jobs/email/inactive/stats", "viewer"),
        ("GET", "/job/types", "viewer"),
        ("GET", "/job/1", "viewer"),
        ("GET", "/job/1/log", "viewer"),
        ("PUT", "/job/1/state/inactive", "operator"),
        ("PUT", "/job/1/priority/5", "operator"),
        ("DELETE", "/job/1", "admin"),
        ("POST", "/job", "operator"),
        ("GET", "/inactive/1", "operator"),
    ],
    away=500,
)
VERTX = OldApi(
    name="vertx-kue",
    routes=vertx_kue.routes,
    add="PUT",
    restart="POST",
    state=str.upper,
    span="{}/to/{}",
    table=[
        ("GET", "/job/search/ann", "viewer"),
        ("GET", "/stats", "viewer"),
        ("GET", "/jobs/email/INACTIVE/stats", "viewer"),
        ("GET", "/job/types", "viewer"),
        ("GET", "/jobs/0/to/9", "viewer"),
        ("GET", "/jobs/0/to/9/desc", "viewer"),
        ("GET", "/jobs/INACTIVE/0/to/9", "viewer"),
        ("GET", "/jobs/INACTIVE/0/to/9/desc", "viewer"),
        ("GET", "/jobs/email/INACTIVE/0/to/9", "viewer"),
        ("GET", "/jobs/email/INACTIVE/0/to/9/desc", "viewer"),
        ("PUT", "/job", "operator"),
        ("PUT", "/job/1/state/INACTIVE", "operator"),
        ("PUT", "/job/1/priority/HIGH", "operator"),
        ("GET", "/job/1", "viewer"),
        ("GET", "/job/1/log", "viewer"),
        ("DELETE", "/job/1", "admin"),
        ("POST", "/inactive/1", "operator"),
    ],
    away=503,
)


async def ask(client: httpx.AsyncClient, method: str, path: str) -> httpx.Response:
    """Send a request; one to ``/job`` adds a job."""
    body = EMAIL if path.rstrip("/") == "/job" else None
    return await client.request(method, path, json=body)


async def told(client: httpx.AsyncClient, method: str, path: str) -> Any:
    """Return the answer to a request that is 200."""
    answer = await ask(client, method, path)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/json"
    return answer.json()


async def ids(client: httpx.AsyncClient, path: str) -> list[int]:
    return [job["id"] for job in await told(client, "GET", path)]


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
