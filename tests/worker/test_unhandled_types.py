"""Friction 15: jobs of a mistyped type wait, and somebody says so."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kue import ActiveJob, Kue
from kue.cli import unknown_names
from kue.model.errors import StoreCorrupt
from kue.model.job import State
from kue.store.contract import Store
from kue.store.values import RenewRequest, WorkerStatus
from kue.worker.unhandled_types import MAX_NAMES, unhandled, warn_of_unhandled
from tests.support.command_line import CommandLine
from tests.support.flaky import Wire
from tests.support.patience import until

MESSAGE = "1 job of type 'emial' waits, and no live worker takes it; "
MEANT = "did you mean 'email'?"


def worker(*types: str, alive: bool = True) -> WorkerStatus:
    info: dict[str, Any] = {"slots": dict.fromkeys(types, 1)} if types else {}
    return WorkerStatus("w", 0, alive, 0, info)


def waiting(**types: int) -> dict[str, dict[State, int]]:
    return {type: {State.WAITING: number} for type, number in types.items()}


def test_types_that_no_live_worker_handles_are_named_with_near_ones() -> None:
    workers = [worker("email", "sms"), worker("emial", alive=False)]

    found = unhandled(waiting(email=1, emial=1, video=2, sms=0), workers)

    assert [(one.type, one.waiting, one.near) for one in found] == [
        ("emial", 1, ["email"]),
        ("video", 2, []),
    ]
    assert str(found[0]) == MESSAGE + MEANT


def test_a_worker_that_does_not_say_what_it_handles_may_handle_anything() -> None:
    assert unhandled(waiting(email=1), [worker()]) == []


def test_every_live_worker_handles_the_built_in_jobs_of_flows() -> None:
    built_in = {"kue.gate": {State.WAITING: 1}, "kue.batch": {State.WAITING: 1}}

    assert unhandled(built_in, [worker("email")]) == []
    assert len(unhandled(built_in, [worker("email", alive=False)])) == 2


def test_near_names_are_looked_for_while_that_is_quick() -> None:
    mistyped = waiting(**{f"emial{number:02}": 1 for number in range(30)})

    few = unhandled(mistyped, [worker("email")])
    many = unhandled(mistyped, [worker("email", *map(str, range(MAX_NAMES)))])

    assert [bool(one.near) for one in few] == [True] * 10 + [False] * 20
    assert not any(one.near for one in many)


async def test_a_worker_logs_a_few_types_and_how_many_more_there_are(
    q: Kue, wire: Wire, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(23):
        await q.enqueue(f"type{number}")

    await warn_of_unhandled(wire.store, 0, asyncio.sleep)

    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 21
    assert "3 more types" in messages[-1]


async def test_a_hint_that_fails_does_not_end_the_worker(
    wire: Wire, caplog: pytest.LogCaptureFixture
) -> None:
    wire.spoil("workers", TypeError("a fault of ours"))

    await warn_of_unhandled(wire.store, 0, asyncio.sleep)

    assert "could not look for types without a worker" in caplog.text


async def test_a_command_does_not_fail_for_a_hint(wire: Wire, q: Kue) -> None:
    wire.spoil("workers", StoreCorrupt("damaged"))

    await unknown_names.warn_of_unhandled(q)
    await unknown_names.warn_of_unhandled_type(q, "email")


async def at_work(store: Store) -> None:
    await store.renew(
        RenewRequest("web-1", lease=600_000, info={"slots": {"email": 5}})
    )


def test_adding_a_job_that_no_worker_ever_handled_is_told(kue: CommandLine) -> None:
    kue.arrange(at_work)

    right = kue("job", "add", "email")
    wrong = kue("job", "add", "emial")

    assert right.err == ""
    assert (wrong.code, wrong.out) == (0, "2\n")
    note = "kue: note: no worker has ever handled jobs of type 'emial'; "
    assert wrong.err == f"{note}{MEANT}\n"


def test_nothing_is_told_where_no_worker_ever_was(kue: CommandLine) -> None:
    assert kue("job", "add", "email").err == ""
    assert kue("queue", "list").err == ""


@pytest.mark.parametrize("command", [["queue", "list"], ["doctor"]])
def test_waiting_jobs_that_nobody_handles_are_told(
    kue: CommandLine, command: list[str]
) -> None:
    kue.arrange(at_work)
    kue("job", "add", "emial")

    said = kue(*command)

    assert said.code == 0
    assert f"kue: note: {MESSAGE}{MEANT}\n" in said.err


async def test_a_worker_says_at_its_start_what_nobody_handles(
    q: Kue, caplog: pytest.LogCaptureFixture
) -> None:
    async def echo(job: ActiveJob) -> None:
        """Take it."""

    q.process("email", echo)
    await q.enqueue("emial")

    async with q.work():
        await until(lambda: MESSAGE + MEANT in caplog.text)

    [record] = [one for one in caplog.records if "emial" in one.getMessage()]
    assert record.levelname == "WARNING"
