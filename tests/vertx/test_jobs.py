"""The JobService, asked here and over the bus: the same answers."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kue import Kue
from kue.bus import EventBus, RequestFailed
from kue.model.errors import StoreUnavailable
from kue.model.job import Completed, Failed
from kue.vertx import Addresses, JobService, JobServiceProxy, register
from kue.vertx import job_service as service_jobs
from kue.vertx.job_json import show
from kue.vertx.service_binding import actions
from tests.support.jobs import OOPS
from tests.vertx.hearing import add, finish, start

#: Every action of the catalogue, and what is asked.
ACTIONS: dict[str, dict[str, Any]] = {
    "getJob": {"id": 1},
    "removeJob": {"id": 1},
    "existsJob": {"id": 1},
    "getJobLog": {"id": 1},
    "jobRangeByState": {"state": "INACTIVE", "from": 0, "to": 9, "order": "asc"},
    "jobRangeByType": {
        "type": "email",
        "state": "INACTIVE",
        "from": 0,
        "to": 9,
        "order": "desc",
    },
    "jobRange": {"from": 0, "to": 9, "order": "asc"},
    "cardByType": {"type": "email", "state": "DELAYED"},
    "card": {"state": "COMPLETE"},
    "completeCount": {"type": "email"},
    "failedCount": {"type": None},
    "inactiveCount": {},
    "activeCount": {},
    "delayedCount": {},
    "getAllTypes": {},
    "getIdsByState": {"state": "INACTIVE"},
    "getWorkTime": {},
}


@pytest.fixture(params=["here", "over the bus"])
async def service(request: pytest.FixtureRequest, q: Kue, bus: EventBus) -> JobService:
    if request.param == "here":
        return JobService(q)
    register(q, bus)
    return JobServiceProxy(bus)


def test_it_has_the_actions_of_vertx_kue() -> None:
    assert actions(JobService).keys() == ACTIONS.keys()


@pytest.mark.parametrize("action", ACTIONS)
async def test_an_action_is_answered_with_json(
    action: str, q: Kue, bus: EventBus
) -> None:
    register(q, bus)
    await add(q)

    reply = await bus.request(
        Addresses().service, ACTIONS[action], headers={"action": action}
    )

    assert isinstance(reply.body, dict | list | int | None)


def test_a_proxy_is_asked_with_the_same_words() -> None:
    for action in actions(JobService).values():
        ours, theirs = (
            inspect.signature(getattr(kind, action.method))
            for kind in (JobService, JobServiceProxy)
        )
        assert ours == theirs


async def test_a_job_is_the_json_of_vertx_kue(q: Kue, service: JobService) -> None:
    job = await add(q, data={"to": "ann"}, priority="high")

    assert await service.get_job(job.id) == show(job)
    assert await service.exists_job(job.id) is True


async def test_a_job_that_there_is_not_is_none(service: JobService) -> None:
    assert await service.get_job(7) is None
    assert await service.exists_job(7) is False
    assert await service.get_job_log(7) == []


async def test_a_job_is_removed_even_while_it_runs_or_if_it_is_gone(
    q: Kue, service: JobService
) -> None:
    job = await add(q)
    await start(q, job)

    await service.remove_job(job.id)
    await service.remove_job(job.id)

    assert await q.exists(job.id) is False


async def test_the_log_is_its_lines(q: Kue, service: JobService) -> None:
    job = await add(q)
    await q.handle(job).log("hello")
    await q.handle(job).log("again")

    assert await service.get_job_log(job.id) == ["hello", "again"]


async def test_ranges_include_both_ends(q: Kue, service: JobService) -> None:
    for number in range(5):
        await add(q, "email" if number % 2 else "video")

    def ids(jobs: list[dict[str, Any]]) -> list[int]:
        return [job["id"] for job in jobs]

    assert ids(await service.job_range(1, 3)) == [2, 3, 4]
    assert ids(await service.job_range(0, 1, "desc")) == [5, 4]
    assert ids(await service.job_range(0, 99, "ASC")) == [1, 2, 3, 4, 5]
    assert ids(await service.job_range_by_state("inactive", 3, 9)) == [4, 5]
    assert ids(await service.job_range_by_type("email", "INACTIVE", 0, 9)) == [2, 4]
    assert await service.job_range_by_state("FAILED", 0, 9) == []


async def test_counts_are_by_state_and_type(q: Kue, service: JobService) -> None:
    await finish(q, await add(q), Completed())
    await finish(q, await add(q), Failed(OOPS))
    await add(q)
    await add(q, delay="1h")
    await start(q, await add(q, "video"))

    assert await service.complete_count() == 1
    assert await service.failed_count("email") == 1
    assert await service.failed_count("video") == 0
    assert await service.inactive_count("email") == 1
    assert await service.active_count("video") == 1
    assert await service.delayed_count(None) == 1
    assert await service.card("ACTIVE") == 1
    assert await service.card_by_type("email", "delayed") == 1
    assert await service.get_all_types() == ["email", "video"]
    assert await service.get_ids_by_state("FAILED") == [2]
    assert await service.get_work_time() >= 0


async def test_ids_are_no_more_than_one_answer_has(
    q: Kue, service: JobService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_jobs, "MAX_IDS", 3)
    await q.enqueue_many("email", range(3))
    assert await service.get_ids_by_state("INACTIVE") == [1, 2, 3]
    await q.enqueue("email")

    with pytest.raises(ValueError, match="4 jobs are inactive, and a reply has"):
        await service.get_ids_by_state("INACTIVE")


WRONG: list[tuple[Callable[[JobService], Awaitable[Any]], str]] = [
    (lambda it: it.card("LOST"), "state 'LOST' is unknown; there are INACTIVE"),
    (lambda it: it.job_range(0, 1, "up"), "order must be asc or desc, not 'up'"),
    (lambda it: it.job_range(3, 1), "a range cannot end before it begins: 3 to 1"),
    (lambda it: it.job_range(0, 1000), "a range has at most 1,000 jobs"),
]


@pytest.mark.parametrize(("ask", "problem"), WRONG)
async def test_what_makes_no_sense_is_refused(
    service: JobService, ask: Callable[[JobService], Awaitable[Any]], problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        await ask(service)


@pytest.mark.parametrize(
    ("action", "given"),
    [
        ("getJob", {"id": -1}),
        ("getJob", {"id": 2**53}),
        ("getJob", {"id": "1"}),
        ("getJob", {"id": True}),
        ("jobRange", {"from": -1, "to": 3}),
        ("cardByType", {"type": "", "state": "ACTIVE"}),
        ("cardByType", {"type": "x" * 201, "state": "ACTIVE"}),
        ("card", {"state": "x" * 21}),
    ],
)
async def test_numbers_and_names_have_limits(
    q: Kue, bus: EventBus, action: str, given: dict[str, Any]
) -> None:
    register(q, bus)

    with pytest.raises(RequestFailed, match=f"{action}: Expected"):
        await bus.request(Addresses().service, given, headers={"action": action})


async def test_a_store_that_is_away_is_told(bus: EventBus) -> None:
    async with Kue("redis://127.0.0.1:1", budget="10ms") as q:
        register(q, bus)

        with pytest.raises(StoreUnavailable):
            await JobServiceProxy(bus).get_job(1)
