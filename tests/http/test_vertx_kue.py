"""The REST API of Vert.x Kue, by the eyes of a program made for it."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from kue import Kue, State
from kue.client.handle import job_of
from kue.model.errors import StoreFull
from kue.model.job import Completed, Ending, Error, Failed, Job
from tests.http.old_apis import EMAIL, VERTX, ask, finish, ids, start, told
from tests.support.jobs import OOPS, claim

#: What comes before the store is the same on all.
on_any_store = pytest.mark.parametrize("url", ["memory://"])

#: Those of them that name a job.
OF_A_JOB = [
    ("PUT", "/job/{}/state/INACTIVE"),
    ("PUT", "/job/{}/priority/HIGH"),
    ("GET", "/job/{}"),
    ("GET", "/job/{}/log"),
    ("DELETE", "/job/{}"),
    ("POST", "/inactive/{}"),
]


@pytest.fixture
async def vertx(q: Kue) -> AsyncIterator[httpx.AsyncClient]:
    """A client of someone who may do everything."""
    async with VERTX.client(q) as client:
        yield client


async def refused(client: httpx.AsyncClient, method: str, path: str) -> str:
    """Return what is wrong with a request that is 400."""
    answer = await ask(client, method, path)
    assert answer.status_code == 400
    [(name, text)] = answer.json().items()
    assert name == "error"
    return str(text)


async def get(q: Kue, job_id: int) -> Job:
    return job_of(await q.get(job_id))


# -- looking -------------------------------------------------------------------


async def test_every_body_is_printed_to_be_read(
    q: Kue, vertx: httpx.AsyncClient
) -> None:
    await q.enqueue("email")

    for path in ("/stats", "/job/types", "/jobs/0/to/9", "/jobs/0/to/x"):
        answer = await vertx.get(path)
        assert answer.headers["content-type"] == "application/json"
        assert answer.text == json.dumps(answer.json(), indent=2)


async def test_a_search_answers_ids_as_text(q: Kue, vertx: httpx.AsyncClient) -> None:
    """D-47: its dashboard had a search box, its API no search."""
    found = await q.enqueue("email", {"url": "https://a.b/c"})
    await q.enqueue("email", {"url": "https://a.b"})

    assert await told(vertx, "GET", "/job/search/a.b%2Fc") == [str(found.id)]


async def test_stats_count_jobs_by_state(q: Kue, vertx: httpx.AsyncClient) -> None:
    await finish(q, Completed())
    await start(q)
    await q.enqueue("report")

    assert await told(vertx, "GET", "/stats") == {
        "workTime": 1000,
        "inactiveCount": 1,
        "completeCount": 1,
        "activeCount": 1,
        "failedCount": 0,
        "delayedCount": 0,
    }


async def test_stats_read_no_jobs(
    q: Kue, vertx: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D-46: all ids of all states were loaded to be counted."""
    await q.enqueue("email")

    async def refuse(*arguments: Any, **options: Any) -> None:
        raise AssertionError("a job was read")

    for verb in ("get", "page", "find"):
        monkeypatch.setattr(q.store, verb, refuse)

    assert (await told(vertx, "GET", "/stats"))["inactiveCount"] == 1


@pytest.mark.parametrize("where", ["/jobs", "/jobs/INACTIVE", "/jobs/email/inactive"])
async def test_a_range_goes_up_or_down(
    q: Kue, vertx: httpx.AsyncClient, where: str
) -> None:
    """D-42: whatever order was asked for, it went up."""
    made = [(await q.enqueue("email")).id for _ in range(4)]

    assert await ids(vertx, f"{where}/0/to/2") == made[:3]
    assert await ids(vertx, f"{where}/0/to/2/asc") == made[:3]
    assert await ids(vertx, f"{where}/0/to/2/desc") == made[:0:-1]
    assert await ids(vertx, f"{where}/2/to/9/DESC") == made[1::-1]
    assert await refused(vertx, "GET", f"{where}/0/to/2/sideways") == (
        "order must be asc or desc, not 'sideways'"
    )


async def test_a_range_is_of_its_type_and_state_alone(
    q: Kue, vertx: httpx.AsyncClient
) -> None:
    email, report = await q.enqueue("email"), await q.enqueue("report")
    later = await q.enqueue("email", delay="1h")

    assert await ids(vertx, "/jobs/INACTIVE/0/to/9") == [email.id, report.id]
    assert await ids(vertx, "/jobs/email/INACTIVE/0/to/9") == [email.id]
    assert await ids(vertx, "/jobs/email/DELAYED/0/to/9/desc") == [later.id]


async def test_a_range_down_begins_with_the_last_of_all(
    q: Kue, vertx: httpx.AsyncClient
) -> None:
    """Inactive are those that wait, and then those that are blocked."""
    parent = await q.enqueue("other", delay="1h")
    blocked = [(await q.enqueue("email", after=[parent.id])).id for _ in range(2)]
    waiting = [(await q.enqueue("email")).id for _ in range(2)]

    assert await ids(vertx, "/jobs/INACTIVE/0/to/3/asc") == waiting + blocked
    assert await ids(vertx, "/jobs/INACTIVE/1/to/2/desc") == [blocked[0], waiting[1]]


@pytest.mark.parametrize("span", ["a/to/9", "0/to/b", "-1/to/9", "0/to/-1", "3/to/2"])
async def test_a_range_that_is_none_is_400(vertx: httpx.AsyncClient, span: str) -> None:
    error = await refused(vertx, "GET", f"/jobs/{span}")

    assert error == "a range counts from 0 and goes forward, such as 0/to/9"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/jobs/BOGUS/0/to/9/asc"),
        ("GET", "/jobs/email/BOGUS/0/to/9/asc"),
        ("GET", "/jobs/email/BOGUS/stats"),
        ("PUT", "/job/1/state/BOGUS"),
    ],
)
async def test_a_state_that_there_is_not_is_400(
    vertx: httpx.AsyncClient, method: str, path: str
) -> None:
    assert await refused(vertx, method, path) == (
        "state 'BOGUS' is unknown; there are "
        "INACTIVE, COMPLETE, ACTIVE, FAILED, DELAYED"
    )


async def test_a_job_is_shown_in_one_form(q: Kue, vertx: httpx.AsyncClient) -> None:
    """D-47: its dashboard read fields that its API did not have."""
    options: dict[str, Any] = {"ttl": 5, "priority": "high", "backoff": 1}
    options |= {"attempts": 2, "data": {"to": "ann"}}
    done = await finish(q, Completed({"sent": True}), **options)
    job = await get(q, done)

    shown = await told(vertx, "GET", f"/job/{done}")

    assert shown == {
        "address_id": job.address_id,
        "attempts": 1,
        "backoff": {"type": "fixed", "delay": 1000},
        "created_at": job.created_at,
        "data": {"to": "ann"},
        "delay": 0,
        "duration": 1000,
        "failed_at": 0,
        "id": done,
        "max_attempts": 2,
        "priority": "HIGH",
        "progress": 100,
        "promote_at": job.created_at,
        "removeOnComplete": False,
        "result": {"sent": True},
        "started_at": job.started_at,
        "state": "COMPLETE",
        "ttl": 5000,
        "type": "email",
        "updated_at": job.updated_at,
        "zid": f"{len(str(done)):02}|{done}",
    }
    assert await told(vertx, "GET", "/jobs/COMPLETE/0/to/0") == [shown]


async def test_what_a_job_does_not_have_is_left_out(
    q: Kue, vertx: httpx.AsyncClient
) -> None:
    job = await q.enqueue("email")

    shown = await told(vertx, "GET", f"/job/{job.id}")

    assert not {"backoff", "error", "result"} & set(shown)
    assert shown["data"] == {}
    assert shown["started_at"] == shown["duration"] == 0


async def test_a_failed_job_tells_its_error(q: Kue, vertx: httpx.AsyncClient) -> None:
    """D-47: errors were never shown."""
    failed = await finish(q, Failed(Error("ValueError", "oops", stack="secrets")))
    cancelled = await q.enqueue("email")
    await cancelled.cancel("not wanted")

    shown = await told(vertx, "GET", "/jobs/FAILED/0/to/9")

    assert [(job["id"], job["state"], job["error"]) for job in shown] == [
        (failed, "FAILED", "oops"),
        (cancelled.id, "FAILED", "cancelled: not wanted"),
    ]


@pytest.mark.parametrize(
    ("priority", "name"),
    [(-1024, "CRITICAL"), (-11, "HIGH"), (-5, "MEDIUM"), (1, "NORMAL"), (99, "LOW")],
)
async def test_a_priority_is_told_by_the_nearest_name(
    q: Kue, vertx: httpx.AsyncClient, priority: int, name: str
) -> None:
    job = await q.enqueue("email", priority=priority)

    assert (await told(vertx, "GET", f"/job/{job.id}"))["priority"] == name


@pytest.mark.parametrize(("method", "path"), OF_A_JOB)
async def test_an_id_that_is_no_number_is_400(
    vertx: httpx.AsyncClient, method: str, path: str
) -> None:
    for text in ("bogus", "-1", "1e3", "9" * 30):
        error = await refused(vertx, method, path.format(text))
        assert error == f"a job's id is a number, not {text!r}"


async def test_a_job_that_is_gone_is_404(vertx: httpx.AsyncClient) -> None:
    answer = await vertx.get("/job/99")
    assert (answer.status_code, answer.content) == (404, b"")

    for method, path in (
        ("PUT", "/job/99/state/INACTIVE"),
        ("PUT", "/job/99/priority/HIGH"),
        ("POST", "/inactive/99"),
    ):
        answer = await ask(vertx, method, path)
        assert answer.status_code == 404
        assert answer.json() == {"message": "job_not_found"}


# -- adding --------------------------------------------------------------------


async def test_a_job_is_added_with_what_it_asks_for(
    q: Kue, vertx: httpx.AsyncClient
) -> None:
    address = str(uuid.uuid4())
    body = {
        **EMAIL,
        "address_id": address,
        "backoff": {"type": "exponential", "delay": 1000},
        "delay": 60_000,
        "max_attempts": 5,
        "priority": "HIGH",
        "removeOnComplete": True,
        "ttl": "5000",
    }

    answer = await vertx.put("/job", json=body)

    assert answer.status_code == 201
    made = answer.json()["id"]
    assert answer.json() == {"message": "job created", "id": made}
    shown = await told(vertx, "GET", f"/job/{made}")
    assert {name: shown[name] for name in body} == {**body, "ttl": 5000}
    assert shown["state"] == "DELAYED"


async def test_a_job_cannot_say_what_became_of_it(
    q: Kue, vertx: httpx.AsyncClient
) -> None:
    """D-44: an id in the body overwrote another job."""
    victim = await q.enqueue("email", {"to": "ann"})
    forged = {
        "type": "email",
        "data": {"to": "eve"},
        "id": victim.id,
        "zid": "01|1",
        "state": "COMPLETE",
        "attempts": 7,
        "result": {"sent": True},
        "progress": 100,
        "created_at": 1,
    }

    answer = await vertx.put("/job", json=forged)

    assert answer.status_code == 201
    made = await get(q, answer.json()["id"])
    assert made.id != victim.id
    assert (made.state, made.attempts, made.result) == (State.WAITING, 0, None)
    assert (made.progress, made.history) == (0, ())
    assert made.created_at > 1
    assert (await get(q, victim.id)).data == {"to": "ann"}


async def test_a_job_without_data_is_fine(q: Kue, vertx: httpx.AsyncClient) -> None:
    """D-44: it was a fault of the server."""
    for body in ({"type": "email"}, {"type": "email", "data": None, "delay": 0}):
        answer = await vertx.put("/job", json=body)
        assert answer.status_code == 201
        assert (await get(q, answer.json()["id"])).data == {}


@on_any_store
@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("", "a job is an object"),
        ("{", "the body is not JSON: "),
        ("[]", "a job is an object"),
        ("{}", "Job type cannot be null"),
        ('{"type": 7}', "type must be text, not 7"),
        ('{"type": "email", "data": [1]}', "data must be an object"),
        ('{"type": "email", "max_attempts": "x"}', "max_attempts must be a whole"),
        ('{"type": "email", "priority": "URGENT"}', "priority 'URGENT' is unknown"),
        ('{"type": "email", "delay": -5}', "delay must be a whole number, not -5"),
        ('{"type": "email", "backoff": "x"}', "backoff must be true or an object"),
        ('{"type": "email", "address_id": "null"}', "address_id must be a UUID"),
    ],
)
async def test_what_is_no_job_is_400(
    q: Kue, vertx: httpx.AsyncClient, body: str, error: str
) -> None:
    answer = await vertx.put("/job", content=body)

    assert answer.status_code == 400
    assert answer.json()["error"].startswith(error)
    assert await q.counts() == dict.fromkeys(State, 0)


# -- changing ------------------------------------------------------------------


@pytest.mark.parametrize("ending", [Completed(), Failed(OOPS)])
async def test_an_ended_job_is_put_back_in_line_once(
    q: Kue, vertx: httpx.AsyncClient, ending: Ending
) -> None:
    """D-45: it was written twice, so that two workers were woken for one job."""
    done = await finish(q, ending)

    for _ in range(2):
        answer = await told(vertx, "PUT", f"/job/{done}/state/INACTIVE")
        assert answer == {"message": "job_state_updated"}

    assert [line.outcome for line in (await get(q, done)).history][1:] == ["restarted"]
    taken = await claim(q.store, limit=2, now=await q.now())
    assert [job.id for job in taken] == [done]


async def test_an_ended_job_is_restarted(q: Kue, vertx: httpx.AsyncClient) -> None:
    done = await finish(q, Failed(OOPS))

    answer = await told(vertx, "POST", f"/inactive/{done}")

    assert answer == {"message": f"job {done} restart"}
    assert (await get(q, done)).state is State.WAITING


@pytest.mark.parametrize("text", ["CRITICAL", "critical", "-15"])
async def test_a_priority_is_changed(
    q: Kue, vertx: httpx.AsyncClient, text: str
) -> None:
    """D-47: its dashboard asked for a route that its API did not have."""
    job = await q.enqueue("email")

    answer = await told(vertx, "PUT", f"/job/{job.id}/priority/{text}")

    assert answer == {"message": "job_priority_updated"}
    assert (await get(q, job.id)).priority == -15


async def test_a_priority_that_is_none_is_400(q: Kue, vertx: httpx.AsyncClient) -> None:
    job = await q.enqueue("email")

    for text in ("URGENT", "2000"):
        error = await refused(vertx, "PUT", f"/job/{job.id}/priority/{text}")
        assert error.startswith("priority ")
    assert (await get(q, job.id)).priority == 0


async def test_a_job_is_removed_whether_it_runs_or_is_gone(
    q: Kue, vertx: httpx.AsyncClient
) -> None:
    """D-43: the answer was a 204 that had a body."""
    job = await start(q)

    for _ in range(2):
        answer = await told(vertx, "DELETE", f"/job/{job.id}")
        assert answer == {"message": f"job {job.id} removed"}

    assert not await q.exists(job.id)


# -- who may, and when nothing works -------------------------------------------


async def test_a_store_that_is_full_is_503(
    q: Kue, vertx: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*arguments: Any, **options: Any) -> None:
        raise StoreFull("there is no memory left")

    monkeypatch.setattr(q.store, "add", refuse)

    answer = await vertx.put("/job", json=EMAIL)

    assert answer.status_code == 503
    assert answer.json() == {"error": "the store is full"}
