"""The JSON API of Automattic's Kue, by the eyes of a program made for it."""

from __future__ import annotations

import logging
import socket
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from starlette.requests import HTTPConnection

from kue import Kue, State
from kue.client.handle import job_of
from kue.http.auth.access import User
from kue.http.compat import jobs
from kue.model.job import Completed, Ending, Error, Failed, Retried
from tests.http.conftest import HOST
from tests.http.old_apis import EMAIL, KUE, ask, finish, ids, start, told
from tests.support.jobs import OOPS, claim_one, end

#: What comes before the store is the same on all.
on_any_store = pytest.mark.parametrize("url", ["memory://"])


@pytest.fixture
async def kue(q: Kue) -> AsyncIterator[httpx.AsyncClient]:
    """A client of someone who may do everything."""
    async with KUE.client(q) as client:
        yield client


async def state(q: Kue, job_id: int) -> State:
    return job_of(await q.get(job_id)).state


# -- looking -------------------------------------------------------------------


async def test_stats_count_jobs_by_kues_five_states(
    q: Kue, kue: httpx.AsyncClient
) -> None:
    """A blocked job is inactive, and a cancelled one failed."""
    parent = await q.enqueue("email", delay="1h")
    await q.enqueue("email", after=[parent.id])
    await (await q.enqueue("email")).cancel()
    await q.enqueue("report")

    assert await told(kue, "GET", "/stats") == {
        "inactiveCount": 2,
        "completeCount": 0,
        "activeCount": 0,
        "failedCount": 1,
        "delayedCount": 1,
        "workTime": None,
    }


async def test_stats_tell_how_long_runs_took_once_there_was_one(
    q: Kue, kue: httpx.AsyncClient
) -> None:
    await finish(q, Completed())

    assert (await told(kue, "GET", "/stats"))["workTime"] == 1000


async def test_a_search_answers_ids_as_text(q: Kue, kue: httpx.AsyncClient) -> None:
    found = await q.enqueue("email", {"to": "Ann"})
    await q.enqueue("email", {"to": "Bob"})

    assert await told(kue, "GET", "/job/search?q=ann") == [str(found.id)]


@pytest.mark.parametrize("query", ["", "?q="])
async def test_a_search_for_nothing_finds_nothing(
    q: Kue, kue: httpx.AsyncClient, query: str
) -> None:
    await q.enqueue("email")

    assert await told(kue, "GET", f"/job/search{query}") == []


async def test_a_search_ends_when_an_answer_is_full(
    q: Kue, kue: httpx.AsyncClient
) -> None:
    handles = await q.enqueue_many("email", [{"to": "ann"}] * (jobs.MAX_PAGE + 1))

    found = await told(kue, "GET", "/job/search?q=ann")

    newest = [str(handle.id) for handle in reversed(handles)]
    assert found == newest[: jobs.MAX_PAGE]


async def test_a_search_looks_at_the_newest_jobs_and_says_so(
    q: Kue, kue: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S-6: a miss over 100,000 jobs took 7 s."""
    oldest = await q.enqueue("email", {"to": "ann"})
    await q.enqueue_many("email", [{"to": "bob"}] * 1_500)

    reply = await kue.get("/job/search?q=ann")
    assert (reply.json(), reply.headers.get("Kue-Searched")) == ([str(oldest.id)], None)

    monkeypatch.setattr(jobs, "MAX_SEARCHED", 1_000)
    reply = await kue.get("/job/search?q=ann")
    assert (reply.json(), reply.headers["Kue-Searched"]) == ([], "newest 1000")


async def test_a_page_of_large_jobs_is_refused(q: Kue, kue: httpx.AsyncClient) -> None:
    """S-2: here a page has no cursor to end with."""
    await q.enqueue_many("email", ["x" * 250_000] * 40)

    assert await told(kue, "GET", "/jobs/0..39") == {
        "error": "40 jobs of 250 kB each are too much for one answer; "
        "ask for fewer at a time"
    }
    assert len(await told(kue, "GET", "/jobs/20..29")) == 10


@pytest.mark.parametrize("count", [5, 30])
async def test_a_list_is_judged_by_the_jobs_there_are(
    q: Kue, kue: httpx.AsyncClient, count: int
) -> None:
    await q.enqueue_many("email", ["x" * 60_000] * count)

    assert len(await told(kue, "GET", "/jobs/0..-1")) == count
    assert len(await told(kue, "GET", f"/jobs/1..{jobs.MAX_PAGE}")) == count - 1


async def test_a_search_for_too_much_is_an_error(kue: httpx.AsyncClient) -> None:
    answer = await told(kue, "GET", f"/job/search?q={'a' * 201}")

    assert answer == {"error": "a search text has at most 200 characters"}


async def test_a_range_has_both_its_ends(q: Kue, kue: httpx.AsyncClient) -> None:
    made = [(await q.enqueue("email")).id for _ in range(4)]

    assert await ids(kue, "/jobs/1..2") == made[1:3]
    assert await ids(kue, "/jobs/1..2/asc") == made[1:3]
    assert await ids(kue, "/jobs/1..2/desc") == made[2:0:-1]
    assert await ids(kue, "/jobs/2..-1") == made[2:]
    assert await ids(kue, "/jobs/9..12") == []
    assert await ids(kue, "/jobs/2..1") == []
    # From the end, as Redis has it.
    assert await ids(kue, "/jobs/-3..-1") == made[1:]
    assert await ids(kue, "/jobs/-3..-2") == made[1:3]
    assert await ids(kue, "/jobs/inactive/0..-2") == made[:3]
    assert await ids(kue, "/jobs/email/inactive/-9..1") == made[:2]
    assert await ids(kue, "/jobs/-1..-3") == []


async def test_a_page_is_picked_by_priority_and_sorted_by_id(
    q: Kue, kue: httpx.AsyncClient
) -> None:
    low = await q.enqueue("email", priority="low")
    normal = await q.enqueue("email")
    high = await q.enqueue("email", priority="high")

    assert await ids(kue, "/jobs/inactive/0..1") == [normal.id, high.id]
    assert await ids(kue, "/jobs/inactive/0..1/desc") == [high.id, normal.id]
    assert await ids(kue, "/jobs/inactive/2..2") == [low.id]


async def test_a_range_may_be_of_a_state_or_of_a_type_and_a_state(
    q: Kue, kue: httpx.AsyncClient
) -> None:
    email = await q.enqueue("email")
    report = await q.enqueue("a/report")
    later = await q.enqueue("email", delay="1h")

    assert await ids(kue, "/jobs/inactive/0..9") == [email.id, report.id]
    assert await ids(kue, "/jobs/delayed/0..9") == [later.id]
    assert await ids(kue, "/jobs/email/inactive/0..9") == [email.id]
    assert await ids(kue, "/jobs/a%2Freport/inactive/0..9/asc") == [report.id]
    assert await ids(kue, "/jobs/nobody/inactive/0..9") == []


async def test_a_range_of_a_state_goes_on_from_one_of_ours_to_the_next(
    q: Kue, kue: httpx.AsyncClient
) -> None:
    """Inactive are those that wait, and then those that are blocked."""
    parent = await q.enqueue("other", delay="1h")
    blocked = [(await q.enqueue("email", after=[parent.id])).id for _ in range(2)]
    waiting = [(await q.enqueue("email")).id for _ in range(2)]

    assert await ids(kue, "/jobs/inactive/0..1") == waiting
    assert await ids(kue, "/jobs/inactive/1..2") == [blocked[0], waiting[1]]
    assert await ids(kue, "/jobs/inactive/2..3") == blocked
    assert await ids(kue, "/jobs/email/inactive/0..-1") == blocked + waiting


async def test_a_state_that_there_is_not_has_no_jobs(
    q: Kue, kue: httpx.AsyncClient
) -> None:
    await q.enqueue("email")

    assert await ids(kue, "/jobs/bogus/0..9") == []
    assert await ids(kue, "/jobs/email/bogus/0..9") == []
    assert await told(kue, "GET", "/jobs/email/bogus/stats") == {"count": 0}


async def test_numbers_lose_their_fraction(q: Kue, kue: httpx.AsyncClient) -> None:
    options = {"delay": 60_000.5, "attempts": 2.7, "priority": 5.5, "ttl": 1500.9}

    made = await kue.post("/job", json={**EMAIL, "options": options})

    job = (await q.get(made.json()["id"])).job
    assert job is not None
    assert (job.spec.delay, job.spec.max_attempts, job.priority) == (60_000, 2, 5)


async def test_a_search_finds_words_in_any_order(
    q: Kue, kue: httpx.AsyncClient
) -> None:
    found = await q.enqueue("email", {"title": "Welcome email for Ann"})
    await q.enqueue("email", {"title": "welcome"})

    for text in ("email welcome", "welcome email", "ann  WELCOME"):
        answer = await kue.get("/job/search", params={"q": text})
        assert answer.json() == [str(found.id)]


@pytest.mark.parametrize("span", ["a..9", "0..b", "--1..9", "-..9", f"0..{10**30}"])
async def test_a_range_that_is_none_is_an_error(
    kue: httpx.AsyncClient, span: str
) -> None:
    answer = await told(kue, "GET", f"/jobs/{span}")

    assert answer["error"].startswith("a range counts from 0")


async def test_a_page_of_two_hundred_may_be_asked_for_with_one_more(
    q: Kue, kue: httpx.AsyncClient
) -> None:
    """Dashboards made for Kue do, to see whether there is a next page."""
    await q.enqueue_many("email", [None] * 300)

    assert len(await ids(kue, "/jobs/inactive/0..200/asc")) == 201


@on_any_store
@pytest.mark.parametrize(("method", "path", "role"), KUE.table)
async def test_a_slash_at_the_end_makes_no_difference(
    q: Kue, kue: httpx.AsyncClient, method: str, path: str, role: str
) -> None:
    """To Express, which Kue is made with, it is the same path."""
    await q.enqueue("email", {"to": "ann"})
    path, mark, query = path.partition("?")

    answer = await ask(kue, method, f"{path}/{mark}{query}")

    assert (answer.status_code, "error" in answer.json()) == (200, False)


async def test_a_jobs_id_is_text_alone_and_a_number_in_a_range(
    q: Kue, kue: httpx.AsyncClient
) -> None:
    job = await q.enqueue("email")

    assert (await told(kue, "GET", f"/job/{job.id}"))["id"] == str(job.id)
    assert await ids(kue, "/jobs/0..0") == [job.id]


async def test_a_new_job_has_what_is_known_of_it(
    q: Kue, kue: httpx.AsyncClient
) -> None:
    made = await q.enqueue("email", attempts=3, delay=60, ttl=5, priority="high")
    job = job_of(await q.get(made.id))

    assert await told(kue, "GET", f"/job/{made.id}") == {
        "id": str(made.id),
        "type": "email",
        "data": {},
        "priority": -10,
        "progress": 0,
        "state": "delayed",
        "created_at": str(job.created_at),
        "promote_at": str(job.created_at + 60_000),
        "updated_at": str(job.created_at),
        "delay": "60000",
        "ttl": "5000",
        "attempts": {"made": 0, "remaining": 3, "max": 3},
    }


async def test_unlimited_attempts_are_as_many_as_there_can_be(
    q: Kue, kue: httpx.AsyncClient
) -> None:
    job = await q.enqueue("email", attempts="unlimited")

    shown = await told(kue, "GET", f"/job/{job.id}")

    most = 1_000_000
    assert shown["attempts"] == {"made": 0, "remaining": most, "max": most}


async def test_a_complete_job_has_its_result_and_its_times_as_text(
    q: Kue, kue: httpx.AsyncClient
) -> None:
    done = await finish(q, Completed({"sent": True}), data={"to": "ann"}, attempts=2)
    job = job_of(await q.get(done))

    shown = await told(kue, "GET", f"/job/{done}")

    assert shown == {
        "id": str(done),
        "type": "email",
        "data": {"to": "ann"},
        "result": {"sent": True},
        "priority": 0,
        "progress": "100",
        "state": "complete",
        "created_at": str(job.created_at),
        "promote_at": str(job.created_at),
        "updated_at": str(job.updated_at),
        "started_at": str(job.started_at),
        "duration": "1000",
        "workerId": "w1",
        "attempts": {"made": 1, "remaining": 1, "max": 2},
    }


async def test_a_failed_job_tells_its_error_first_and_then_the_stack(
    q: Kue, kue: httpx.AsyncClient
) -> None:
    error = Error("ValueError", "oops", stack="Traceback: line 1")
    failed = await finish(q, Failed(error))

    shown = await told(kue, "GET", f"/job/{failed}")

    assert shown["state"] == "failed"
    assert shown["error"] == "ValueError: oops\nTraceback: line 1"
    assert shown["failed_at"] == shown["updated_at"]


async def test_a_cancelled_job_is_failed_and_says_why(
    q: Kue, kue: httpx.AsyncClient
) -> None:
    for reason in ("not wanted", ""):
        await (await q.enqueue("email")).cancel(reason)

    shown = await told(kue, "GET", "/jobs/failed/0..9")

    assert [job["state"] for job in shown] == ["failed", "failed"]
    assert [job["error"] for job in shown] == ["cancelled: not wanted", "cancelled"]


async def test_the_attempt_that_runs_is_not_counted_yet(
    q: Kue, kue: httpx.AsyncClient
) -> None:
    job = await start(q, attempts=3)
    await end(q.store, job, Retried(OOPS), now=await q.now())
    again = await claim_one(q.store, now=await q.now())

    shown = await told(kue, "GET", f"/job/{again.id}")

    assert shown["state"] == "active"
    assert shown["error"] == "ValueError: oops"
    assert shown["attempts"] == {"made": 1, "remaining": 2, "max": 3}


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/job/{}"),
        ("PUT", "/job/{}/state/inactive"),
        ("PUT", "/job/{}/priority/5"),
        ("DELETE", "/job/{}"),
        ("GET", "/inactive/{}"),
    ],
)
async def test_a_job_that_there_is_not_is_an_error(
    kue: httpx.AsyncClient, method: str, path: str
) -> None:
    for text in ("99", "0", "bogus", "-1", "1e3", "9" * 30):
        answer = await told(kue, method, path.format(text))
        assert answer == {"error": f'job "{text}" doesnt exist'}


@pytest.mark.parametrize("text", ["99", "bogus"])
async def test_a_job_that_there_is_not_has_an_empty_log(
    kue: httpx.AsyncClient, text: str
) -> None:
    assert await told(kue, "GET", f"/job/{text}/log") == []


# -- changing ------------------------------------------------------------------


@pytest.mark.parametrize("ending", [Completed(), Failed(OOPS)])
async def test_an_ended_job_is_restarted_by_its_state_or_by_a_get(
    q: Kue, kue: httpx.AsyncClient, ending: Ending
) -> None:
    first, second = await finish(q, ending), await finish(q, ending)

    assert await told(kue, "PUT", f"/job/{first}/state/inactive") == {
        "message": "updated state"
    }
    assert await told(kue, "GET", f"/inactive/{second}") == {
        "message": f"job {second} inactive"
    }

    assert await state(q, first) is await state(q, second) is State.WAITING


async def test_a_job_that_is_in_the_state_already_stays_as_it_is(
    q: Kue, kue: httpx.AsyncClient
) -> None:
    job = await q.enqueue("email", delay="1h")
    before = job_of(await q.get(job.id))

    await told(kue, "PUT", f"/job/{job.id}/state/delayed")

    assert job_of(await q.get(job.id)) == before


async def test_a_job_that_is_complete_is_not_made_failed(
    q: Kue, kue: httpx.AsyncClient
) -> None:
    done = await finish(q, Completed())

    answer = await told(kue, "PUT", f"/job/{done}/state/failed")

    assert answer["error"].startswith(f"job {done} is complete and cannot")
    assert await state(q, done) is State.COMPLETE


async def test_a_word_that_is_no_state_hides_no_job(
    q: Kue, kue: httpx.AsyncClient
) -> None:
    """U-1: Kue made a state of any word, and the job was in no list any more."""
    job = await q.enqueue("email")

    answer = await told(kue, "PUT", f"/job/{job.id}/state/bogus")

    assert answer == {"error": "invalid state"}
    assert await ids(kue, "/jobs/inactive/0..9") == [job.id]


async def test_a_priority_is_changed(q: Kue, kue: httpx.AsyncClient) -> None:
    job = await q.enqueue("email")

    answer = await told(kue, "PUT", f"/job/{job.id}/priority/-15")

    assert answer == {"message": "updated priority"}
    assert job_of(await q.get(job.id)).priority == -15


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("high", "invalid priority"),
        ("99999", "invalid priority"),
        ("2000", "priority must be from -1024 to 1023, not 2000"),
    ],
)
async def test_a_priority_that_is_none_is_an_error(
    q: Kue, kue: httpx.AsyncClient, text: str, error: str
) -> None:
    job = await q.enqueue("email")

    answer = await told(kue, "PUT", f"/job/{job.id}/priority/{text}")

    assert answer == {"error": error}
    assert job_of(await q.get(job.id)).priority == 0


async def test_a_job_is_removed_even_while_it_runs(
    q: Kue, kue: httpx.AsyncClient
) -> None:
    waiting, running = await q.enqueue("report"), await start(q)

    for job in (waiting, running):
        answer = await told(kue, "DELETE", f"/job/{job.id}")
        assert answer == {"message": f"job {job.id} removed"}
        assert not await q.exists(job.id)


async def test_a_head_restarts_nothing(q: Kue, kue: httpx.AsyncClient) -> None:
    done = await finish(q, Completed())

    assert (await kue.head(f"/inactive/{done}")).status_code == 405

    assert await state(q, done) is State.COMPLETE


# -- adding --------------------------------------------------------------------


async def test_a_job_is_added_with_kues_options(q: Kue, kue: httpx.AsyncClient) -> None:
    options = {
        "attempts": "5",
        "priority": "high",
        "delay": 60_000,
        "searchKeys": ["to"],
        "backoff": {"type": "exponential", "delay": 1000, "maxDelay": 9000},
        "removeOnComplete": True,
        "ttl": 5000,
    }

    answer = await kue.post("/job", json={**EMAIL, "options": options})

    assert answer.status_code == 200
    job = job_of(await q.get(answer.json()["id"]))
    assert answer.json() == {"message": "job created", "id": job.id}
    assert (job.type, job.data, job.priority, job.ttl) == (
        "email",
        {"to": "ann"},
        -10,
        5000,
    )
    assert (job.max_attempts, job.spec.delay, job.spec.remove_on_complete) == (
        5,
        60_000,
        True,
    )
    assert job.spec.backoff is not None
    assert job.spec.backoff.__struct_config__.tag == "exponential"


async def test_a_job_without_data_or_options_is_fine(
    q: Kue, kue: httpx.AsyncClient
) -> None:
    options = {"attempts": 0, "delay": None, "ttl": "0", "removeOnComplete": "false"}
    for body in ({"type": "email"}, {"type": "email", "options": options}):
        answer = await kue.post("/job", json=body)
        assert answer.status_code == 200
        assert job_of(await q.get(answer.json()["id"])).data == {}


async def test_many_jobs_are_added_in_order(q: Kue, kue: httpx.AsyncClient) -> None:
    wanted = [{"type": "email", "data": {"i": number}} for number in range(20)]

    answer = await kue.post("/job", json=wanted)

    assert answer.status_code == 200
    made = [one["id"] for one in answer.json()]
    assert made == sorted(made)
    added = [job_of(await q.get(job_id)).data for job_id in made]
    assert added == [{"i": number} for number in range(20)]


async def test_of_many_jobs_the_good_ones_are_added(
    q: Kue, kue: httpx.AsyncClient
) -> None:
    answer = await kue.post("/job", json=[EMAIL, {"data": 1}, 7, EMAIL])

    assert answer.status_code == 400
    first, second, third, last = answer.json()
    assert second == third == {"error": "Must provide job type"}
    assert first["message"] == last["message"] == "job created"
    assert await q.inactive_count() == 2


@pytest.mark.parametrize("body", ["{}", "[]", ""])
async def test_nothing_to_add_is_no_content(kue: httpx.AsyncClient, body: str) -> None:
    answer = await kue.post(
        "/job", content=body, headers={"Content-Type": "application/json"}
    )

    assert (answer.status_code, answer.content) == (204, b"")


async def test_a_body_that_does_not_say_it_is_json_is_not_read(
    q: Kue, kue: httpx.AsyncClient
) -> None:
    """A form on a page elsewhere can send no other kind."""
    answer = await kue.post(
        "/job", content='{"type": "email"}', headers={"Content-Type": "text/plain"}
    )

    assert answer.status_code == 204
    assert await q.inactive_count() == 0


@on_any_store
@pytest.mark.parametrize(
    ("body", "error"),
    [
        ('{"data": {}}', "Must provide job type"),
        ('{"type": 7}', "type must be text, not 7"),
        ('{"type": "email", "options": 7}', "options must be an object"),
        ("7", "the body must be an object or a list"),
        ("{", "the body is not JSON: "),
        ("[" * 100_000, "the body is not JSON: "),
        (f"[{','.join(['0'] * 1001)}]", "one request adds at most 1,000 jobs, not"),
    ],
)
async def test_what_is_no_job_is_400(
    q: Kue, kue: httpx.AsyncClient, body: str, error: str
) -> None:
    answer = await kue.post(
        "/job", content=body, headers={"Content-Type": "application/json"}
    )

    assert answer.status_code == 400
    assert answer.json()["error"].startswith(error)
    assert await q.inactive_count() == 0


@on_any_store
@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("attempts", "many", "attempts must be a whole number, not 'many'"),
        ("attempts", True, "attempts must be a whole number, not True"),
        ("attempts", 10**7, "attempts must be from 1 to 1,000,000, not 10000000"),
        ("priority", "urgent", "priority 'urgent' is unknown"),
        ("priority", {"a": 1}, "priority must be a whole number or a name"),
        ("delay", -1, "delay must be a whole number, not -1"),
        ("delay", 10**18, "delay is too large: 1000000"),
        ("ttl", -1.5, "ttl must be a whole number, not -1.5"),
        ("backoff", "function (a) { return 1 }", "backoff must be true or an object"),
        ("backoff", {"type": "bogus"}, "backoff type 'bogus' is unknown"),
        ("removeOnComplete", 1, "removeOnComplete must be true or false, not 1"),
    ],
)
async def test_an_option_that_makes_no_sense_is_400(
    q: Kue, kue: httpx.AsyncClient, name: str, value: Any, error: str
) -> None:
    answer = await kue.post("/job", json={**EMAIL, "options": {name: value}})

    assert answer.status_code == 400
    assert answer.json()["error"].startswith(error)
    assert await q.counts() == dict.fromkeys(State, 0)


# -- who may, and when nothing works -------------------------------------------


@pytest.fixture
async def lost() -> AsyncIterator[httpx.AsyncClient]:
    """A client of a server whose store is away."""
    with socket.create_server((HOST, 0)) as listener:
        port = listener.getsockname()[1]
    async with (
        Kue(f"redis://{HOST}:{port}", budget="200ms") as queue,
        KUE.client(queue) as client,
    ):
        yield client


async def test_a_store_that_is_away_is_told_for_each_job_of_many(
    lost: httpx.AsyncClient,
) -> None:
    answer = await lost.post("/job", json=[EMAIL, {}])

    assert answer.status_code == 500
    first, second = answer.json()
    assert "cannot be reached" in first["error"]
    assert second == {"error": "Must provide job type"}


async def test_a_fault_of_ours_is_not_told_as_that_of_a_job(
    q: Kue, kue: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def break_down(*arguments: Any, **options: Any) -> None:
        raise RuntimeError("the secret is 42")

    monkeypatch.setattr(q.store, "add", break_down)

    answer = await kue.post("/job", json=[EMAIL, EMAIL])

    assert answer.status_code == 500
    assert answer.json()["error"].startswith("something went wrong here")


class Broken:
    """A guard with a fault."""

    async def who(self, connection: HTTPConnection) -> User | None:
        raise RuntimeError("the secret is 42")


async def test_a_fault_of_ours_is_logged_and_not_told(
    q: Kue, caplog: pytest.LogCaptureFixture
) -> None:
    async with KUE.client(q, Broken()) as client:
        with caplog.at_level(logging.ERROR, logger="kue.http"):
            answer = await client.get("/stats")

    assert answer.status_code == 500
    assert "42" not in answer.text
    [record] = caplog.records
    assert record.getMessage() == "GET /kue/stats failed"
    assert "the secret is 42" in str(record.exc_info)
