"""Flows and batches, over HTTP."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

import kue
from kue import Kue, State
from kue.model.job import Completed, Failed
from tests.support.jobs import OOPS, claim_one, end
from tests.support.patience import PATIENCE_SECONDS, eventually


@pytest.fixture
def tasks(q: Kue) -> dict[str, Any]:
    @q.task(attempts=1)
    async def add(x: int, y: int) -> int:
        return x + y

    @q.task(attempts=1)
    async def total(numbers: list[int]) -> int:
        return sum(numbers)

    @q.task(attempts=1)
    async def fail(x: int = 0) -> int:
        raise ValueError("broken")

    return {"add": add, "total": total, "fail": fail}


def step(name: str, type: str, **more: Any) -> dict[str, Any]:
    data = more.pop("data", None)
    return {"name": name, "job": {"type": type, "data": data}, **more}


# -- adding ------------------------------------------------------------------


async def test_a_flow_is_added_by_name_in_any_order(
    client: httpx.AsyncClient, q: Kue, tasks: dict[str, Any]
) -> None:
    steps = [
        step("sum", "total", inputs={"numbers": ["one", "two"]}),
        step("one", "add", data={"x": 1, "y": 1}),
        step("two", "add", data={"y": 5}, inputs={"x": "one"}),
    ]

    answer = await client.post("/flows", json={"steps": steps})

    assert answer.status_code == 201
    jobs = answer.json()["jobs"]
    assert answer.json()["id"] == jobs["one"]["id"]
    async with q.work():
        last = await q.get(jobs["sum"]["id"])
        assert await last.result(timeout=PATIENCE_SECONDS) == 9


@pytest.mark.parametrize("url", ["memory://"])
@pytest.mark.parametrize(
    ("steps", "problem"),
    [
        (
            [step("a", "add", after=["b"])],
            "a waits for b, which",
        ),
        (
            [step("a", "add", after=["b"]), step("b", "add", after=["a"])],
            "the jobs of the flow wait for each other: ",
        ),
        ([step("a", "add"), step("a", "add")], "two steps are named 'a'"),
        (
            [step("a", "add"), step("b", "add", data=7, inputs={"x": "a"})],
            "inputs need data that is an object",
        ),
        (
            [
                {"name": "a", "job": {"type": "add", "remove_on_complete": True}},
                step("b", "add", inputs={"x": "a"}),
            ],
            "a has remove_on_complete, and so leaves no result for b",
        ),
    ],
)
async def test_a_flow_that_makes_no_sense_is_refused(
    client: httpx.AsyncClient, q: Kue, steps: list[Any], problem: str
) -> None:
    answer = await client.post("/flows", json={"steps": steps})

    assert answer.status_code == 400
    assert problem in answer.text
    assert sum((await q.counts()).values()) == 0


# -- the graph ---------------------------------------------------------------


async def test_a_graph_has_the_jobs_and_which_waits_for_which(
    client: httpx.AsyncClient, tasks: dict[str, Any]
) -> None:
    add, total = tasks["add"], tasks["total"]
    flow = await (kue.group(add.s(1, 1), add.s(2, 2)) | total.s()).enqueue()
    first, second, last = (job.id for job in flow.jobs)

    graph = (await client.get(f"/flows/{last}")).json()

    assert (graph["id"], graph["total"], graph["is_batch"]) == (first, 3, False)
    assert graph["edges"] == [[first, last], [second, last]]
    assert [(node["id"], node["type"], node["state"]) for node in graph["nodes"]] == [
        (first, "add", "waiting"),
        (second, "add", "waiting"),
        (last, "total", "blocked"),
    ]


async def test_many_jobs_that_are_alike_are_one_node(
    client: httpx.AsyncClient, tasks: dict[str, Any]
) -> None:
    flow = kue.group(tasks["add"].s(n, n) for n in range(30)) | tasks["total"].s()
    handle = await flow.enqueue()

    graph = (await client.get(f"/flows/{handle.flow}")).json()

    counts = [(node["type"], node["count"]) for node in graph["nodes"]]
    assert counts == [("add", 30), ("total", 1)]
    assert len(graph["edges"]) == 1


async def test_many_chains_that_are_alike_are_one_chain(
    client: httpx.AsyncClient, q: Kue, tasks: dict[str, Any]
) -> None:
    add, fail, total = tasks["add"], tasks["fail"], tasks["total"]
    chains = kue.group(add.s(1, n) | fail.s() for n in range(30))
    flow = await (chains | total.s()).enqueue()
    for _ in range(2):
        job = await claim_one(q.store, "add", now=await q.now())
        await end(q.store, job, Completed(1), now=await q.now())
    job = await claim_one(q.store, "fail", now=await q.now())
    await end(q.store, job, Failed(OOPS), now=await q.now())

    graph = (await client.get(f"/flows/{flow.id}")).json()

    nodes = [(n["type"], n["state"], n["count"]) for n in graph["nodes"]]
    # The chains that have begun differ, and few are shown one by one.
    assert nodes == [
        ("add", "complete", 1),
        ("fail", "failed", 1),
        ("add", "complete", 1),
        ("fail", "waiting", 1),
        ("add", "waiting", 28),
        ("fail", "blocked", 28),
        ("total", "blocked", 1),
    ]
    ids = [n["id"] for n in graph["nodes"]]
    edges = [(ids.index(source), ids.index(to)) for source, to in graph["edges"]]
    assert edges == [(0, 1), (1, 6), (2, 3), (3, 6), (4, 5), (5, 6)]


async def test_a_long_chain_of_one_task_is_not_folded(
    client: httpx.AsyncClient, tasks: dict[str, Any]
) -> None:
    flow = await kue.chain(tasks["fail"].si(n) for n in range(20)).enqueue()

    graph = (await client.get(f"/flows/{flow.id}")).json()

    assert [node["count"] for node in graph["nodes"]] == [1] * 20
    assert len(graph["edges"]) == 19


async def test_the_graph_of_a_batch_ends_with_the_batch_and_its_callbacks(
    client: httpx.AsyncClient, tasks: dict[str, Any]
) -> None:
    batch = kue.batch("import").then(tasks["add"].s(1)).finally_(tasks["add"].s(2))
    handle = await batch.enqueue(tasks["add"].s(n, n) for n in range(20))

    graph = (await client.get(f"/flows/{handle.id}")).json()

    nodes = {node["id"]: node for node in graph["nodes"]}
    assert graph["is_batch"]
    assert graph["name"] == "import"
    assert sorted((node["type"], node["count"]) for node in graph["nodes"]) == [
        ("add", 1),
        ("add", 1),
        ("add", 20),
        ("kue.batch", 1),
        ("kue.first-failure", 1),
    ]
    [members] = [one for one in nodes.values() if one["count"] == 20]
    assert [members["id"], handle.id] in graph["edges"]


async def test_a_job_without_a_flow_is_a_graph_of_one(
    client: httpx.AsyncClient, q: Kue
) -> None:
    job = await q.enqueue("email")

    graph = (await client.get(f"/flows/{job.id}")).json()

    assert [node["id"] for node in graph["nodes"]] == [job.id]
    assert (await client.get("/flows/4711")).status_code == 404


# -- cancelling and retrying -------------------------------------------------


async def test_a_flow_is_cancelled_from_a_job_on(
    client: httpx.AsyncClient, tasks: dict[str, Any]
) -> None:
    add = tasks["add"]
    branches = kue.group(add.s(1) | add.s(1), add.s(2))
    flow = await (add.s(1, 1) | branches).enqueue()
    root, *rest = flow.jobs

    answer = await client.post(
        f"/flows/{flow.flow}/cancel", json={"job": rest[0].id, "reason": "enough"}
    )

    assert answer.json() == {"cancelled": 2}
    states = [(await job.refresh()).state for job in flow.jobs]
    assert states == [State.WAITING, State.CANCELLED, State.CANCELLED, State.BLOCKED]
    assert (await client.post(f"/flows/{root.id}/cancel")).json() == {"cancelled": 2}


@pytest.mark.parametrize("action", ["cancel", "retry"])
async def test_a_job_of_another_flow_is_left_alone(
    client: httpx.AsyncClient, q: Kue, tasks: dict[str, Any], action: str
) -> None:
    flow, other = [
        await (tasks["add"].s(1, 1) | tasks["add"].s(2)).enqueue() for _ in range(2)
    ]
    wrong, end = other.jobs[0].id, other.jobs[1].id

    refused = await client.post(f"/flows/{flow.id}/{action}", json={"job": wrong})

    assert refused.status_code == 400
    assert (
        f"job {wrong} is of flow {wrong}, not of flow {flow.jobs[0].id}" in refused.text
    )
    assert (await other.jobs[0].refresh()).state is State.WAITING
    assert (await q.cancel_flow(end, job=end)) == 1


async def test_a_callback_of_a_batch_counts_as_one_of_its_jobs(
    client: httpx.AsyncClient, q: Kue, tasks: dict[str, Any]
) -> None:
    batch = kue.batch().then(tasks["add"].si(1, 1))
    handle = await batch.enqueue([tasks["add"].s(1, 1)])
    graph = (await client.get(f"/flows/{handle.id}")).json()
    [callback] = [
        n
        for n in graph["nodes"]
        if n["type"] == "add"
        and n["id"] > handle.id
        and [handle.id, n["id"]] in graph["edges"]
    ]

    done = await client.post(f"/flows/{handle.id}/cancel", json={"job": callback["id"]})

    assert done.json() == {"cancelled": 1}


async def test_a_failed_job_is_retried_with_what_was_cancelled_after_it(
    client: httpx.AsyncClient, q: Kue
) -> None:
    broken = True

    @q.task(attempts=1)
    async def fetch() -> int:
        if broken:
            raise OSError("down")
        return 4

    @q.task(attempts=1)
    async def double(number: int) -> int:
        return 2 * number

    flow = await (fetch.s() | double.s() | double.s()).enqueue(
        on_parent_failure="cancel"
    )
    async with q.work():
        with pytest.raises(kue.JobCancelled):
            await flow.jobs[-1].result(timeout=PATIENCE_SECONDS)
        broken = False

        answer = (await client.post(f"/flows/{flow.flow}/retry")).json()

        assert answer["retried"] == [flow.flow]
        assert answer["restored"] == [job.id for job in flow.jobs[1:]]
        assert await flow.result(timeout=PATIENCE_SECONDS) == 16


async def test_only_a_failed_job_is_retried_from_there(
    client: httpx.AsyncClient, tasks: dict[str, Any]
) -> None:
    flow = await (tasks["add"].s(1, 1) | tasks["add"].s(1)).enqueue()

    answer = await client.post(f"/flows/{flow.flow}/retry", json={"job": flow.id})

    assert answer.status_code == 409
    assert "is blocked and cannot be retried" in answer.text


# -- batches -----------------------------------------------------------------


async def test_batches_are_listed_with_their_progress(
    client: httpx.AsyncClient, q: Kue, tasks: dict[str, Any]
) -> None:
    first = await kue.batch("first").enqueue([tasks["add"].s(1, 1)])
    second = await kue.batch("second").enqueue([tasks["fail"].s()])
    async with q.work():
        with pytest.raises(kue.JobFailed):
            await second.result(timeout=PATIENCE_SECONDS)
        await first.result(timeout=PATIENCE_SECONDS)

    page = (await client.get("/batches", params={"limit": 10})).json()

    shown = [(one["name"], one["state"], one["failed"]) for one in page["batches"]]
    assert shown == [("second", "failed", 1), ("first", "complete", 0)]
    assert (await client.get(f"/batches/{first.id}")).json() == page["batches"][1]


@pytest.mark.parametrize("data", [{"name": 5}, {"allow_failures": "no"}, [], None])
async def test_a_job_that_only_has_the_type_of_a_batch_is_left_out(
    client: httpx.AsyncClient, q: Kue, tasks: dict[str, Any], data: Any
) -> None:
    batch = await kue.batch("first").enqueue([tasks["add"].s(1, 1)])
    other = await q.enqueue("kue.batch", data)

    page = await client.get("/batches")
    shown = await client.get(f"/batches/{other.id}")

    assert [one["id"] for one in page.json()["batches"]] == [batch.id]
    assert (shown.status_code, shown.json()["title"]) == (404, "Not Found")
    assert "is not a batch" in shown.json()["detail"]


async def test_a_batch_is_cancelled_and_retried(
    client: httpx.AsyncClient, tasks: dict[str, Any]
) -> None:
    batch = await kue.batch().enqueue(tasks["add"].s(n, n) for n in range(3))

    cancelled = await client.post(f"/batches/{batch.id}/cancel", json={"reason": "no"})

    assert cancelled.status_code == 204
    assert (await batch.progress()).cancelled == 3
    assert (await client.post(f"/batches/{batch.id}/retry")).json() == {"retried": 3}
    assert (await batch.progress()).cancelled == 0


async def test_a_batch_that_is_cancelled_as_a_flow_ends_with_its_callbacks(
    client: httpx.AsyncClient, q: Kue
) -> None:
    called: list[str] = []
    started, go = asyncio.Event(), asyncio.Event()

    @q.task(attempts=1)
    async def load(row: int) -> None:
        started.set()
        if not go.is_set():
            await asyncio.sleep(PATIENCE_SECONDS)

    @q.task
    async def note(batch_id: int, what: str) -> None:
        called.append(what)

    async def has(*what: str) -> bool:
        return called == [*what]

    batch = kue.batch().then(note.s("then")).finally_(note.s("finally"))
    late = load.options(delay="1h")
    handle = await batch.enqueue([load.s(1), late.s(2), late.s(3)])
    async with q.work():
        await started.wait()

        answer = await client.post(f"/flows/{handle.id}/cancel", json={"reason": "no"})

        assert answer.json() == {"cancelled": 3}
        with pytest.raises(kue.JobCancelled, match="the batch was cancelled"):
            await handle.result(timeout=PATIENCE_SECONDS)
        await eventually(lambda: has("finally"))
        go.set()
        await client.post(f"/flows/{handle.id}/retry")
        await eventually(lambda: has("finally", "then"))


async def test_retrying_a_failed_batch_retries_its_jobs(
    client: httpx.AsyncClient, q: Kue, tasks: dict[str, Any]
) -> None:
    batch = await kue.batch().enqueue([tasks["fail"].s()])
    async with q.work():
        with pytest.raises(kue.JobFailed):
            await batch.result(timeout=PATIENCE_SECONDS)

    answer = await client.post(f"/flows/{batch.id}/retry", json={"job": batch.id})

    assert len(answer.json()["retried"]) == 1
    assert (await batch.progress()).failed == 0


async def test_another_job_is_not_a_batch(client: httpx.AsyncClient, q: Kue) -> None:
    job = await q.enqueue("email")

    for method, path in (("GET", ""), ("POST", "/cancel"), ("POST", "/retry")):
        answer = await client.request(method, f"/batches/{job.id}{path}")
        assert answer.status_code == 404
        assert "is not a batch" in answer.text
