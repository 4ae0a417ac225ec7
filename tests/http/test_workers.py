"""Workers over HTTP: what they say, what they run, quiet and at work again."""

from __future__ import annotations

import asyncio
import os
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from kue import Kue
from kue.http.v1 import workers
from kue.model.job import State
from kue.store.values import RenewRequest
from tests.http.conftest import Http
from tests.support.jobs import HOUR, add_many, claim, start_one
from tests.support.patience import PATIENCE_SECONDS

INFO: dict[str, Any] = {
    "host": "web",
    "pid": 4711,
    "version": "1.0",
    "started_at": 1_700_000_000_000,
    "slots": {"email": 20, "a/b": 2},
    "done": 1234,
    "memory": 50 << 20,
    "lag_ms": 3,
    "blocked": 2,
    "blocked_at": "app.py:12 in resize",
}
CHANGES: list[tuple[str, str, Any]] = [
    ("POST", "/workers/w1/pause", {}),
    ("POST", "/workers/w1/resume", None),
    ("POST", "/workers/w1/stop", None),
    ("POST", "/workers/w1/stacks", None),
    ("GET", "/workers/w1/stacks", None),
]
LOOKS = [("GET", "/workers", None), ("GET", "/workers/w1", None)]


async def at_work(q: Kue, name: str = "w1", **info: Any) -> int:
    """Let a worker run a job since an hour ago, and tell of itself; return the job."""
    now = await q.now()
    job = await start_one(q.store, worker=name, now=now - HOUR)
    await q.store.renew(RenewRequest(name, info=info, lease=60_000), now=now)
    return job.id


async def first_beat(q: Kue) -> None:
    """Wait until a worker has told of itself."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        # There is no event to wait for.
        while not any(one.info for one in await q.workers()):  # noqa: ASYNC110
            await asyncio.sleep(0.005)


# -- looking -------------------------------------------------------------------


async def test_what_a_worker_says_and_runs_is_shown(
    client: httpx.AsyncClient, q: Kue
) -> None:
    job_id = await at_work(q, **INFO)

    [worker] = (await client.get("/workers")).json()["workers"]

    assert {name: worker[name] for name in INFO} == INFO
    assert (worker["name"], worker["alive"], worker["lost"]) == ("w1", True, False)
    assert (worker["paused"], worker["pause"]) == (False, None)
    assert worker["active"] == 1
    [running] = worker["running"]
    assert HOUR <= running.pop("elapsed_ms") < 2 * HOUR
    assert running.pop("started_at") == worker["deadline"] - 60_000 - HOUR
    assert running == {"id": job_id, "type": "email", "attempt": 1, "progress": 0}


async def test_a_worker_at_work_tells_all_of_itself(
    client: httpx.AsyncClient, q: Kue
) -> None:
    running, enough = asyncio.Event(), asyncio.Event()

    @q.process("email", 3)
    async def send(job: Any) -> None:
        running.set()
        await enough.wait()

    job = await q.create_job("email").save()
    async with q.work(name="w1"):
        await running.wait()
        await first_beat(q)
        worker = (await client.get("/workers/w1")).json()
        served = (await client.get("/queues/email")).json()["workers"]
        enough.set()

    assert [name for name in INFO if worker[name] is None] == []
    assert (worker["pid"], worker["slots"]) == (os.getpid(), {"email": 3})
    assert [run["id"] for run in worker["running"]] == [job.id]
    assert served == 1


async def test_one_worker_is_shown_as_in_the_list(
    client: httpx.AsyncClient, q: Kue
) -> None:
    await at_work(q, **INFO)
    await at_work(q, "w2")

    one = (await client.get("/workers/w1")).json()
    first, second = (await client.get("/workers")).json()["workers"]

    assert one["running"][0]["id"] == first["running"][0]["id"]
    assert one["running"][0]["id"] != second["running"][0]["id"]
    assert one | {"running": []} == first | {"running": []}


@pytest.mark.parametrize("info", [{}, {"pid": "none", "slots": 3}])
async def test_a_worker_that_says_nothing_of_use_is_shown_all_the_same(
    client: httpx.AsyncClient, q: Kue, info: dict[str, Any]
) -> None:
    await at_work(q, **info)

    worker = (await client.get("/workers/w1")).json()

    assert (worker["name"], worker["active"]) == ("w1", 1)
    assert {worker[name] for name in INFO if name != "slots"} == {None}
    assert worker["slots"] == {}


async def test_a_worker_past_its_lease_is_not_alive(
    client: httpx.AsyncClient, q: Kue
) -> None:
    ago = await q.now() - 5_000
    await start_one(q.store, worker="w1", now=ago)
    await q.store.renew(RenewRequest("w1", lease=1_000), now=ago)

    worker = (await client.get("/workers/w1")).json()

    assert (worker["alive"], worker["lost"]) == (False, True)
    assert worker["deadline"] == ago + 1_000


async def test_the_right_to_end_a_run_is_not_told(
    client: httpx.AsyncClient, q: Kue
) -> None:
    job_id = await at_work(q)
    [job] = await q.store.get([job_id])
    assert job is not None

    for _, path, _ in LOOKS:
        assert job.token not in (await client.get(path)).text


async def test_a_worker_is_found_behind_the_jobs_of_others(
    client: httpx.AsyncClient, q: Kue
) -> None:
    now = await q.now()
    await add_many(q.store, 600, "bulk", now=now)
    while await claim(q.store, "bulk", limit=500, worker="w0", now=now):
        pass
    job_id = await at_work(q)

    one = (await client.get("/workers/w1")).json()
    first, second = (await client.get("/workers")).json()["workers"]

    assert [running["id"] for running in one["running"]] == [job_id]
    assert (first["active"], len(first["running"])) == (600, workers.MAX_RUNNING)
    assert (second["active"], second["running"]) == (1, [])


async def test_nobody_at_work_is_an_empty_list(client: httpx.AsyncClient) -> None:
    assert (await client.get("/workers")).json() == {"workers": []}


# -- quiet ---------------------------------------------------------------------


async def test_a_worker_is_paused_and_resumed_by_name(
    client: httpx.AsyncClient, q: Kue
) -> None:
    await at_work(q)
    order = {"reason": "kernel", "for": "30m"}

    paused = await client.post("/workers/w1/pause", json=order)
    shown = (await client.get("/workers/w1")).json()
    beat = await q.store.renew(RenewRequest("w1"))
    resumed = await client.post("/workers/w1/resume")

    assert paused.json() == {"name": "w1", "pause": shown["pause"]}
    assert shown["paused"]
    assert (shown["pause"]["worker"], shown["pause"]["by"]) == ("w1", "local")
    assert beat.paused is not None
    assert (beat.paused.reason, beat.paused.until) == (
        "kernel",
        shown["pause"]["until"],
    )
    assert resumed.json() == {"name": "w1", "pause": None}
    assert (await q.store.renew(RenewRequest("w1"))).paused is None


async def test_a_worker_that_is_away_is_resumed_by_name(
    client: httpx.AsyncClient, q: Kue
) -> None:
    await q.pause(worker="w1")

    answer = await client.post("/workers/w1/resume")

    assert (answer.status_code, await q.paused()) == (200, [])


@pytest.mark.parametrize("name", ["a/b", "host 1", "ü", "h:1{}", "a/pause"])
async def test_a_worker_may_have_any_name(
    client: httpx.AsyncClient, q: Kue, name: str
) -> None:
    await at_work(q, name)
    path = f"/workers/{quote(name, safe='')}"

    shown = await client.get(path)
    await client.post(f"{path}/pause", json={})
    pauses = await q.paused()
    await client.post(f"{path}/resume")

    assert shown.json()["name"] == name
    assert len(shown.json()["running"]) == 1
    assert [pause.worker for pause in pauses] == [name]
    assert await q.paused() == []


# -- refusing ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "body", "field"),
    [
        ("GET", "/workers?limit=1", None, "query.limit"),
        ("GET", "/workers/", None, "path.name"),
        ("GET", f"/workers/{'x' * 201}", None, "path.name"),
        ("POST", "/workers/w1/pause", {"for": "soon"}, "body.for"),
        ("POST", "/workers/w1/pause", {"until": 1}, "body.until"),
        ("POST", "/workers/w1/pause", {"who": "me"}, "body"),
    ],
)
async def test_what_makes_no_sense_is_refused_by_the_name_of_the_field(
    client: httpx.AsyncClient, q: Kue, method: str, path: str, body: Any, field: str
) -> None:
    await at_work(q)

    answer = await client.request(method, path, json=body)

    assert (answer.status_code, answer.json().get("field")) == (400, field)
    assert await q.paused() == []


@pytest.mark.parametrize(("method", "path", "body"), [LOOKS[1], *CHANGES])
async def test_a_worker_that_there_is_not_is_404(
    client: httpx.AsyncClient, q: Kue, method: str, path: str, body: Any
) -> None:
    answer = await client.request(method, path, json=body)

    assert answer.status_code == 404
    assert answer.json()["detail"] == "no worker is named 'w1'"
    assert await q.paused() == []


async def test_who_may_only_look_quiets_nobody(http: Http, q: Kue) -> None:
    await at_work(q)
    async with http.client("viewer") as client:
        for method, path, body in CHANGES:
            answer = await client.request(method, path, json=body)
            assert answer.status_code == 403
        for _, path, _ in LOOKS:
            assert (await client.get(path)).status_code == 200
    assert await q.paused() == []
    assert (await q.count(State.ACTIVE)) == 1


# -- orders --------------------------------------------------------------------


@pytest.mark.parametrize("order", ["stop", "stacks"])
async def test_an_order_is_accepted_and_told_with_the_next_beat(
    client: httpx.AsyncClient, q: Kue, order: str
) -> None:
    await q.store.renew(RenewRequest("a/b"))

    answer = await client.post(f"/workers/a%2Fb/{order}")

    assert answer.status_code == 202
    assert answer.json() == {"name": "a/b", "order": order}
    assert (await q.store.renew(RenewRequest("a/b", orders=True))).orders == (order,)


@pytest.mark.parametrize("order", ["stop", "stacks"])
async def test_an_order_to_who_does_not_live_is_404(
    client: httpx.AsyncClient, q: Kue, order: str
) -> None:
    await q.store.renew(RenewRequest("w1"))
    await q.store.leave("w1")

    answer = await client.post(f"/workers/w1/{order}")

    assert answer.status_code == 404
    assert answer.json()["detail"] == "worker 'w1' is gone"


async def test_stacks_are_404_until_there_are_some(
    client: httpx.AsyncClient, q: Kue
) -> None:
    await q.store.renew(RenewRequest("a/b"))
    path = "/workers/a%2Fb/stacks"
    before = await client.get(path)
    await q.store.write_stacks("a/b", "task 'x':")

    after = await client.get(path)

    assert before.status_code == 404
    assert (after.status_code, after.json()["text"]) == (200, "task 'x':")
    assert abs(after.json()["at"] - await q.now()) < HOUR
