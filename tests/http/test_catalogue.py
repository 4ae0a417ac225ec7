"""Defects of the APIs that Kue comes from, which the API of its own does not have."""

from __future__ import annotations

import logging
import re
from typing import Any

import httpx
import pytest

from kue import Kue
from kue.model.job import Completed, Ending, Failed
from kue.supervisor.health_check import SupervisorHealth
from kue.supervisor.health_endpoints import health_server
from kue.supervisor.options import ProcessCount
from tests.support.jobs import OOPS, claim_one, end

WELL = SupervisorHealth(
    live=True,
    ready=True,
    reasons=(),
    children=(),
    processes=ProcessCount(now=1, least=1, most=1),
)
#: Fields of a job that are numbers, once it has been run.
NUMBERS = (
    *("id", "priority", "attempts", "max_attempts", "progress", "delay", "ttl"),
    *("created_at", "updated_at", "started_at", "ended_at", "duration"),
)


async def finish(q: Kue, ending: Ending) -> int:
    """Add a job and end it."""
    await q.enqueue("email", {"to": "ann"})
    job = await claim_one(q.store, now=await q.now())
    await end(q.store, job, ending, now=await q.now())
    return job.id


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/jobs/99", None, 404),
        ("GET", "/jobs/bogus", None, 400),
        ("GET", "/jobs?state=bogus", None, 400),
        ("GET", "/queues/nobody", None, 404),
        ("POST", "/jobs", {"data": {}}, 400),
        ("POST", "/jobs/1/priority", {"priority": "bogus"}, 400),
        ("POST", "/jobs/1/cancel", None, 409),
        ("POST", "/jobs/99/retry", None, 404),
        ("DELETE", "/jobs/99", None, 404),
    ],
)
async def test_an_error_is_never_200(
    client: httpx.AsyncClient, q: Kue, method: str, path: str, body: Any, status: int
) -> None:
    """U-2: Kue answered errors with 200, as ``/kue`` still does."""
    await finish(q, Completed())

    answer = await client.request(method, path, json=body)

    assert answer.status_code == answer.json()["status"] == status
    assert answer.headers["content-type"] == "application/problem+json"


async def test_no_get_changes_a_job(client: httpx.AsyncClient, q: Kue) -> None:
    """U-3: with Kue, whoever followed a link to ``/inactive/1`` restarted a job."""
    failed = await finish(q, Failed(OOPS))
    before = (await client.get(f"/jobs/{failed}")).json()
    document = (await client.get("/openapi.json")).json()

    for path, methods in document["paths"].items():
        if path.endswith("/events"):
            # It does not end.
            continue
        named = path.replace("{job_id}", str(failed)).replace("{type}", "email")
        answer = await client.get(re.sub(r"{\w+}", "any", named))
        # The name of a queue, a schedule or a worker may have slashes.
        is_name = path.startswith(
            ("/queues/{", "/schedules/{", "/workers/{", "/limits/{")
        )
        if "get" not in methods:
            assert answer.status_code == (404 if is_name else 405), path

    assert (await client.get(f"/jobs/{failed}")).json() == before


async def test_numbers_are_numbers_wherever_a_job_is_shown(
    client: httpx.AsyncClient, q: Kue
) -> None:
    """U-4: with Kue, an id was text in one route, and times were text in all."""
    done = await finish(q, Completed())

    added = (await client.post("/jobs", json={"type": "email"})).json()
    many = (await client.post("/jobs/batch", json=[{"type": "email"}])).json()
    alone = (await client.get(f"/jobs/{done}")).json()
    listed = (await client.get("/jobs?state=complete")).json()["jobs"]

    assert [type(one["id"]) for one in (added, *many)] == [int, int]
    for job in (alone, *listed):
        assert {name: type(job[name]) for name in NUMBERS} == dict.fromkeys(
            NUMBERS, int
        )
    assert {name: alone[name] for name in NUMBERS} == {
        name: listed[0][name] for name in NUMBERS
    }


async def test_the_address_that_is_logged_is_the_one_that_answers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """D-49: Vert.x Kue logged the default port, whatever it listened on."""
    caplog.set_level(logging.INFO, logger="kue.supervisor")

    async with health_server("127.0.0.1", 0, lambda: WELL), httpx.AsyncClient() as web:
        [address] = re.findall(r"http://\S+", caplog.text)
        answer = await web.get(address)

    assert answer.status_code == 200
