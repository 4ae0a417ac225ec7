"""
Who may do what: every route there is, tried by everyone there can be.

A route that is not in the table fails: whoever adds one says here what it takes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx
import pytest
from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute

from kue import Kue
from kue.http import create_app
from kue.http.auth.access import Anyone
from kue.http.dashboard import METHODS
from tests.http.accounts import Site, site_of

#: What it takes: nothing, to be known, or a scope.
EVERYONE, KNOWN = "everyone", "known"
TABLE = {
    "GET /api/v1/openapi.json": "read",
    "GET /api/v1/health": EVERYONE,
    "GET /api/v1/ready": "read",
    "GET /api/v1/stats": "read",
    "GET /api/v1/stats/history": "read",
    "GET /api/v1/queues": "read",
    "GET /api/v1/queues/{type}": "read",
    "GET /api/v1/scaling": "read",
    "POST /api/v1/pause": "manage",
    "POST /api/v1/resume": "manage",
    "POST /api/v1/queues/{type}/pause": "manage",
    "POST /api/v1/queues/{type}/resume": "manage",
    "PUT /api/v1/queues/{type}/limits": "manage",
    "DELETE /api/v1/queues/{type}/limits": "manage",
    "POST /api/v1/queues/{type}/clear": "admin",
    "GET /api/v1/circuits": "read",
    "POST /api/v1/circuits/{name}/open": "manage",
    "POST /api/v1/circuits/{name}/close": "manage",
    "GET /api/v1/alerts": "read",
    "PUT /api/v1/alerts/default": "manage",
    "DELETE /api/v1/alerts/default": "manage",
    "GET /api/v1/failures/rules": "read",
    "PUT /api/v1/failures/default": "manage",
    "POST /api/v1/failures/replay": "manage",
    "PUT /api/v1/queues/{type}/failures": "manage",
    "PUT /api/v1/queues/{type}/alert": "manage",
    "DELETE /api/v1/queues/{type}/alert": "manage",
    "PUT /api/v1/silenced/types/{type}": "manage",
    "DELETE /api/v1/silenced/types/{type}": "manage",
    "PUT /api/v1/silenced/tags/{tag}": "manage",
    "DELETE /api/v1/silenced/tags/{tag}": "manage",
    "GET /api/v1/tags": "read",
    "PUT /api/v1/tags/{tag}": "manage",
    "DELETE /api/v1/tags/{tag}": "manage",
    "POST /api/v1/jobs/bulk": "manage",
    "GET /api/v1/jobs/bulk/{bulk_id}": "read",
    "POST /api/v1/jobs/bulk/{bulk_id}/stop": "manage",
    "GET /api/v1/jobs": "read",
    "POST /api/v1/jobs": "enqueue",
    "POST /api/v1/jobs/batch": "enqueue",
    "GET /api/v1/jobs/{job_id}": "read",
    "PATCH /api/v1/jobs/{job_id}": "manage",
    "DELETE /api/v1/jobs/{job_id}": "admin",
    "GET /api/v1/jobs/{job_id}/logs": "read",
    "GET /api/v1/jobs/{job_id}/attempts": "read",
    "GET /api/v1/jobs/{job_id}/steps": "read",
    "GET /api/v1/jobs/{job_id}/chunks": "read",
    "GET /api/v1/jobs/{job_id}/stream": "read",
    "POST /api/v1/jobs/{job_id}/retry": "manage",
    "POST /api/v1/jobs/{job_id}/copy": "manage",
    "POST /api/v1/jobs/{job_id}/promote": "manage",
    "POST /api/v1/jobs/{job_id}/priority": "manage",
    "POST /api/v1/jobs/{job_id}/reschedule": "manage",
    "POST /api/v1/jobs/{job_id}/cancel": "manage",
    "POST /api/v1/jobs/{job_id}/signals": "manage",
    "GET /api/v1/errors": "read",
    "POST /api/v1/flows": "enqueue",
    "GET /api/v1/flows/{job_id}": "read",
    "POST /api/v1/flows/{job_id}/cancel": "manage",
    "POST /api/v1/flows/{job_id}/retry": "manage",
    "GET /api/v1/batches": "read",
    "GET /api/v1/batches/{batch_id}": "read",
    "POST /api/v1/batches/{batch_id}/cancel": "manage",
    "POST /api/v1/batches/{batch_id}/retry": "manage",
    "GET /api/v1/schedules": "read",
    "GET /api/v1/schedules/{name}": "read",
    "GET /api/v1/schedule-preview": "read",
    "PUT /api/v1/schedules/{name}": "manage",
    "DELETE /api/v1/schedules/{name}": "manage",
    "POST /api/v1/schedules/{name}/pause": "manage",
    "POST /api/v1/schedules/{name}/resume": "manage",
    "POST /api/v1/schedules/{name}/run": "manage",
    "GET /api/v1/limits": "read",
    "GET /api/v1/limits/{name}": "read",
    "PUT /api/v1/limits/{name}": "manage",
    "DELETE /api/v1/limits/{name}": "manage",
    "GET /api/v1/workers": "read",
    "GET /api/v1/workers/{name}": "read",
    "POST /api/v1/workers/{name}/pause": "manage",
    "POST /api/v1/workers/{name}/resume": "manage",
    "POST /api/v1/workers/{name}/stop": "manage",
    "POST /api/v1/workers/{name}/stacks": "manage",
    "GET /api/v1/workers/{name}/stacks": "manage",
    "GET /api/v1/bus": "read",
    "GET /api/v1/bus/addresses": "read",
    "GET /api/v1/bus/samples": "read",
    "POST /api/v1/bus/messages": "admin",
    "GET /api/v1/events": "read",
    "GET /api/v1/metrics": "read",
    "GET /api/v1/me": KNOWN,
    "GET /api/v1/login": EVERYONE,
    "POST /api/v1/login": EVERYONE,
    "POST /api/v1/logout": KNOWN,
    "PUT /api/v1/me/password": KNOWN,
    "GET /api/v1/users": "admin",
    "POST /api/v1/users": "admin",
    "PUT /api/v1/users/{name}": "admin",
    "DELETE /api/v1/users/{name}": "admin",
    "GET /api/v1/tokens": "admin",
    "POST /api/v1/tokens": "admin",
    "DELETE /api/v1/tokens/{token_id}": "admin",
    "GET /api/v1/audit": "admin",
    "GET /api/v1/connections": "admin",
    "GET /metrics": "read",
    "GET /kue/stats": "read",
    "GET /kue/job/search": "read",
    "GET /kue/job/types": "read",
    "GET /kue/jobs/{first}..{last}": "read",
    "GET /kue/jobs/{first}..{last}/{order}": "read",
    "GET /kue/jobs/{state}/{first}..{last}": "read",
    "GET /kue/jobs/{state}/{first}..{last}/{order}": "read",
    "GET /kue/jobs/{type}/{state}/{first}..{last}": "read",
    "GET /kue/jobs/{type}/{state}/{first}..{last}/{order}": "read",
    "GET /kue/jobs/{type}/{state}/stats": "read",
    "GET /kue/job/{id}": "read",
    "GET /kue/job/{id}/log": "read",
    "PUT /kue/job/{id}/state/{state}": "manage",
    "PUT /kue/job/{id}/priority/{priority}": "manage",
    "DELETE /kue/job/{id}": "admin",
    "POST /kue/job": "enqueue",
    "GET /kue/inactive/{id}": "manage",
    "GET /vertx-kue/job/search/{text}": "read",
    "GET /vertx-kue/stats": "read",
    "GET /vertx-kue/job/types": "read",
    "GET /vertx-kue/jobs/{first}/to/{last}": "read",
    "GET /vertx-kue/jobs/{first}/to/{last}/{order}": "read",
    "GET /vertx-kue/jobs/{state}/{first}/to/{last}": "read",
    "GET /vertx-kue/jobs/{state}/{first}/to/{last}/{order}": "read",
    "GET /vertx-kue/jobs/{type}/{state}/{first}/to/{last}": "read",
    "GET /vertx-kue/jobs/{type}/{state}/{first}/to/{last}/{order}": "read",
    "GET /vertx-kue/jobs/{type}/{state}/stats": "read",
    "PUT /vertx-kue/job": "enqueue",
    "PUT /vertx-kue/job/{id}/state/{state}": "manage",
    "PUT /vertx-kue/job/{id}/priority/{priority}": "manage",
    "GET /vertx-kue/job/{id}": "read",
    "GET /vertx-kue/job/{id}/log": "read",
    "DELETE /vertx-kue/job/{id}": "admin",
    "POST /vertx-kue/inactive/{id}": "manage",
}
#: The pages themselves, which have no data in them; the rest of what is there is 404.
TABLE |= {f"{method} /{{path}}": EVERYONE for method in METHODS}
TABLE["GET /assets/{name}"] = EVERYONE
#: Kue took a slash at the end for nothing.
TABLE |= {f"{route}/": takes for route, takes in TABLE.items() if " /kue/" in route}
#: A GET that changes something, because Kue's does.
CHANGING_GETS = {"GET /kue/inactive/{id}", "GET /kue/inactive/{id}/"}
MAY = {
    "nobody": set[str](),
    "viewer": {"read"},
    "operator": {"read", "enqueue", "manage"},
    "admin": {"read", "enqueue", "manage", "admin"},
    "read": {"read"},
    "enqueue": {"enqueue"},
    "manage": {"manage"},
}
#: Something for each parameter; there is no such job, type or user.
FILLED = {
    "job_id": "4711",
    "batch_id": "4711",
    "id": "4711",
    "token_id": "0123456789ab",
    "first": "0",
    "last": "1",
    "state": "failed",
    "order": "asc",
    "priority": "1",
}

on_any_store = pytest.mark.parametrize("url", ["memory://"])


def names(routes: list[BaseRoute], prefix: str = "") -> Iterator[str]:
    """Yield every route of an application: method and path."""
    for route in routes:
        if isinstance(route, Mount):
            yield from names(list(route.routes), prefix + route.path)
        elif isinstance(route, Route):
            path = re.sub(r"{(\w+):\w+}", r"{\1}", route.path)
            for method in (route.methods or set()) - {"HEAD"}:
                yield f"{method} {prefix}{path}"
        else:
            assert isinstance(route, WebSocketRoute)
            assert prefix + route.path == "/api/v1/events/ws"


@on_any_store
async def test_the_table_has_every_route(q: Kue) -> None:
    app = create_app(q, guard=Anyone())

    found = list(names(list(app.routes)))

    assert sorted(found) == sorted(TABLE)


def wanted(route: str, who: str, *, is_read_only: bool) -> set[int] | None:
    """Return what the answer must be; None for anything but 401 and 403."""
    takes = TABLE[route]
    if takes == EVERYONE:
        return None
    if who == "nobody":
        return {401}
    if takes != KNOWN and takes not in MAY[who]:
        return {403}
    is_change = not route.startswith("GET") or route in CHANGING_GETS
    if is_read_only and is_change and takes != KNOWN:
        return {403}
    return None


async def ask(site: Site, client: httpx.AsyncClient, route: str) -> int:
    method, path = route.split(" ")
    path = re.sub(r"{(\w+)}", lambda found: FILLED.get(found[1], "nothing"), path)
    async with client.stream(method, site.address + path) as answer:
        # Of a stream without end, how it begins.
        return answer.status_code


@on_any_store
@pytest.mark.parametrize("is_read_only", [False, True], ids=["", "read-only"])
@pytest.mark.parametrize("who", MAY)
async def test_everyone_may_what_they_may_and_nothing_else(
    q: Kue, who: str, is_read_only: bool
) -> None:
    wrong: list[str] = []
    async with site_of(q, read_only=is_read_only) as site:
        headers = await site.headers(who)
        # Logging out comes last.
        routes = sorted(TABLE, key=lambda route: route.endswith("/logout"))
        async with httpx.AsyncClient(headers=headers, verify=False) as client:
            for route in routes:
                status = await ask(site, client, route)
                must = wanted(route, who, is_read_only=is_read_only) or (
                    set(range(200, 500)) - {401, 403, 405}
                )
                if route == "POST /api/v1/login":
                    must = {415}
                if status not in must:
                    wrong.append(f"{route}: {status}")

    assert wrong == []


@on_any_store
async def test_bulk_removal_takes_an_admin(q: Kue) -> None:
    body = {"action": "remove", "ids": [1]}
    async with site_of(q) as site:
        for who, status in [("operator", 403), ("manage", 403), ("admin", 202)]:
            async with site.client(headers=await site.headers(who)) as client:
                answer = await client.post("/jobs/bulk", json=body)
            assert (who, answer.status_code) == (who, status)


@on_any_store
async def test_read_only_says_why(q: Kue) -> None:
    async with (
        site_of(q, read_only=True) as site,
        site.client(headers=await site.headers("admin")) as client,
    ):
        answer = await client.post("/jobs", json={"type": "email"})

    assert answer.status_code == 403
    assert "read-only" in answer.json()["detail"]


async def test_looking_changes_nothing(q: Kue) -> None:
    job = await q.enqueue("email", {"to": "ann"})
    async with site_of(q) as site:
        headers = await site.headers("admin")
        before = await state(q)
        async with httpx.AsyncClient(headers=headers, verify=False) as client:
            for route in TABLE:
                if route.startswith("GET") and route not in CHANGING_GETS:
                    known = route.replace("{job_id}", str(job.id))
                    await ask(site, client, known.replace("{id}", str(job.id)))
        after = await state(q)

    assert after == before


async def state(q: Kue) -> object:
    return (
        (await q.page()).jobs,
        await q.counts(),
        await q.paused(),
        await q.limits(),
        await q.named_limits(),
        await q.schedules(),
        await q.store.acts(),
        await q.store.all_kept("user"),
        sorted(await q.store.all_kept("session")),
    )
