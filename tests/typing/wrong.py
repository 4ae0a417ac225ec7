"""
Uses that must be errors.

Each has a ``type: ignore`` with the code of its error, and mypy warns of one that is
not needed: a use that is no longer an error fails the test.
"""

from __future__ import annotations

import kue
from kue import JobHandle, Kue, SyncJobHandle, SyncKue
from kue.client.connection import Connection
from kue.model.payload import JSON
from tests.typing.tasks import count, report, send


def to_text(stored: JSON) -> str:
    return str(stored)


# -- handles -----------------------------------------------------------------


def a_reader_makes_something_else(session: Connection) -> None:
    _: JobHandle[int] = JobHandle(session, 1, "pay", reader=to_text)  # type: ignore[arg-type]


def who_needs_more_takes_less(handle: JobHandle[object]) -> JobHandle[int]:
    return handle  # type: ignore[return-value]


async def a_result_is_not_what_was_hoped(handle: JobHandle[int]) -> str:
    return await handle.result()  # type: ignore[return-value]


async def a_coroutine_is_no_result(handle: JobHandle[int]) -> int:
    return handle.result()  # type: ignore[return-value]


async def a_change_has_a_name(handle: JobHandle[int]) -> None:
    await handle.update(7)  # type: ignore[call-arg]


# -- builders ----------------------------------------------------------------


def a_level_is_a_number_or_a_name(q: Kue) -> None:
    q.create_job("email").priority(1.5)  # type: ignore[arg-type]


def a_level_has_one_of_five_names(q: Kue) -> None:
    q.create_job("email").priority("urgent")  # type: ignore[arg-type]
    send.options(priority="urgent")  # type: ignore[arg-type]


def a_delivery_is_one_of_two(q: Kue) -> None:
    q.create_job("email").delivery("twice")  # type: ignore[arg-type]


def a_job_waits_for_jobs(q: Kue) -> None:
    q.create_job("email").after("yesterday")  # type: ignore[arg-type]


def a_type_is_text(q: Kue) -> None:
    q.create_job(7)  # type: ignore[arg-type]


# -- the blocking side -------------------------------------------------------


async def nothing_is_awaited(q: Kue) -> None:
    await q.sync.enqueue("email")  # type: ignore[misc]
    async with q.sync:  # type: ignore[attr-defined]
        pass


def handles_of_both_sides_are_not_the_same(job: SyncJobHandle[int]) -> JobHandle[int]:
    return job  # type: ignore[return-value]


def an_order_is_one_of_two(q: SyncKue) -> None:
    q.range(0, 9, "down")  # type: ignore[arg-type]


async def fill(q: Kue, number: int) -> int:
    return number


def ones_own_coroutine_is_called_as_it_is_written(q: SyncKue) -> None:
    q.call(fill, "many")  # type: ignore[arg-type]
    q.call(fill)  # type: ignore[call-arg]
    q.call(len)  # type: ignore[arg-type]


# -- tasks -------------------------------------------------------------------


async def arguments_are_those_of_the_function() -> None:
    await send.enqueue(7)  # type: ignore[arg-type]
    await send.enqueue()  # type: ignore[call-arg]
    await send.enqueue(to="a@b.c", body="x")  # type: ignore[call-arg]
    await send.options(priority="high").enqueue(7)  # type: ignore[arg-type]
    count.delay("words", twice=1)  # type: ignore[arg-type]
    count(7)  # type: ignore[arg-type]


async def options_do_not_mix_with_arguments() -> None:
    await send.enqueue("a@b.c", priority="high")  # type: ignore[call-arg]
    send.options(urgency="high")  # type: ignore[call-arg]
    send.options(attempts="many")  # type: ignore[arg-type]


async def a_result_is_what_the_function_returns() -> str:
    job = await count.enqueue([])
    return await job.result()  # type: ignore[return-value]


async def the_job_is_not_given_by_the_caller() -> None:
    await report.enqueue(7, 8)  # type: ignore[call-arg]


# -- flows -------------------------------------------------------------------


async def a_link_without_a_result_has_all_arguments() -> None:
    send.si()  # type: ignore[call-arg]
    count.si("words", twice=7)  # type: ignore[arg-type]


async def a_flow_is_made_of_signatures() -> None:
    kue.group(send)  # type: ignore[call-overload]
    send.s("a@b.c") | count  # type: ignore[operator]
    kue.batch().then(count)  # type: ignore[arg-type]


async def a_flow_returns_what_its_last_link_does() -> str:
    handle = await (send.s("a@b.c") | count.s()).enqueue()
    return await handle.result()  # type: ignore[return-value]


async def a_policy_is_one_of_four() -> None:
    await send.s("a@b.c").enqueue(on_parent_failure="stop")  # type: ignore[arg-type]
