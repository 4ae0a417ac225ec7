"""Actions on many jobs, in the background."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from kue import Kue, State
from kue.http.v1 import bulk_actions
from kue.model.fingerprint import fingerprint
from kue.model.job import Error, Failed
from kue.model.settings import load
from kue.store import store_for
from tests.http.conftest import Http
from tests.support.flaky import Wire
from tests.support.jobs import (
    add_many,
    add_one,
    claim,
    count_of,
    end,
    get_one,
    job_in,
    start_one,
    state_of,
)
from tests.support.patience import PATIENCE_SECONDS

#: What moves after an action began is left alone: these jobs moved before.
PAST = 1_700_000_000_000
#: 2100-01-01
FUTURE = 4_102_444_800_000
#: For what is decided before any store is asked.
on_any_store = pytest.mark.parametrize("url", ["memory://"])


async def begin(client: httpx.AsyncClient, action: str, **which: Any) -> str:
    answer = await client.post("/jobs/bulk", json={"action": action, **which})
    assert answer.status_code == 202, answer.text
    bulk_id: str = answer.json()["id"]
    return bulk_id


async def status_of(client: httpx.AsyncClient, bulk_id: str) -> dict[str, Any]:
    answer = await client.get(f"/jobs/bulk/{bulk_id}")
    assert answer.status_code == 200, answer.text
    status: dict[str, Any] = answer.json()
    return status


async def ended(client: httpx.AsyncClient, bulk_id: str) -> dict[str, Any]:
    """Return the status of an action once it is over."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            status = await status_of(client, bulk_id)
            if status["state"] != "running":
                return status
            # Nothing tells a client that it is over but the next answer.
            await asyncio.sleep(0.01)


async def do(client: httpx.AsyncClient, action: str, **which: Any) -> dict[str, Any]:
    return await ended(client, await begin(client, action, **which))


async def fail(q: Kue, count: int, type: str = "email", error: str = "no") -> None:
    """Let jobs fail."""
    await add_many(q.store, count, type, now=PAST)
    while jobs := await claim(q.store, type, limit=100, now=PAST):
        for job in jobs:
            await end(q.store, job, Failed(Error("OSError", error)), now=PAST)


@pytest.fixture
async def wire(url: str) -> AsyncIterator[Wire]:
    """A store whose calls can be held up."""
    store = store_for(load(environ={}, url=url))
    yield Wire(store)
    await store.close()


@pytest.fixture
async def held(wire: Wire) -> AsyncIterator[tuple[httpx.AsyncClient, asyncio.Event]]:
    """A client of a server that cancels nothing until the event is set."""
    gate = wire.hold("cancel")
    async with Kue(store=wire.store) as queue, Http(queue).client() as client:
        yield client, gate


@pytest.mark.parametrize(
    ("action", "state", "becomes"),
    [
        ("retry", State.FAILED, State.WAITING),
        ("retry", State.CANCELLED, State.WAITING),
        ("cancel", State.WAITING, State.CANCELLED),
        ("remove", State.COMPLETE, None),
        ("promote", State.DELAYED, State.WAITING),
        ("promote", State.BLOCKED, State.WAITING),
    ],
)
@pytest.mark.parametrize("is_named", [True, False], ids=["named", "filtered"])
async def test_many_jobs_are_acted_on(
    client: httpx.AsyncClient,
    q: Kue,
    action: str,
    state: State,
    becomes: State | None,
    is_named: bool,
) -> None:
    ids = [await job_in(q.store, state, now=PAST) for _ in range(3)]
    which = {"ids": ids} if is_named else {"filter": {"state": state, "type": "email"}}

    status = await do(client, action, **which)

    del status["id"]
    assert status == {
        "action": action,
        "state": "done",
        "looked_at": 3,
        "done": 3,
        "changed": 0,
        "held": 0,
        "error": None,
    }
    assert [await state_of(q.store, job_id) for job_id in ids] == [becomes] * 3


async def test_jobs_that_cannot_be_acted_on_are_counted(
    client: httpx.AsyncClient, q: Kue
) -> None:
    failed = await job_in(q.store, State.FAILED, unique="free")
    taken = await job_in(q.store, State.FAILED, unique="taken")
    await add_one(q.store, unique="taken")
    delayed = await job_in(q.store, State.DELAYED, "other")

    status = await do(client, "retry", ids=[failed, failed, taken, delayed, 999])

    assert (status["done"], status["changed"], status["held"]) == (1, 2, 1)
    assert status["looked_at"] == 4
    assert await state_of(q.store, delayed) is State.DELAYED


async def test_promoting_restarts_nothing_that_has_ended(
    client: httpx.AsyncClient, q: Kue
) -> None:
    job_id = await job_in(q.store, State.COMPLETE)

    status = await do(client, "promote", ids=[job_id])

    assert (status["done"], status["changed"]) == (0, 1)
    assert await state_of(q.store, job_id) is State.COMPLETE


async def test_a_running_job_is_not_removed_and_is_asked_to_end(
    client: httpx.AsyncClient, q: Kue
) -> None:
    job_id = await job_in(q.store, State.ACTIVE)

    removed = await do(client, "remove", ids=[job_id])
    cancelled = await do(client, "cancel", ids=[job_id])

    assert (removed["done"], removed["changed"]) == (0, 1)
    assert cancelled["done"] == 1
    assert (await get_one(q.store, job_id)).cancelling


async def test_all_that_match_are_acted_on_and_no_others(
    client: httpx.AsyncClient, q: Kue
) -> None:
    await fail(q, 1_200, error="timeout after 5 s")
    await fail(q, 2, error="refused")
    await fail(q, 3, "report", error="timeout after 5 s")
    wanted = {"state": "failed", "type": "email", "error": "Timeout"}

    status = await do(client, "retry", filter=wanted)

    assert (status["state"], status["done"]) == ("done", 1_200)
    assert await count_of(q.store) == {State.WAITING: 1_200, State.FAILED: 2}
    assert await count_of(q.store, "report") == {State.FAILED: 3}


@pytest.mark.parametrize(
    "wanted",
    [
        {"worker": "w7"},
        {"group": "ann"},
        {"priority": "high"},
        {"priority": -10},
        {"fingerprint": fingerprint(Error("OSError", "reset 5"))},
        {"data": {"user.id": 42, "user.is_new": False}},
    ],
)
async def test_jobs_are_acted_on_by_what_they_have(
    client: httpx.AsyncClient, q: Kue, wanted: dict[str, Any]
) -> None:
    await fail(q, 2)
    job = await start_one(
        q.store,
        data={"user": {"id": 42, "is_new": False}},
        group="ann",
        priority="high",
        worker="w7",
        now=PAST,
    )
    await end(q.store, job, Failed(Error("OSError", "reset 7")), now=PAST)

    status = await do(client, "retry", filter={"state": "failed", **wanted})

    assert (status["done"], status["looked_at"]) == (1, 1)
    assert await state_of(q.store, job.id) is State.WAITING


async def test_what_moved_after_an_action_began_is_left_alone(
    client: httpx.AsyncClient, q: Kue
) -> None:
    old = await job_in(q.store, State.FAILED, now=PAST)
    new = await job_in(q.store, State.FAILED, now=FUTURE)

    status = await do(client, "retry", filter={"state": "failed"})

    assert status["looked_at"] == 1
    assert await state_of(q.store, old) is State.WAITING
    assert await state_of(q.store, new) is State.FAILED


async def test_an_action_is_stopped_between_batches(
    held: tuple[httpx.AsyncClient, asyncio.Event], wire: Wire
) -> None:
    client, gate = held
    ids = await add_many(wire.store, 600, now=PAST)
    bulk_id = await begin(client, "cancel", ids=ids)
    await wire.until_called("cancel")
    before = await status_of(client, bulk_id)

    stopped = await client.post(f"/jobs/bulk/{bulk_id}/stop")
    gate.set()
    status = await ended(client, bulk_id)

    assert (before["state"], before["looked_at"]) == ("running", 0)
    assert (stopped.status_code, stopped.content) == (204, b"")
    assert (status["state"], status["done"]) == ("stopped", 500)
    assert await count_of(wire.store) == {State.CANCELLED: 500, State.WAITING: 100}


async def test_stopping_what_is_over_changes_nothing(
    client: httpx.AsyncClient, q: Kue
) -> None:
    bulk_id = await begin(client, "cancel", ids=[await add_one(q.store)])
    before = await ended(client, bulk_id)

    answer = await client.post(f"/jobs/bulk/{bulk_id}/stop")

    assert answer.status_code == 204
    assert await status_of(client, bulk_id) == before


@on_any_store
async def test_only_so_many_run_at_once(
    held: tuple[httpx.AsyncClient, asyncio.Event], wire: Wire
) -> None:
    client, gate = held
    running = [
        await begin(client, "cancel", ids=[1]) for _ in range(bulk_actions.MAX_RUNNING)
    ]

    refused = await client.post("/jobs/bulk", json={"action": "retry", "ids": [1]})
    gate.set()
    for bulk_id in running:
        await ended(client, bulk_id)
    await do(client, "retry", ids=[1])

    assert refused.status_code == 429
    assert refused.headers["retry-after"] == "1"


@on_any_store
async def test_the_oldest_of_those_that_are_over_is_forgotten(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_actions, "MAX_FINISHED", 3)

    first, *others = [(await do(client, "retry", ids=[1]))["id"] for _ in range(4)]

    assert (await client.get(f"/jobs/bulk/{first}")).status_code == 404
    for bulk_id in others:
        assert (await status_of(client, bulk_id))["state"] == "done"


@on_any_store
async def test_an_action_whose_store_goes_away_has_failed(
    held: tuple[httpx.AsyncClient, asyncio.Event], wire: Wire
) -> None:
    client, gate = held
    bulk_id = await begin(client, "cancel", ids=[1])
    await wire.until_called("cancel")

    wire.is_cut = True
    gate.set()
    status = await ended(client, bulk_id)

    assert (status["state"], status["error"]) == ("failed", "the wire is cut")


@on_any_store
async def test_an_action_ends_with_the_queue(wire: Wire) -> None:
    wire.hold("cancel")
    async with Kue(store=wire.store) as queue, Http(queue).client() as client:
        bulk_id = await begin(client, "cancel", ids=[1])
        await wire.until_called("cancel")

        await queue.close()

        assert (await status_of(client, bulk_id))["state"] == "stopped"


@on_any_store
@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"action": "retry"}, "body"),
        ({"action": "retry", "ids": []}, "body.ids"),
        ({"action": "retry", "ids": [1] * 1_001}, "body.ids"),
        ({"action": "retry", "ids": [0]}, "body.ids[0]"),
        ({"action": "retry", "ids": [1], "filter": {"state": "failed"}}, "body"),
        ({"action": "explode", "ids": [1]}, "body.action"),
        ({"action": "retry", "filter": {}}, "body.filter"),
        ({"action": "retry", "filter": {"state": "active"}}, "body.filter.state"),
        ({"action": "cancel", "filter": {"state": "failed"}}, "body.filter.state"),
        ({"action": "remove", "filter": {"state": "active"}}, "body.filter.state"),
        ({"action": "promote", "filter": {"state": "failed"}}, "body.filter.state"),
        ({"action": "retry", "filter": {"state": "lost"}}, "body.filter.state"),
        (
            {"action": "retry", "filter": {"state": "failed", "priority": "urgent"}},
            "body.filter.priority",
        ),
        (
            {"action": "retry", "filter": {"state": "failed", "data": {"a..b": 1}}},
            "body.filter.data",
        ),
    ],
)
async def test_what_does_not_fit_is_named(
    client: httpx.AsyncClient, body: Any, field: str
) -> None:
    answer = await client.post("/jobs/bulk", json=body)

    assert (answer.status_code, answer.json()["field"]) == (400, field)


@on_any_store
@pytest.mark.parametrize(("method", "path"), [("GET", ""), ("POST", "/stop")])
async def test_an_action_that_nobody_remembers_is_404(
    client: httpx.AsyncClient, method: str, path: str
) -> None:
    answer = await client.request(method, f"/jobs/bulk/0123456789abcdef{path}")

    assert answer.status_code == 404


@on_any_store
@pytest.mark.parametrize(
    ("role", "action"),
    [("viewer", "retry"), ("viewer", "remove"), ("operator", "remove")],
)
async def test_who_may_not_act_on_one_may_not_act_on_many(
    http: Http, role: str, action: str
) -> None:
    async with http.client(role) as client:
        body = {"action": action, "ids": [1]}
        answer = await client.post("/jobs/bulk", json=body)

    assert answer.status_code == 403


@on_any_store
async def test_who_may_look_stops_nothing(http: Http) -> None:
    async with http.client("viewer") as client:
        answer = await client.post("/jobs/bulk/0123456789abcdef/stop")

    assert answer.status_code == 403
