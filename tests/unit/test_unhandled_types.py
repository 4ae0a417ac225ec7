"""Friction 15: jobs of a mistyped type wait, and somebody says so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kue.job import State
from kue.store.values import WorkerStatus
from kue.unhandled import unhandled
from tests.unit.patience import until

if TYPE_CHECKING:
    from kue import ActiveJob, Kue
    from kue.store.base import Store
    from tests.support.command_line import CommandLine

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


async def at_work(store: Store) -> None:
    await store.renew("web-1", lease=600_000, info={"slots": {"email": 5}})


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
        await until(lambda: MESSAGE + MEANT in caplog.text, seconds=60)

    [record] = [one for one in caplog.records if "emial" in one.getMessage()]
    assert record.levelname == "WARNING"
