"""The REST API of Vert.x Kue, by the eyes of a program made for it."""

from __future__ import annotations

import json
import socket
import uuid
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any

import httpx
import pytest
from starlette.requests import HTTPConnection

from kue import Kue, State
from kue.client.handle import job_of
from kue.http.auth.access import Anyone, Guard, User
from kue.http.compat import jobs, vertx_kue
from kue.model.errors import StoreFull
from kue.model.job import Completed, Ending, Error, Failed, Job
from tests.http.conftest import HOST, ROLES
from tests.http.old_apis import BELOW, EMAIL, client_of, finish, start
from tests.support.jobs import OOPS, claim, claim_one, end

#: Every route: method, path, the role it takes.
TABLE = [
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
]
#: Those of them that name a job.
OF_A_JOB = [
    ("PUT", "/job/{}/state/INACTIVE"),
    ("PUT", "/job/{}/priority/HIGH"),
    ("GET", "/job/{}"),
    ("GET", "/job/{}/log"),
    ("DELETE", "/job/{}"),
    ("POST", "/inactive/{}"),
]


def client_for(q: Kue, guard: Guard) -> AbstractAsyncContextManager[httpx.AsyncClient]:
    return client_of("/vertx-kue", vertx_kue.routes(q, guard))


@pytest.fixture
async def vertx(q: Kue) -> AsyncIterator[httpx.AsyncClient]:
    """A client of someone who may do everything."""
    async with client_for(q, Anyone()) as client:
        yield client


async def ask(client: httpx.AsyncClient, method: str, path: str) -> httpx.Response:
    """Send a request; one to ``/job`` adds a job."""
    body = EMAIL if path == "/job" else None
    return await client.request(method, path, json=body)


async def told(client: httpx.AsyncClient, method: str, path: str) -> Any:
    """Return the answer to a request that is 200."""
    answer = await ask(client, method, path)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def refused(client: httpx.AsyncClient, method: str, path: str) -> str:
    """Return what is wrong with a request that is 400."""
    answer = await ask(client, method, path)
    assert answer.status_code == 400
    [(name, text)] = answer.json().items()
    assert name == "error"
    return str(text)


async def ids(client: httpx.AsyncClient, path: str) -> list[int]:
    return [job["id"] for job in await told(client, "GET", path)]


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


async def test_jobs_of_a_type_and_a_state_are_counted(
    q: Kue, vertx: httpx.AsyncClient
) -> None:
    await q.enqueue("email")
    await q.enqueue("a/report")

    for path in ("email/INACTIVE", "email/inactive", "a%2Freport/INACTIVE"):
        assert await told(vertx, "GET", f"/jobs/{path}/stats") == {"count": 1}
    assert await told(vertx, "GET", "/jobs/email/FAILED/stats") == {"count": 0}


async def test_types_are_listed(q: Kue, vertx: httpx.AsyncClient) -> None:
    await q.enqueue("report")
    await q.enqueue("email")

    assert await told(vertx, "GET", "/job/types") == ["email", "report"]


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


async def test_more_jobs_than_an_answer_may_have_are_400(
    q: Kue, vertx: httpx.AsyncClient
) -> None:
    await q.enqueue_many("email", [None] * (jobs.MAX_PAGE + 1))

    error = await refused(vertx, "GET", "/jobs/0/to/999")

    assert error == "one answer has at most 201 jobs; ask for fewer at a time"
    assert len(await ids(vertx, "/jobs/1/to/999")) == jobs.MAX_PAGE


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


async def test_the_token_of_a_run_never_leaves(
    q: Kue, vertx: httpx.AsyncClient
) -> None:
    job = await start(q)
    assert job.token

    for path in (f"/job/{job.id}", "/jobs/ACTIVE/0/to/0"):
        answer = await vertx.get(path)
        assert job.token not in answer.text
    assert answer.json()[0]["attempts"] == 0


async def test_a_log_is_a_list_of_texts(q: Kue, vertx: httpx.AsyncClient) -> None:
    job = await q.enqueue("email")
    await job.log("one")
    await job.log("two", "error")

    assert await told(vertx, "GET", f"/job/{job.id}/log") == ["one", "two"]
    assert await told(vertx, "GET", "/job/99/log") == []


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


async def test_a_body_that_is_too_large_is_413(vertx: httpx.AsyncClient) -> None:
    answer = await vertx.put("/job", json={"type": "a" * 1024 * 1024})

    assert answer.status_code == 413
    assert answer.json() == {"error": "a body has at most 1,048,576 bytes"}


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


async def test_a_job_is_delayed_and_promoted(q: Kue, vertx: httpx.AsyncClient) -> None:
    job = await q.enqueue("email", delay="1h")

    await told(vertx, "PUT", f"/job/{job.id}/state/inactive")
    assert (await get(q, job.id)).state is State.WAITING
    await told(vertx, "PUT", f"/job/{job.id}/state/DELAYED")

    assert (await get(q, job.id)).state is State.DELAYED


async def test_a_job_that_is_made_failed_is_cancelled(
    q: Kue, vertx: httpx.AsyncClient
) -> None:
    job = await q.enqueue("email")

    await told(vertx, "PUT", f"/job/{job.id}/state/FAILED")

    assert (await get(q, job.id)).state is State.CANCELLED


@pytest.mark.parametrize("word", ["ACTIVE", "COMPLETE"])
async def test_only_workers_start_and_complete_jobs(
    q: Kue, vertx: httpx.AsyncClient, word: str
) -> None:
    """D-45: any job could be put into any state."""
    job = await q.enqueue("email")

    answer = await vertx.put(f"/job/{job.id}/state/{word}")

    assert answer.status_code == 409
    assert answer.json()["error"].startswith(f"job {job.id} is waiting and cannot be")
    assert (await get(q, job.id)).state is State.WAITING


async def test_a_job_that_runs_cannot_be_moved(
    q: Kue, vertx: httpx.AsyncClient
) -> None:
    """D-45: a job that was put back while it ran was run twice."""
    job = await start(q)

    for method, path in (
        ("PUT", f"/job/{job.id}/state/INACTIVE"),
        ("PUT", f"/job/{job.id}/state/DELAYED"),
        ("POST", f"/inactive/{job.id}"),
    ):
        answer = await ask(vertx, method, path)
        assert answer.status_code == 409
    assert (await get(q, job.id)).state is State.ACTIVE


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


@pytest.mark.parametrize(
    ("method", "path", "role"), [row for row in TABLE if row[2] != "viewer"]
)
async def test_a_role_that_is_too_low_changes_nothing(
    q: Kue, method: str, path: str, role: str
) -> None:
    """D-48: restart and delete were open to the world."""
    done = await finish(q, Completed())
    guard = Anyone(ROLES[BELOW[role]])

    async with client_for(q, guard) as client:
        answer = await ask(client, method, path.replace("1", str(done)))

    assert answer.status_code == 403
    assert answer.json() == {"error": f"this needs the role {role}"}
    assert sum((await q.counts()).values()) == 1
    assert (await get(q, done)).state is State.COMPLETE


async def test_a_viewer_may_look_everywhere(q: Kue) -> None:
    job = await q.enqueue("email")

    async with client_for(q, Anyone(ROLES["viewer"])) as client:
        for method, path, role in TABLE:
            if role == "viewer":
                await told(client, method, path.replace("/1", f"/{job.id}"))


class Nobody:
    """A guard that knows nobody."""

    async def who(self, connection: HTTPConnection) -> User | None:
        return None


async def test_who_does_not_say_who_they_are_is_401(q: Kue) -> None:
    """D-48: restart and delete were open to the world."""
    async with client_for(q, Nobody()) as client:
        for method, path, _ in TABLE:
            answer = await ask(client, method, path)
            assert answer.status_code == 401
            assert answer.json()["error"].startswith("authentication is required")


@pytest.fixture
async def lost() -> AsyncIterator[httpx.AsyncClient]:
    """A client of a server whose store is away."""
    with socket.create_server((HOST, 0)) as listener:
        port = listener.getsockname()[1]
    async with (
        Kue(f"redis://{HOST}:{port}", budget="200ms") as queue,
        client_for(queue, Anyone()) as client,
    ):
        yield client


@pytest.mark.parametrize(("method", "path", "role"), TABLE)
async def test_a_store_that_is_away_is_503(
    lost: httpx.AsyncClient, method: str, path: str, role: str
) -> None:
    answer = await ask(lost, method, path)

    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "1"
    assert list(answer.json()) == ["error"]
    assert "cannot be reached" in answer.json()["error"]


async def test_a_store_that_is_full_is_503(
    q: Kue, vertx: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*arguments: Any, **options: Any) -> None:
        raise StoreFull("there is no memory left")

    monkeypatch.setattr(q.store, "add", refuse)

    answer = await vertx.put("/job", json=EMAIL)

    assert answer.status_code == 503
    assert answer.json() == {"error": "the store is full"}


# -- a whole life --------------------------------------------------------------


async def test_a_job_goes_its_way_by_the_eyes_of_an_old_client(
    q: Kue, vertx: httpx.AsyncClient
) -> None:
    # It is added, and there.
    made = (await vertx.put("/job", json={**EMAIL, "max_attempts": 2})).json()["id"]
    assert await told(vertx, "GET", "/job/types") == ["email"]
    assert await ids(vertx, "/jobs/email/INACTIVE/0/to/10/asc") == [made]

    # It is made urgent, runs and fails.
    await told(vertx, "PUT", f"/job/{made}/priority/HIGH")
    job = await claim_one(q.store, now=await q.now())
    handle = await q.get(made)
    await handle.log("connecting")
    await handle.progress(1, 2)
    shown = await told(vertx, "GET", f"/job/{made}")
    assert (shown["priority"], shown["state"]) == ("HIGH", "ACTIVE")
    assert (shown["progress"], shown["attempts"]) == (50, 0)
    await end(q.store, job, Failed(OOPS), now=await q.now())
    assert await ids(vertx, "/jobs/FAILED/0/to/10/desc") == [made]
    assert await told(vertx, "GET", f"/job/{made}/log") == ["connecting"]

    # It is restarted and ends well.
    await told(vertx, "POST", f"/inactive/{made}")
    job = await claim_one(q.store, now=await q.now())
    await end(q.store, job, Completed("sent"), now=await q.now())
    shown = await told(vertx, "GET", f"/job/{made}")
    assert (shown["state"], shown["result"]) == ("COMPLETE", "sent")
    assert (await told(vertx, "GET", "/stats"))["completeCount"] == 1

    # It is deleted, and gone.
    await told(vertx, "DELETE", f"/job/{made}")
    assert (await vertx.get(f"/job/{made}")).status_code == 404
