"""Numbers for autoscalers, over HTTP."""

from __future__ import annotations

import json
import re
from typing import Any

import httpx
import pytest

from kue import Kue
from kue.model.job import Completed
from kue.store.values import Limits, PauseRequest, RenewRequest
from tests.http.conftest import Http
from tests.project.test_docs import DOCS
from tests.support.jobs import add_many, add_one, claim, claim_one, end

NOTHING = {
    "backlog": 0,
    "oldest_wait_seconds": 0.0,
    "running": 0,
    "workers": 0,
    "slots": 0,
    "wanted": 0,
}


async def scaling(client: httpx.AsyncClient, **query: Any) -> dict[str, Any]:
    answer = await client.get("/scaling", params=query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def at_work(q: Kue, name: str = "web-1", **info: Any) -> None:
    """Register a worker that does not become lost while the test runs."""
    await q.store.renew(RenewRequest(name, lease=3_600_000, info=info))


async def ended(q: Kue, type: str, *, seconds: int) -> None:
    """Let a job of that type have run just now."""
    now = await q.now()
    await add_one(q.store, type, now=now - 1000 * seconds)
    job = await claim_one(q.store, type, now=now - 1000 * seconds)
    await end(q.store, job, Completed(), now=now)


async def test_types_without_jobs_are_zeros_and_not_an_error(
    client: httpx.AsyncClient,
) -> None:
    """An autoscaler asks before the first job was added."""
    assert await scaling(client) == NOTHING
    assert await scaling(client, types="email,report") == NOTHING


async def test_waiting_and_running_jobs_and_slots_are_counted(
    client: httpx.AsyncClient, q: Kue
) -> None:
    now = await q.now()
    await add_many(q.store, 5, now=now - 90_000)
    await claim(q.store, limit=2, now=now)
    await at_work(q, slots={"email": 10, "report": 3})
    await add_one(q.store, "report", now=now)

    found = await scaling(client, types="email")

    assert found.pop("oldest_wait_seconds") >= 90
    assert found == {
        "backlog": 3,
        "running": 2,
        "workers": 1,
        "slots": 10,
        "wanted": 1,
    }
    both = await scaling(client)
    assert (both["backlog"], both["slots"]) == (4, 13)


@pytest.mark.parametrize(
    ("slots", "info", "jobs", "wanted"),
    [
        pytest.param({"email": 10}, {}, 10, 1, id="as many as there are slots"),
        pytest.param({"email": 10}, {}, 11, 2, id="one more"),
        pytest.param({"email": 10}, {}, 95, 10, id="many"),
        pytest.param({"email": 10}, {"concurrency": 2}, 11, 6, id="shared slots"),
        pytest.param({"email": 10, "report": 99}, {}, 95, 10, id="slots of others"),
        pytest.param({"report": 5}, {}, 95, 1, id="no worker takes them"),
        pytest.param({"email": "many"}, {}, 95, 1, id="another version"),
    ],
)
async def test_until_a_run_has_ended_every_job_needs_a_slot(
    client: httpx.AsyncClient,
    q: Kue,
    slots: dict[str, Any],
    info: dict[str, Any],
    jobs: int,
    wanted: int,
) -> None:
    await at_work(q, slots=slots, **info)
    await add_many(q.store, jobs, now=None)

    assert (await scaling(client, types="email"))["wanted"] == wanted


async def test_short_jobs_may_take_turns_within_the_target_wait(
    client: httpx.AsyncClient, q: Kue
) -> None:
    await at_work(q, slots={"email": 1})
    await ended(q, "email", seconds=1)
    await add_many(q.store, 100, now=None)

    found = [
        (await scaling(client, types="email", target_wait=wait))["wanted"]
        for wait in ("100s", "50s", "10s", "1s", "1ms")
    ]

    assert found == [1, 2, 10, 100, 100]


async def test_jobs_that_no_worker_could_start_need_none(
    client: httpx.AsyncClient, q: Kue
) -> None:
    await at_work(q, slots={"email": 5, "report": 5})
    await add_many(q.store, 20, now=None)
    await add_many(q.store, 20, "report", now=None)
    await q.store.pause(PauseRequest("email"))
    await q.store.limit("report", Limits(rate=1, per=3_600_000))

    assert await scaling(client, types="email,report") == NOTHING | {
        "workers": 1,
        "slots": 10,
    }


@pytest.mark.parametrize(
    ("query", "place"),
    [
        ({"target_wait": "0s"}, "query.target_wait"),
        ({"target_wait": "soon"}, "query.target_wait"),
        ({"types": ",".join(f"t{n}" for n in range(101))}, "query.types"),
        ({"types": "x" * 1000}, "query.types[0]"),
        ({"queue": "email"}, "query"),
    ],
)
async def test_a_question_that_makes_no_sense_is_refused(
    client: httpx.AsyncClient, query: dict[str, str], place: str
) -> None:
    answer = await client.get("/scaling", params=query)

    assert answer.status_code == 400
    assert place in answer.text


async def test_it_is_there_for_everyone_who_may_read(http: Http) -> None:
    async with http.client("viewer") as client:
        assert await scaling(client) == NOTHING


# -- the guide -----------------------------------------------------------------

GUIDE = (DOCS / "guides" / "scaling.md").read_text()


async def test_the_guide_shows_the_fields_that_there_are(
    client: httpx.AsyncClient,
) -> None:
    [shown] = re.findall(r"^```json\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
    read = re.findall(r'valueLocation: "(\w+)"', GUIDE)

    found = await scaling(client)

    assert list(json.loads(shown)) == list(found)
    assert set(read) == {"wanted", "backlog"} <= found.keys()


async def test_the_addresses_of_the_guide_answer(client: httpx.AsyncClient) -> None:
    paths = re.findall(r"/api/v1(/scaling\?[^'\"]+)", GUIDE)

    answers = [await client.get(path) for path in paths]

    assert [answer.status_code for answer in answers] == [200, 200]


async def test_the_metrics_of_the_guide_exist(
    client: httpx.AsyncClient, q: Kue
) -> None:
    await add_one(q.store, now=None)
    read = set(re.findall(r"(kue_\w+)\{(?:state|<)", GUIDE))

    text = (await client.get("/metrics")).text

    assert read == {"kue_jobs", "kue_oldest_wait_seconds"}
    assert [name for name in read if f'{name}{{type="email"' not in text] == []
