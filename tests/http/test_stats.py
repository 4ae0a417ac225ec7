"""How the queue does as a whole, over HTTP."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from kue import Kue
from kue.client.admin import OnFull
from kue.http.v1.stats import MAX_WARNINGS
from kue.model.histogram import Timing
from kue.model.job import Completed, State
from kue.store.values import RenewRequest
from tests.http.conftest import Http
from tests.support.jobs import (
    DAY,
    HOUR,
    MINUTE,
    add_many,
    add_one,
    claim_one,
    end,
    job_in,
    start_one,
)

#: What comes before the store is the same on all.
on_any_store = pytest.mark.parametrize("url", ["memory://"])

NONE = dict.fromkeys(State, 0)
WORKERS = {"alive": 0, "busy": 0, "lost": 0}
ROUTES = ["/stats", "/stats/history"]


async def history(client: httpx.AsyncClient, **query: Any) -> dict[str, Any]:
    answer = await client.get("/stats/history", params=query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


# -- now -----------------------------------------------------------------------


async def test_an_empty_queue_has_nothing_amiss(client: httpx.AsyncClient) -> None:
    answer = await client.get("/stats")

    assert answer.status_code == 200
    stats = answer.json()
    assert stats.pop("store")["engine"] in ("sqlite", "redis", "valkey")
    assert stats == {
        "counts": NONE,
        "workers": {"alive": 0, "busy": 0, "lost": 0},
        "rates": {"added": 0, "complete": 0, "failed": 0},
        "next_waits_ms": None,
        "oldest_waits_ms": None,
        "latency": None,
        "run_time": None,
        "warnings": [],
        "more_warnings": 0,
    }


async def test_all_types_are_counted_together(
    client: httpx.AsyncClient, q: Kue
) -> None:
    ago = await q.now() - 2 * MINUTE
    # The queue is not new: rates are those of whole minutes.
    await q.store.measure([Timing("email", {1: 1})], now=ago - 8 * MINUTE)
    for state in State:
        await job_in(q.store, state, f"type-{state}", now=ago)
    await add_many(q.store, 24, "email", now=ago)

    stats = (await client.get("/stats")).json()

    # One more is delayed: the parent of the one that is blocked.
    assert stats["counts"] == dict.fromkeys(State, 1) | {"waiting": 25, "delayed": 2}
    assert stats["rates"]["added"] == pytest.approx(32 / 300, abs=1e-4)
    assert stats["rates"]["complete"] == pytest.approx(1 / 300, abs=1e-4)
    assert stats["rates"]["failed"] == pytest.approx(1 / 300, abs=1e-4)


@pytest.mark.parametrize("minutes", [0, 1, 3])
async def test_rates_of_a_new_queue_are_those_of_the_time_it_is_there(
    client: httpx.AsyncClient, q: Kue, minutes: int
) -> None:
    """Friction 8: 641 jobs in 90 s are some 7 a second, not 1.64."""
    since = await q.now() - minutes * MINUTE
    await add_many(q.store, 60, "email", now=since)

    before = await q.now()
    rate = (await client.get("/stats")).json()["rates"]["added"]
    of_type = (await client.get("/queues/email")).json()["rates"]["added"]
    after = await q.now()

    begun = since // MINUTE * MINUTE
    slowest, fastest = (max(60, (now - begun) // 1000) for now in (after, before))
    for found in (rate, of_type):
        assert 60 / slowest - 0.001 <= found <= 60 / fastest + 0.001


async def test_the_wait_of_the_next_job_is_told(
    client: httpx.AsyncClient, q: Kue
) -> None:
    now = await q.now()
    await add_one(q.store, now=now)
    await add_one(q.store, "other", now=now - 2 * HOUR, delay="1h", priority="high")
    await q.store.tend(now=now)

    stats = (await client.get("/stats")).json()

    assert HOUR <= stats["next_waits_ms"] < HOUR + MINUTE


async def test_a_job_that_was_put_back_waits_since_then(
    client: httpx.AsyncClient, q: Kue
) -> None:
    job_id = await job_in(q.store, State.FAILED, now=await q.now() - DAY)
    await (await q.get(job_id)).retry()

    assert (await client.get("/stats")).json()["next_waits_ms"] < MINUTE


async def test_the_longest_wait_is_that_of_any_priority(
    client: httpx.AsyncClient, q: Kue
) -> None:
    """Who is next in line need not wait longest."""
    now = await q.now()
    await add_one(q.store, now=now, priority="high")
    await add_one(q.store, "other", now=now - HOUR, priority="normal")
    await add_one(q.store, now=now - 3 * HOUR, priority="low")

    stats = (await client.get("/stats")).json()

    assert stats["next_waits_ms"] < MINUTE
    assert 3 * HOUR <= stats["oldest_waits_ms"] < 3 * HOUR + MINUTE


async def test_a_job_that_was_put_back_hides_none_that_waits_longer(
    client: httpx.AsyncClient, q: Kue
) -> None:
    now = await q.now()
    job_id = await job_in(q.store, State.FAILED, now=now - DAY)
    await add_one(q.store, now=now - HOUR)
    await (await q.get(job_id)).retry()

    stats = (await client.get("/stats")).json()

    assert HOUR <= stats["oldest_waits_ms"] < HOUR + MINUTE


async def test_waits_and_runs_of_the_last_minutes_are_told(
    client: httpx.AsyncClient, q: Kue
) -> None:
    now = await q.now()
    old = [Timing("email", {DAY: 9}, {DAY: 9})]
    await q.store.measure(old, now=now - 7 * MINUTE)
    await q.store.measure([Timing("email", {1: 94, 10: 5})], now=now - 2 * MINUTE)
    await q.store.measure([Timing("sms", {60: 1}, {75: 1})], now=now)

    stats = (await client.get("/stats")).json()

    assert stats["latency"] == {"p50": 1, "p95": 10, "p99": 10}
    assert stats["run_time"] == {"p50": 75, "p95": 75, "p99": 75}


async def test_workers_that_run_something_are_busy(
    client: httpx.AsyncClient, q: Kue
) -> None:
    await start_one(q.store, worker="w1", now=await q.now())
    await q.store.renew(RenewRequest("w1"))
    await q.store.renew(RenewRequest("w2"))

    stats = (await client.get("/stats")).json()

    assert stats["workers"] == {"alive": 2, "busy": 1, "lost": 0}


async def test_the_store_says_what_it_is(client: httpx.AsyncClient, q: Kue) -> None:
    await add_one(q.store)

    store = (await client.get("/stats")).json()["store"]

    assert store["engine"] == ("sqlite" if "sqlite" in q.store.name else "redis")
    assert [int(part) for part in store["version"].split(".")] > [1]
    assert store["memory_bytes"] > 10_000
    assert 0 < store["rtt_ms"] < 10_000
    assert store["name"] == q.store.name


# -- warnings ------------------------------------------------------------------


async def test_a_backlog_that_grows_is_warned_of_with_the_time_it_takes(
    client: httpx.AsyncClient, q: Kue
) -> None:
    ago = await q.now() - 2 * MINUTE
    await q.store.measure([Timing("email", {1: 1})], now=ago - 8 * MINUTE)
    await q.store.renew(RenewRequest("w2"))
    await add_many(q.store, 40, now=ago)
    for _ in range(10):
        job = await claim_one(q.store, now=ago)
        await end(q.store, job, Completed(), now=ago)
    await add_many(q.store, 40, "idle", now=ago - DAY // 2)

    stats = (await client.get("/stats")).json()

    [warning] = [one for one in stats["warnings"] if one["code"] == "backlog"]
    assert warning["queue"] == "email"
    assert warning["message"] == (
        "backlog of 'email' grows: 40 jobs added and 10 ended in the last 5 minutes; "
        "the 30 waiting take 15 min at this rate"
    )
    queue = (await client.get("/queues/email")).json()
    assert queue["drain_ms"] == 15 * MINUTE


async def test_a_backlog_of_which_nothing_ends_says_so(
    client: httpx.AsyncClient, q: Kue
) -> None:
    await q.store.renew(RenewRequest("w2"))
    await add_many(q.store, 40, now=await q.now() - 2 * MINUTE)

    [warning] = (await client.get("/stats")).json()["warnings"]

    assert warning["message"].endswith("; 40 are waiting, and none ended")


@pytest.mark.parametrize(
    ("when_full", "then"),
    [
        ("refuse", "more are refused"),
        ("wait", "programs that add more wait for room"),
        ("drop-oldest", "each one more cancels the oldest of the lowest priority"),
    ],
)
async def test_a_queue_whose_cap_is_reached_is_warned_of(
    client: httpx.AsyncClient, q: Kue, when_full: OnFull, then: str
) -> None:
    await q.store.renew(RenewRequest("w2"))
    for type, most in (("email", 3), ("report", 4), ("idle", 5)):
        await q.limit(type, max_waiting=most, when_full=when_full)
    await add_many(q.store, 3, "email")
    await add_many(q.store, 3, "report")
    await add_many(q.store, 1, "report", delay="1h")

    [warning] = (await client.get("/stats")).json()["warnings"]

    assert (warning["code"], warning["queue"]) == ("full", "email")
    message = f"queue 'email' is full: 3 jobs wait, and its cap is 3; {then}"
    assert warning["message"] == message


async def test_jobs_that_are_delayed_are_no_backlog(
    client: httpx.AsyncClient, q: Kue
) -> None:
    await q.store.renew(RenewRequest("w2"))
    await add_many(q.store, 40, now=await q.now() - 2 * MINUTE, delay="1h")

    assert (await client.get("/stats")).json()["warnings"] == []


async def test_waiting_jobs_that_no_worker_takes_are_warned_of(
    client: httpx.AsyncClient, q: Kue
) -> None:
    await add_many(q.store, 2, "email")
    await add_one(q.store, "video")
    await add_one(q.store, "audio")
    await q.store.renew(RenewRequest("w1", info={"slots": {"audio": 1}}))

    stats = (await client.get("/stats")).json()

    assert stats["workers"] == {"alive": 1, "busy": 0, "lost": 0}
    assert stats["warnings"] == [
        {
            "code": "no-worker",
            "message": "2 jobs of type 'email' wait, and no live worker takes it",
            "queue": "email",
            "worker": None,
            "circuit": None,
            "alert": None,
            "job": None,
        },
        {
            "code": "no-worker",
            "message": "1 job of type 'video' waits, and no live worker takes it",
            "queue": "video",
            "worker": None,
            "circuit": None,
            "alert": None,
            "job": None,
        },
    ]


async def test_a_worker_that_does_not_say_what_it_takes_may_take_anything(
    client: httpx.AsyncClient, q: Kue
) -> None:
    await add_one(q.store)
    await q.store.renew(RenewRequest("w1"))

    assert (await client.get("/stats")).json()["warnings"] == []


async def test_pauses_are_warned_of_by_whom_and_why(
    client: httpx.AsyncClient, q: Kue
) -> None:
    await q.pause()
    await q.pause("email", by="ann", reason="server moves")
    await q.pause(worker="w1", by="bob")

    warnings = (await client.get("/stats")).json()["warnings"]

    assert {one["code"] for one in warnings} == {"paused"}
    assert [(one["message"], one["queue"], one["worker"]) for one in warnings] == [
        ("everything is paused", None, None),
        ("queue 'email' is paused by ann: server moves", "email", None),
        ("worker 'w1' is paused by bob", None, "w1"),
    ]


async def test_jobs_that_wait_for_a_failed_one_are_warned_of(
    client: httpx.AsyncClient, q: Kue
) -> None:
    failed = await job_in(q.store, State.FAILED)
    await q.enqueue("report", after=[failed])
    await q.enqueue("report", after=[failed], on_parent_failure="run")

    [warning] = (await client.get("/stats")).json()["warnings"]

    assert (warning["code"], warning["job"]) == ("failed-parent", failed)
    assert "1 job waits for job 1 of type 'email', which failed" in warning["message"]


async def test_circuits_that_are_not_closed_are_warned_of(
    client: httpx.AsyncClient, q: Kue
) -> None:
    await q.open_circuit("stripe", for_="1h", by="ann", reason="moves")
    await q.open_circuit("paypal", for_="1h")
    await q.close_circuit("paypal")

    [warning] = (await client.get("/stats")).json()["warnings"]

    assert (warning["code"], warning["circuit"]) == ("circuit", "stripe")
    assert warning["message"].startswith("circuit 'stripe' is open until 20")
    assert warning["message"].endswith(": opened by ann: moves")


async def test_a_worker_gone_with_jobs_in_its_hands_is_lost(
    client: httpx.AsyncClient, q: Kue
) -> None:
    ago = await q.now() - 5_000
    await start_one(q.store, worker="w1", now=ago)
    await q.store.renew(RenewRequest("w1", lease=1_000), now=ago)

    stats = (await client.get("/stats")).json()

    assert stats["workers"] == {"alive": 0, "busy": 0, "lost": 1}
    [warning] = stats["warnings"]
    assert (warning["code"], warning["worker"]) == ("lost-worker", "w1")
    assert warning["message"].startswith("worker 'w1' is lost while running 1 job")


async def test_a_worker_that_left_with_nothing_in_its_hands_is_not_lost(
    client: httpx.AsyncClient, q: Kue
) -> None:
    await q.store.renew(RenewRequest("w1"))
    await q.store.leave("w1")

    stats = (await client.get("/stats")).json()

    assert (stats["workers"], stats["warnings"]) == (WORKERS, [])


async def test_warnings_are_no_more_than_can_be_read(
    client: httpx.AsyncClient, q: Kue
) -> None:
    for number in range(MAX_WARNINGS + 3):
        await q.pause(f"type-{number}")

    stats = (await client.get("/stats")).json()

    assert (len(stats["warnings"]), stats["more_warnings"]) == (MAX_WARNINGS, 3)


# -- by time -------------------------------------------------------------------


async def test_a_history_has_a_point_for_each_minute(
    client: httpx.AsyncClient, q: Kue
) -> None:
    now = await q.now() // MINUTE * MINUTE
    await add_many(q.store, 3, now=now - 10 * MINUTE)
    job = await claim_one(q.store, now=now - 9 * MINUTE)
    await end(q.store, job, Completed(), now=now - 9 * MINUTE + 500)
    await add_one(q.store, "other", now=now - 9 * MINUTE)

    found = await history(client, since=now - 11 * MINUTE, until=now - 8 * MINUTE + 1)

    assert (found["since"], found["until"]) == (now - 11 * MINUTE, now - 8 * MINUTE)
    assert found["step"] == "minute"
    assert [(point["at"] - now) // MINUTE for point in found["points"]] == [
        -11,
        -10,
        -9,
        -8,
    ]
    assert [point["added"] for point in found["points"]] == [0, 3, 1, 0]
    assert found["points"][2] == {
        "at": now - 9 * MINUTE,
        "added": 1,
        "complete": 1,
        "failed": 0,
        "run_ms": 500,
        "wait": None,
        "run": None,
    }


@pytest.mark.parametrize(("step", "size"), [("hour", HOUR), ("day", DAY)])
async def test_steps_are_sums_of_their_minutes(
    client: httpx.AsyncClient, q: Kue, step: str, size: int
) -> None:
    now = await q.now()
    await add_many(q.store, 2, now=now - 3 * HOUR)
    await add_many(q.store, 5, now=now - 4 * HOUR)

    found = await history(client, step=step)

    assert sum(point["added"] for point in found["points"]) == 7
    assert all(point["at"] % size == 0 for point in found["points"])
    steps = {point["at"] // size for point in found["points"] if point["added"]}
    assert steps == {(now - 3 * HOUR) // size, (now - 4 * HOUR) // size}


@pytest.mark.parametrize("step", ["minute", "hour", "day"])
async def test_a_point_has_the_percentiles_of_its_step(
    client: httpx.AsyncClient, q: Kue, step: str
) -> None:
    now = await q.now()
    await q.store.measure([Timing("email", {1: 10}, {94: 1})], now=now)
    await q.store.measure([Timing("email", {1: 5, 75: 1})], now=now)

    found = await history(client, step=step)

    [point] = [one for one in found["points"] if one["wait"] is not None]
    assert point["wait"] == {"p50": 1, "p95": 75, "p99": 75}
    assert point["run"] == {"p50": 94, "p95": 94, "p99": 94}


@pytest.mark.parametrize("step", ["hour", "day"])
async def test_hours_and_days_reach_back_ninety_days(
    client: httpx.AsyncClient, q: Kue, step: str
) -> None:
    now = await q.now()
    ago = now - 80 * DAY
    await add_many(q.store, 3, now=ago)
    await q.store.tend(now=ago + 2 * MINUTE)
    await q.store.tend(now=now)

    found = await history(client, step=step, since=now - 85 * DAY)
    everything = await history(client, step=step, since=0)

    assert sum(point["added"] for point in found["points"]) == 3
    assert now - 90 * DAY - HOUR <= everything["since"] <= now - 89 * DAY
    assert len((await history(client, step=step))["points"]) == 60


async def test_a_history_may_be_that_of_one_type(
    client: httpx.AsyncClient, q: Kue
) -> None:
    now = await q.now()
    await add_many(q.store, 2, now=now)
    await add_many(q.store, 3, "a/b", now=now)

    found = await history(client, type="a/b")

    assert sum(point["added"] for point in found["points"]) == 3


async def test_a_history_has_sixty_steps_if_nothing_else_is_said(
    client: httpx.AsyncClient,
) -> None:
    assert len((await history(client))["points"]) == 60


async def test_a_history_is_cut_to_what_is_kept(
    client: httpx.AsyncClient, q: Kue
) -> None:
    now = await q.now()

    found = await history(client, since=0, until=now + 365 * DAY)

    assert len(found["points"]) == 24 * 60 + 1
    assert now - DAY - MINUTE < found["since"] <= now - DAY + MINUTE
    assert now - MINUTE < found["until"] <= now + MINUTE


async def test_a_time_that_is_not_kept_has_no_points(
    client: httpx.AsyncClient,
) -> None:
    assert (await history(client, since=0, until=1))["points"] == []


# -- refusing ------------------------------------------------------------------


@on_any_store
@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("step=week", "query.step"),
        ("since=yesterday", "query.since"),
        ("since=-1", "query.since"),
        ("until=9999999999999999", "query.until"),
        ("since=2&until=1", "query.since"),
        ("since=1&since=2", "query.since"),
        ("type=", "query.type"),
        ("page=1", "query"),
    ],
)
async def test_a_time_that_makes_no_sense_is_refused(
    client: httpx.AsyncClient, query: str, field: str
) -> None:
    answer = await client.get(f"/stats/history?{query}")

    assert (answer.status_code, answer.json().get("field")) == (400, field)


async def test_a_history_of_a_type_that_there_is_not_is_404(
    client: httpx.AsyncClient,
) -> None:
    answer = await client.get("/stats/history?type=emial")

    assert answer.status_code == 404
    assert answer.json()["detail"] == "no job of type 'emial' is known"


@pytest.mark.parametrize("path", ROUTES)
async def test_who_may_look_sees_them(http: Http, path: str) -> None:
    async with http.client("viewer") as client:
        assert (await client.get(path)).status_code == 200
