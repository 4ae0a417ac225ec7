"""Flows: chains and groups of tasks, which pass their results on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import kue
from kue import JobFailed, Kue, State
from kue.client import flow_enqueue, flow_graph
from kue.client.flow import Flow
from kue.client.stuck_jobs import failed_parents, failed_parents_of
from tests.support.patience import PATIENCE_SECONDS


class Maths:
    """A few tasks, and what they were called with."""

    def __init__(self, q: Kue) -> None:
        self.calls: list[Any] = []

        @q.task(attempts=1)
        async def add(x: int, y: int) -> int:
            self.calls.append((x, y))
            return x + y

        @q.task(attempts=1)
        async def total(numbers: list[int]) -> int:
            return sum(numbers)

        @q.task(attempts=1)
        async def fail(x: int = 0) -> int:
            raise ValueError("broken")

        @q.task(attempts=1)
        async def note(what: Any) -> None:
            self.calls.append(what)

        @q.task(attempts=1)
        def thread(x: int) -> int:
            return x + 1

        self.add, self.total, self.fail = add, total, fail
        self.note, self.thread = note, thread


@pytest.fixture
def maths(q: Kue) -> Maths:
    return Maths(q)


async def ran(q: Kue, flow: Flow[Any], **options: Any) -> Any:
    handle = await flow.enqueue(**options)
    async with q.work():
        return await handle.result(timeout=PATIENCE_SECONDS)


# -- chains ------------------------------------------------------------------


async def test_the_result_of_each_link_is_the_first_argument_of_the_next(
    q: Kue, maths: Maths
) -> None:
    add = maths.add

    assert await ran(q, kue.chain(add.s(2, 2), add.s(4), add.s(y=8))) == 16
    assert maths.calls == [(2, 2), (4, 4), (8, 8)]


async def test_a_bar_makes_a_chain(q: Kue, maths: Maths) -> None:
    assert await ran(q, maths.add.s(1, 1) | maths.thread.s() | maths.add.s(10)) == 13


async def test_a_parameter_that_is_given_by_name_is_not_taken_for_the_result(
    q: Kue, maths: Maths
) -> None:
    await ran(q, maths.add.s(1, 1) | maths.add.s(x=5))

    assert maths.calls == [(1, 1), (5, 2)]


async def test_an_immutable_link_takes_no_result(q: Kue, maths: Maths) -> None:
    assert await ran(q, maths.add.s(1, 1) | maths.add.si(5, 6)) == 11


async def test_the_result_none_is_passed_on(q: Kue, maths: Maths) -> None:
    await ran(q, maths.note.s("first") | maths.note.s())

    assert maths.calls == ["first", None]


async def test_no_link_starts_before_the_one_before_it_has_ended(
    q: Kue, maths: Maths
) -> None:
    handle = await (maths.add.s(1, 1) | maths.add.s(1)).enqueue()

    states = [(await job.refresh()).state for job in handle.jobs]

    assert states == [State.WAITING, State.BLOCKED]
    assert handle.id == handle.jobs[-1].id
    assert {(await job.refresh()).flow for job in handle.jobs} == {handle.flow}


async def test_a_signature_alone_is_a_plain_job(q: Kue, maths: Maths) -> None:
    handle = await maths.add.s(1, 2).enqueue()

    assert (await handle.jobs[0].refresh()).flow is None


# -- groups ------------------------------------------------------------------


async def test_a_group_returns_the_results_in_order(q: Kue, maths: Maths) -> None:
    flow = kue.group(maths.add.s(n, n) for n in range(5))

    assert await ran(q, flow) == [0, 2, 4, 6, 8]


async def test_what_follows_a_group_gets_the_list_of_results(
    q: Kue, maths: Maths
) -> None:
    flow = kue.group(maths.add.s(1, 1), maths.add.s(2, 2)) | maths.total.s()

    assert await ran(q, flow) == 6


async def test_flows_nest(q: Kue, maths: Maths) -> None:
    add, total = maths.add, maths.total
    pair = kue.group(add.s(1), add.s(2) | add.s(10))

    assert await ran(q, add.s(1, 1) | pair | total.s() | add.s(100)) == 117


async def test_a_group_of_groups_gives_a_list_of_lists(q: Kue, maths: Maths) -> None:
    inner = kue.group(maths.add.s(1, 1), maths.add.s(1, 2))

    await ran(q, kue.group(inner, maths.add.s(9, 9)) | maths.note.s())

    assert maths.calls[-1] == [[2, 3], 18]


# -- failures ----------------------------------------------------------------


async def test_the_result_of_a_flow_is_the_failure_of_a_link(
    q: Kue, maths: Maths
) -> None:
    flow = await (maths.fail.s() | maths.add.s(1)).enqueue()

    async with q.work():
        with pytest.raises(JobFailed, match="broken") as failed:
            await flow.result(timeout=PATIENCE_SECONDS)

    assert failed.value.job_id == flow.jobs[0].id
    assert (await flow.jobs[1].refresh()).state is State.BLOCKED


async def test_the_result_is_a_failure_after_a_link_that_runs_whatever_happens(
    q: Kue, maths: Maths
) -> None:
    """The last link waits for the one that failed, and would wait forever."""
    whatever = maths.fail.options(on_parent_failure="run")
    flow = await (maths.fail.s() | whatever.si() | maths.note.si("last")).enqueue()

    async with q.work():
        with pytest.raises(JobFailed) as failed:
            await flow.result(timeout=PATIENCE_SECONDS)

    assert failed.value.job_id == flow.jobs[1].id


async def test_a_failure_that_a_later_link_ignores_is_not_the_result(
    q: Kue, maths: Maths
) -> None:
    whatever = maths.add.options(on_parent_failure="run")

    assert await ran(q, maths.fail.s() | whatever.si(1, 2) | maths.add.s(3)) == 6


async def test_the_rest_is_cancelled_if_the_flow_says_so(q: Kue, maths: Maths) -> None:
    flow = maths.fail.s() | maths.add.s(1) | maths.add.s(1)
    handle = await flow.enqueue(on_parent_failure="cancel")

    async with q.work():
        with pytest.raises(JobFailed):
            await handle.result(timeout=PATIENCE_SECONDS)
        with pytest.raises(kue.JobCancelled):
            await handle.jobs[2].result(timeout=PATIENCE_SECONDS)


async def test_an_unknown_policy_is_refused_and_adds_nothing(
    q: Kue, maths: Maths
) -> None:
    flow = maths.add.s(1, 1) | maths.add.s(1)

    with pytest.raises(ValueError, match="'block', 'cancel', 'run' or 'only', not 'x'"):
        await flow.enqueue(on_parent_failure="x")  # type: ignore[arg-type]

    assert sum((await q.counts()).values()) == 0


async def test_catch_runs_once_with_the_id_of_the_failed_job(
    q: Kue, maths: Maths
) -> None:
    flow = (maths.add.s(1, 1) | maths.fail.s() | maths.add.s(1)).catch(maths.note.s())
    handle = await flow.enqueue()

    async with q.work():
        await handle.jobs[-1].result(timeout=PATIENCE_SECONDS)

    assert maths.calls == [(1, 1), handle.jobs[1].id]


async def test_catch_is_cancelled_when_nothing_fails(q: Kue, maths: Maths) -> None:
    flow = (maths.add.s(1, 1) | maths.add.s(1)).catch(maths.note.si("caught"))
    handle = await flow.enqueue()

    async with q.work():
        assert await handle.result(timeout=PATIENCE_SECONDS) == 3
        with pytest.raises(kue.JobCancelled):
            await handle.jobs[-1].result(timeout=PATIENCE_SECONDS)


async def test_a_flow_goes_on_when_the_failed_link_is_retried(q: Kue) -> None:
    broken = True

    @q.task(attempts=1)
    async def fetch() -> int:
        if broken:
            raise OSError("down")
        return 7

    @q.task
    async def save(number: int) -> int:
        return number

    handle = await (fetch.s() | save.s()).enqueue()
    async with q.work():
        with pytest.raises(JobFailed):
            await handle.result(timeout=PATIENCE_SECONDS)
        broken = False
        await handle.jobs[0].retry()
        assert await handle.jobs[1].result(timeout=PATIENCE_SECONDS) == 7


async def test_a_result_that_was_removed_fails_the_job_that_needs_it(
    q: Kue, maths: Maths
) -> None:
    handle = await (maths.add.s(1, 1) | maths.note.s()).enqueue()
    async with q.work(types=["add"]):
        await handle.jobs[0].result(timeout=PATIENCE_SECONDS)
    await handle.jobs[0].remove()

    async with q.work():
        with pytest.raises(JobFailed, match="is gone, as the job was removed"):
            await handle.result(timeout=PATIENCE_SECONDS)


async def test_a_result_of_the_wrong_type_fails_the_job_at_once(
    q: Kue, maths: Maths
) -> None:
    flow = await (maths.note.s(1) | maths.add.s(1)).enqueue()

    async with q.work():
        with pytest.raises(JobFailed, match="argument x of add"):
            await flow.result(timeout=PATIENCE_SECONDS)


async def test_cancelling_a_flow_cancels_what_has_not_ended(
    q: Kue, maths: Maths
) -> None:
    handle = await (maths.add.s(1, 1) | maths.add.s(1)).enqueue()

    await handle.cancel("not needed")

    states = {(await job.refresh()).state for job in handle.jobs}
    assert states == {State.CANCELLED}


# -- mistakes ----------------------------------------------------------------


def wrong_flows(maths: Maths) -> dict[str, Flow[Any]]:
    removed = maths.add.options(remove_on_complete=True)
    unique = maths.add.options(unique=True)
    return {
        "missing a required argument: 'y'": maths.add.s(1) | maths.add.s(1),
        "too many positional arguments; x is the result": (
            maths.add.s(1, 1) | maths.add.s(1, 2)
        ),
        r"no parameter is left .* use .si": maths.add.s(1, 1) | maths.add.s(x=1, y=2),
        "remove_on_complete": removed.s(1, 1) | maths.add.s(1),
        "unique by its arguments": maths.add.s(1, 1) | unique.s(1),
        "cannot be part of a flow": (
            maths.add.options(unique="k", debounce=1).s(1, 1) | maths.add.s(1)
        ),
        "a job waits for at most 1,000; use a batch": (
            kue.group(maths.add.s(1, 1) for _ in range(1001)) | maths.total.s()
        ),
        "tasks of one queue": maths.add.s(1, 1) | Maths(Kue("memory://")).add.s(1),
    }


@pytest.mark.parametrize("number", range(8))
async def test_a_flow_that_makes_no_sense_adds_nothing(q: Kue, number: int) -> None:
    message, flow = list(wrong_flows(Maths(q)).items())[number]

    with pytest.raises((TypeError, ValueError), match=message):
        await flow.enqueue()

    assert sum((await q.counts()).values()) == 0


def test_only_signatures_make_flows(maths: Maths) -> None:
    with pytest.raises(TypeError, match=r"made of signatures such as task.s\(…\)"):
        kue.chain(maths.add)  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="at least one"):
        kue.group()
    with pytest.raises(TypeError, match=r"not of <Task 'add'>"):
        maths.add.s(1, 1) | maths.add  # type: ignore[operator]
    with pytest.raises(TypeError, match="catch takes one call such as"):
        maths.add.s(1, 1).catch(maths.note)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="has a catch"):
        maths.add.s(1, 1).catch(maths.note.s()).catch(maths.note.s())


async def test_a_flow_that_a_cap_refuses_is_not_added_in_part(
    q: Kue, maths: Maths
) -> None:
    await q.limit("add", max_waiting=2)
    group = kue.group(maths.add.s(n, n) for n in range(4))

    with pytest.raises(kue.QueueFull):
        await (group | maths.note.s()).enqueue()

    assert await q.count(State.WAITING) == await q.count(State.BLOCKED) == 0


# -- large flows -------------------------------------------------------------


async def test_a_flow_of_several_calls_starts_when_it_is_complete(
    q: Kue, maths: Maths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flow_enqueue, "MAX_BATCH", 3)
    flow = kue.group(maths.add.s(n, n) for n in range(7)) | maths.total.s()

    assert await ran(q, flow) == 42


async def abandon(q: Kue, flow: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Die while a flow is added, and let workers notice that an hour later."""
    monkeypatch.setattr(flow_enqueue, "MAX_BATCH", 3)
    monkeypatch.setattr(flow_enqueue, "open_gate", _die)
    with pytest.raises(RuntimeError, match="killed"):
        await flow.enqueue()
    [gate] = (await q.page(type="kue.gate")).jobs
    async with q.work():
        # As if the hour had passed.
        await q.handle(gate).promote()
        with pytest.raises(kue.JobCancelled, match="stopped before it was complete"):
            await q.handle(gate).result(timeout=PATIENCE_SECONDS)


async def test_a_flow_that_was_not_added_as_a_whole_never_starts(
    q: Kue, maths: Maths, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = kue.group(maths.add.s(n, n) for n in range(7)) | maths.total.s()

    await abandon(q, flow, monkeypatch)

    assert maths.calls == []
    assert await q.count(State.CANCELLED) == 9


async def test_of_a_flow_that_was_not_added_nothing_runs_whatever_happens(
    q: Kue, maths: Maths, monkeypatch: pytest.MonkeyPatch
) -> None:
    whatever = maths.note.options(on_parent_failure="run")
    begin = kue.group(maths.add.s(n, n) for n in range(3))
    flow = kue.group(whatever.si("begin"), begin) | whatever.si("end")

    await abandon(q, flow, monkeypatch)

    assert maths.calls == []
    assert await q.count(State.CANCELLED) == 6


async def _die(*_: Any) -> None:
    raise RuntimeError("killed")


# -- jobs that add jobs ------------------------------------------------------


async def test_a_running_job_adds_jobs_that_belong_to_it(q: Kue, maths: Maths) -> None:
    @q.task
    async def spread(job: kue.ActiveJob, number: int) -> list[int]:
        return await job.add(*(maths.add.s(n, n) for n in range(number)))

    handle = await (maths.add.s(1, 1) | spread.s()).enqueue()
    async with q.work():
        children = await handle.result(timeout=PATIENCE_SECONDS)

    found = [(await q.get(child)).job for child in children]
    assert [(job.spec.parent, job.flow) for job in found if job] == [
        (handle.id, handle.flow),
        (handle.id, handle.flow),
    ]


async def test_a_running_job_inserts_jobs_into_its_chain(q: Kue, maths: Maths) -> None:
    @q.task
    async def check(job: kue.ActiveJob, number: int) -> int:
        await job.add(maths.note.s("inserted"), holds_next=True)
        return number

    handle = await (maths.add.s(1, 1) | check.s() | maths.add.s(5)).enqueue()
    async with q.work():
        assert await handle.result(timeout=PATIENCE_SECONDS) == 7

    assert maths.calls == [(1, 1), "inserted", (2, 5)]


async def test_a_running_job_holds_what_follows_it_in_a_flow_of_any_size(
    q: Kue, maths: Maths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flow_graph, "MAX_JOBS", 2)

    @q.task
    async def check(job: kue.ActiveJob) -> None:
        await job.add(maths.note.options(delay="1h").si("inserted"), holds_next=True)

    first = kue.group(maths.add.s(1, n) for n in range(3))
    flow = await (first | check.si() | maths.note.si("last")).enqueue()
    async with q.work():
        await flow.jobs[3].result(timeout=PATIENCE_SECONDS)

    assert (await flow.jobs[4].refresh()).state is State.BLOCKED


async def test_a_flow_that_waits_for_an_inserted_job_that_failed_says_so(
    q: Kue, maths: Maths
) -> None:
    @q.task
    async def check(job: kue.ActiveJob) -> list[int]:
        return await job.add(maths.fail.si(), holds_next=True)

    flow = await (check.s() | maths.note.si("last")).enqueue()
    async with q.work():
        [inserted] = await flow.jobs[0].result(timeout=PATIENCE_SECONDS)
        with pytest.raises(JobFailed, match="broken"):
            await (await q.get(inserted)).result(timeout=PATIENCE_SECONDS)

    last = await flow.jobs[1].refresh()
    assert [job.id for job in await failed_parents_of(q.store, last)] == [inserted]
    [stuck] = await failed_parents(q.store)
    assert str(stuck) == f"1 job waits for job {inserted} of type 'fail', which failed"


# -- ordinary code -----------------------------------------------------------


def test_ordinary_code_waits_for_a_flow() -> None:
    q = Kue("memory://")
    maths = Maths(q)
    handle = (maths.add.s(1, 1) | maths.add.s(1)).delay()

    with q.sync.work():
        assert handle.result(timeout=PATIENCE_SECONDS) == 3

    assert [job.id for job in handle.jobs] == [handle.flow, handle.id]
    q.sync.close()


def test_delay_is_refused_where_a_loop_runs(maths: Maths) -> None:
    async def call() -> None:
        maths.add.s(1, 1).delay()

    with pytest.raises(RuntimeError, match=r"await flow.enqueue\(\)"):
        asyncio.run(call())
