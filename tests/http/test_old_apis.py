"""What the APIs of Automattic's Kue and of Vert.x Kue have in common."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator

import httpx
import pytest
from starlette.requests import HTTPConnection

from kue import Kue, State
from kue.client.handle import job_of
from kue.http.auth.access import Anyone, User
from kue.http.compat import jobs
from kue.model.job import Completed, Failed
from tests.http.conftest import HOST, ROLES
from tests.http.old_apis import (
    EMAIL,
    KUE,
    VERTX,
    OldApi,
    ask,
    finish,
    ids,
    start,
    told,
)
from tests.support.jobs import OOPS, claim_one, end

#: What comes before the store is the same on all.
on_any_store = pytest.mark.parametrize("url", ["memory://"])

#: The role below one.
BELOW = {"operator": "viewer", "admin": "operator"}
#: Every route of both: the API, method, path, the role it takes.
TABLE = [
    pytest.param(api, *row, id=f"{api.name}-{row[0]}-{row[1]}")
    for api in (KUE, VERTX)
    for row in api.table
]


@pytest.fixture(params=[KUE, VERTX], ids=lambda api: api.name)
def api(request: pytest.FixtureRequest) -> OldApi:
    found: OldApi = request.param
    return found


@pytest.fixture
async def old(q: Kue, api: OldApi) -> AsyncIterator[httpx.AsyncClient]:
    """A client of someone who may do everything."""
    async with api.client(q) as client:
        yield client


async def state(q: Kue, job_id: int) -> State:
    return job_of(await q.get(job_id)).state


async def test_types_are_listed(q: Kue, old: httpx.AsyncClient) -> None:
    await q.enqueue("report")
    await q.enqueue("email")

    assert await told(old, "GET", "/job/types") == ["email", "report"]


async def test_more_jobs_than_an_answer_may_have_are_an_error(
    q: Kue, api: OldApi, old: httpx.AsyncClient
) -> None:
    await q.enqueue_many("email", [None] * (jobs.MAX_PAGE + 1))

    answer = await ask(old, "GET", api.range("", 0, 999))

    assert answer.status_code == api.status(400)
    assert answer.json() == {
        "error": "one answer has at most 201 jobs; ask for fewer at a time"
    }
    assert len(await ids(old, api.range("", 1, 999))) == jobs.MAX_PAGE


async def test_the_token_of_a_run_never_leaves(
    q: Kue, api: OldApi, old: httpx.AsyncClient
) -> None:
    job = await start(q)
    assert job.token

    for path in (f"/job/{job.id}", api.range("active", 0, 0)):
        assert job.token not in (await old.get(path)).text


async def test_a_log_is_a_list_of_texts(q: Kue, old: httpx.AsyncClient) -> None:
    job = await q.enqueue("email")
    await job.log("one")
    await job.log("two", level="error")

    assert await told(old, "GET", f"/job/{job.id}/log") == ["one", "two"]
    assert await told(old, "GET", "/job/99/log") == []


async def test_jobs_of_a_type_and_a_state_are_counted(
    q: Kue, api: OldApi, old: httpx.AsyncClient
) -> None:
    await q.enqueue("email")
    await q.enqueue("a/report")

    for path in ("email/INACTIVE", "email/inactive", "a%2Freport/INACTIVE"):
        assert await told(old, "GET", f"/jobs/{path}/stats") == {"count": 1}
    path = f"/jobs/email/{api.state('failed')}/stats"
    assert await told(old, "GET", path) == {"count": 0}


async def test_a_delayed_job_is_made_inactive_and_delayed_again(
    q: Kue, api: OldApi, old: httpx.AsyncClient
) -> None:
    job = await q.enqueue("email", delay="1h")

    await told(old, "PUT", f"/job/{job.id}/state/inactive")
    assert await state(q, job.id) is State.WAITING
    await told(old, "PUT", f"/job/{job.id}/state/{api.state('delayed')}")

    again = job_of(await q.get(job.id))
    assert again.state is State.DELAYED
    assert (again.promote_at or 0) >= again.created_at + 3_600_000


async def test_a_job_that_is_made_failed_is_cancelled(
    q: Kue, api: OldApi, old: httpx.AsyncClient
) -> None:
    """Dashboards made for Kue cancel jobs that way."""
    waiting, running = await q.enqueue("report"), await start(q)

    for job in (waiting, running):
        await told(old, "PUT", f"/job/{job.id}/state/{api.state('failed')}")

    assert await state(q, waiting.id) is State.CANCELLED
    assert await ids(old, api.range("failed", 0, 9)) == [waiting.id]
    assert job_of(await q.get(running.id)).cancelling


@pytest.mark.parametrize("word", ["active", "complete"])
async def test_only_workers_start_and_complete_jobs(
    q: Kue, api: OldApi, old: httpx.AsyncClient, word: str
) -> None:
    """D-45: there any job could be put into any state."""
    job = await q.enqueue("email")

    answer = await old.put(f"/job/{job.id}/state/{api.state(word)}")

    assert answer.status_code == api.status(409)
    error = answer.json()["error"]
    assert error.startswith(f"job {job.id} is waiting and cannot be")
    assert "workers start and complete jobs" in error
    assert await state(q, job.id) is State.WAITING


async def test_a_job_that_runs_cannot_be_moved(
    q: Kue, api: OldApi, old: httpx.AsyncClient
) -> None:
    """D-45: with Vert.x Kue a job that was put back while it ran was run twice."""
    job = await start(q)

    for method, path in (
        ("PUT", f"/job/{job.id}/state/{api.state('inactive')}"),
        ("PUT", f"/job/{job.id}/state/{api.state('delayed')}"),
        (api.restart, f"/inactive/{job.id}"),
    ):
        answer = await ask(old, method, path)
        assert answer.status_code == api.status(409)
        assert answer.json()["error"].startswith(f"job {job.id} is active and cannot")
    assert await state(q, job.id) is State.ACTIVE


async def test_a_body_that_is_too_large_is_413(
    api: OldApi, old: httpx.AsyncClient
) -> None:
    body = {**EMAIL, "data": "a" * 1024 * 1024}

    answer = await old.request(api.add, "/job", json=body)

    assert answer.status_code == 413
    assert answer.json() == {"error": "a body has at most 1,048,576 bytes"}


@on_any_store
@pytest.mark.parametrize(
    ("api", "method", "path", "role"),
    [row for row in TABLE if row.values[3] != "viewer"],
)
async def test_a_role_that_is_too_low_changes_nothing(
    q: Kue, api: OldApi, method: str, path: str, role: str
) -> None:
    """D-48: with Kue everything is open to the world; there restart and delete."""
    done = await finish(q, Completed())
    guard = Anyone(ROLES[BELOW[role]])

    async with api.client(q, guard) as client:
        answer = await ask(client, method, path.replace("1", str(done)))

    assert answer.status_code == 403
    assert answer.json() == {"error": f"this needs the role {role}"}
    assert sum((await q.counts()).values()) == 1
    assert await state(q, done) is State.COMPLETE


async def test_a_viewer_may_look_everywhere(q: Kue, api: OldApi) -> None:
    job = await q.enqueue("email")

    async with api.client(q, Anyone(ROLES["viewer"])) as client:
        for method, path, role in api.table:
            if role == "viewer":
                answer = await told(client, method, path.replace("/1", f"/{job.id}"))
                assert "error" not in answer


class Nobody:
    """A guard that knows nobody."""

    async def who(self, connection: HTTPConnection) -> User | None:
        return None


async def test_who_does_not_say_who_they_are_is_401(q: Kue, api: OldApi) -> None:
    """D-48: with Kue everything is open to the world; there restart and delete."""
    async with api.client(q, Nobody()) as client:
        for method, path, _ in api.table:
            answer = await ask(client, method, path)
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == "Bearer"
            assert answer.json()["error"].startswith("authentication is required")


@pytest.mark.parametrize(("api", "method", "path", "role"), TABLE)
async def test_a_store_that_is_away_is_an_error_of_the_server(
    api: OldApi, method: str, path: str, role: str
) -> None:
    with socket.create_server((HOST, 0)) as listener:
        port = listener.getsockname()[1]
    async with (
        Kue(f"redis://{HOST}:{port}", budget="200ms") as queue,
        api.client(queue) as client,
    ):
        answer = await ask(client, method, path)

    assert answer.status_code == api.away
    assert answer.headers["retry-after"] == "1"
    assert list(answer.json()) == ["error"]
    assert "cannot be reached" in answer.json()["error"]


async def test_a_job_goes_its_way_by_the_eyes_of_an_old_client(
    q: Kue, api: OldApi, old: httpx.AsyncClient
) -> None:
    # It is added, and there.
    made = (await ask(old, api.add, "/job")).json()["id"]
    assert await told(old, "GET", "/job/types") == ["email"]
    assert await ids(old, f"{api.range('email/inactive', 0, 10)}/asc") == [made]

    # It is made urgent, runs and fails.
    await told(old, "PUT", f"/job/{made}/priority/-10")
    job = await claim_one(q.store, now=await q.now())
    handle = await q.get(made)
    await handle.log("connecting")
    await handle.progress(1, 2, {"step": "connect"})
    shown = await told(old, "GET", f"/job/{made}")
    assert shown["state"] == api.state("active")
    if api is KUE:
        assert (shown["priority"], shown["progress"]) == (-10, "50")
        assert shown["progress_data"] == {"step": "connect"}
    else:
        assert (shown["priority"], shown["progress"]) == ("HIGH", 50)
        assert shown["attempts"] == 0
    await end(q.store, job, Failed(OOPS), now=await q.now())
    assert await ids(old, f"{api.range('failed', 0, 10)}/desc") == [made]
    assert await told(old, "GET", f"/job/{made}/log") == ["connecting"]

    # It is restarted and ends well.
    await told(old, api.restart, f"/inactive/{made}")
    job = await claim_one(q.store, now=await q.now())
    await end(q.store, job, Completed("sent"), now=await q.now())
    shown = await told(old, "GET", f"/job/{made}")
    assert (shown["state"], shown["result"]) == (api.state("complete"), "sent")
    assert (await told(old, "GET", "/stats"))["completeCount"] == 1

    # It is deleted, and gone.
    await told(old, "DELETE", f"/job/{made}")
    assert await ids(old, api.range("", 0, 10)) == []
    if api is VERTX:
        assert (await old.get(f"/job/{made}")).status_code == 404
