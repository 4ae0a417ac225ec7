"""Tasks: functions whose calls can be jobs."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any

import msgspec
import pytest

from kue import ActiveJob, BadPayload, JobFailed, Kue, State, current_job
from tests.support.engines import Engine
from tests.support.patience import PATIENCE_SECONDS
from tests.worker.working import worked


class Colour(Enum):
    RED = "red"


@dataclass
class Mail:
    to: str
    at: datetime


class Size(msgspec.Struct):
    width: int


# -- making one --------------------------------------------------------------


def test_a_task_is_still_the_function() -> None:
    q = Kue("memory://")

    @q.task
    def double(n: int) -> int:
        """Twice as much."""
        return n * 2

    assert double(4) == 8
    assert (double.__name__, double.__doc__) == ("double", "Twice as much.")


async def test_a_task_of_a_coroutine_function_is_awaited_as_ever() -> None:
    q = Kue("memory://")

    @q.task(name="maths.double", attempts=9)
    async def double(n: int) -> int:
        return n * 2

    assert await double(4) == 8
    assert double.name == "maths.double"


def test_tasks_are_tried_three_times_unless_they_say_otherwise() -> None:
    """`create_job` keeps Kue's default, a single attempt."""
    q = Kue("memory://")

    @q.task
    async def careful() -> None: ...

    @q.task(attempts=1, backoff=None)
    async def careless() -> None: ...

    assert careful.draft().spec.max_attempts == 3
    assert careful.draft().spec.backoff is not None
    assert careless.draft().spec.max_attempts == 1
    assert careless.draft().spec.backoff is None
    assert q.create_job("careful").draft.spec.max_attempts == 1


def test_options_of_a_call_win_over_those_of_the_task() -> None:
    q = Kue("memory://")

    @q.task(priority="high", tags=["mail"])
    async def send(to: str) -> None: ...

    plain = send.draft(to="a@b.c")
    other = send.options(priority="low", delay="10m").draft(to="a@b.c")

    assert (plain.priority, plain.spec.tags, plain.spec.delay) == (-10, ("mail",), 0)
    assert (other.priority, other.spec.tags) == (10, ("mail",))
    assert other.spec.delay == 600_000


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"priority": "urgent"}, "priority 'urgent' is unknown"),
        ({"timeout": "soon"}, "timeout"),
        ({"attempts": 0}, "attempts must be from 1"),
        ({"concurrency": 0}, "n must be 1 or more, not 0"),
        ({"execution": "loop"}, "is a plain function, which would block"),
        ({"execution": "fiber"}, "execution is 'loop', 'thread' or 'process'"),
        ({"execution": "process"}, "move it to the top of a module"),
    ],
)
def test_options_that_make_no_sense_are_refused_where_the_task_is_made(
    options: dict[str, Any], message: str
) -> None:
    q = Kue("memory://")

    def send() -> None: ...

    with pytest.raises(ValueError, match=message):
        q.task(**options)(send)


def test_a_coroutine_function_needs_no_thread() -> None:
    async def send() -> None: ...

    with pytest.raises(ValueError, match="needs no thread"):
        Kue("memory://").task(execution="thread")(send)


def test_two_tasks_cannot_have_one_name() -> None:
    q = Kue("memory://")
    q.process("send", print)

    with pytest.raises(ValueError, match="'send' has a handler"):

        @q.task
        async def send() -> None: ...


class Socket:
    """Nothing that JSON could describe."""


def test_a_parameter_that_cannot_be_made_from_json_is_refused() -> None:
    q = Kue("memory://")

    with pytest.raises(TypeError, match=r"parameter socket of send .* use a dataclass"):

        @q.task
        async def send(socket: Socket) -> None: ...


def test_parameters_must_have_names() -> None:
    q = Kue("memory://")

    with pytest.raises(
        TypeError, match="parameter numbers of add cannot be passed by name"
    ):

        @q.task
        def add(*numbers: int) -> None: ...


# -- calling -----------------------------------------------------------------


def test_a_call_that_does_not_fit_is_an_error_where_it_is_made() -> None:
    q = Kue("memory://")

    @q.task
    async def send(to: str, title: str = "hi") -> None: ...

    with pytest.raises(TypeError, match=r"send\(\): missing a required argument: 'to'"):
        send.draft()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"send\(\): got an unexpected keyword"):
        send.draft(to="a", body="b")  # type: ignore[call-arg]
    with pytest.raises(BadPayload, match=r"data\.to: cannot be written as JSON"):
        send.draft(to=object())  # type: ignore[arg-type]


async def test_arguments_come_back_as_their_annotations_say(q: Kue) -> None:
    seen: list[Any] = []

    @q.task
    async def everything(
        mail: Mail,
        size: Size,
        colour: Colour,
        numbers: list[int],
        *,
        maybe: str | None = None,
        big: int = 2**70,
        **others: float,
    ) -> None:
        seen.append((mail, size, colour, numbers, maybe, big, others))

    when = datetime(2026, 1, 2, tzinfo=UTC)
    job = await everything.enqueue(
        Mail("a@b.c", when), Size(3), colour=Colour.RED, numbers=[1, 2], extra=1.5
    )
    await worked(q, job)

    expected = (Mail("a@b.c", when), Size(3), Colour.RED, [1, 2], None, 2**70)
    assert seen == [(*expected, {"extra": 1.5})]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"n": "x"}, "argument n of double: Expected `int`, got `str`"),
        ({}, "double needs the argument n"),
        ({"n": 1, "m": 2}, "double has no parameter m; there are: n"),
        ([1], "double takes an object of arguments, but the data is a list"),
    ],
)
async def test_data_that_does_not_fit_fails_the_job_at_once(
    q: Kue, data: Any, message: str
) -> None:
    @q.task(attempts=5)
    async def double(n: int) -> int:
        return n * 2

    job = await q.enqueue("double", data, attempts=5)
    with pytest.raises(JobFailed) as caught:
        await worked(q, job)

    assert (caught.value.kind, caught.value.message) == ("BadArguments", message)
    assert (await job.refresh()).attempts == 1


async def test_a_task_that_takes_no_arguments_needs_no_data(q: Kue) -> None:
    @q.task
    async def ping() -> str:
        return "pong"

    assert await worked(q, await q.enqueue("ping")) == "pong"


async def test_a_result_is_what_the_function_returns_by_its_annotation(q: Kue) -> None:
    @q.task
    async def write(to: str) -> Mail:
        return Mail(to, datetime(2026, 1, 2, tzinfo=UTC))

    mail = await worked(q, await write.enqueue("a@b.c"))

    assert mail == Mail("a@b.c", datetime(2026, 1, 2, tzinfo=UTC))


async def test_many_calls_are_enqueued_at_once(q: Kue) -> None:
    @q.task
    async def double(n: int) -> int:
        return n * 2

    first = await double.enqueue_many({"n": n} for n in range(3))
    second = await double.enqueue_many([double.options(priority="high").draft(9)])
    async with q.work():
        results = [
            await job.result(timeout=PATIENCE_SECONDS) for job in [*first, *second]
        ]

    assert results == [0, 2, 4, 18]


async def test_unique_by_arguments_adds_a_call_once(q: Kue) -> None:
    @q.task(unique=True)
    async def send(to: str, title: str = "") -> None: ...

    first = await send.enqueue(to="a@b.c", title="hi")
    again = await send.enqueue(title="hi", to="a@b.c")
    other = await send.enqueue(to="a@b.c", title="ho")

    assert (again.id, again.is_new) == (first.id, False)
    assert other.is_new


async def test_a_default_that_is_left_out_is_the_same_call(q: Kue) -> None:
    @q.task(unique=True)
    async def send(to: str, title: str = "hi") -> None: ...

    first = await send.enqueue("a@b.c")
    again = await send.enqueue("a@b.c", title="hi")

    assert (again.id, again.is_new) == (first.id, False)


# -- the job -----------------------------------------------------------------


async def test_a_parameter_may_ask_for_the_job(q: Kue) -> None:
    @q.task
    async def first(job: ActiveJob, n: int) -> list[int]:
        return [job.id, job.attempt, n]

    @q.task
    def second(job, n):  # type: ignore[no-untyped-def]
        return [job.id, job.max_attempts, n]

    @q.task
    async def third(n: int, *, this: ActiveJob | None = None) -> list[int]:
        assert this is not None
        return [this.id, this.attempt, n]

    jobs = [await first.enqueue(7), await second.enqueue(n=8), await third.enqueue(9)]
    async with q.work():
        results = [await job.result(timeout=PATIENCE_SECONDS) for job in jobs]

    assert results == [[jobs[0].id, 1, 7], [jobs[1].id, 3, 8], [jobs[2].id, 1, 9]]


async def test_a_task_that_takes_the_job_cannot_be_called_without_one(q: Kue) -> None:
    @q.task
    async def inner(job: ActiveJob) -> int:
        return job.id

    @q.task
    async def outer() -> int:
        return await inner()

    with pytest.raises(RuntimeError, match="inner takes the job that it runs for"):
        await inner()

    job = await outer.enqueue()
    assert await worked(q, job) == job.id


def test_there_is_no_current_job_outside_of_one() -> None:
    with pytest.raises(RuntimeError, match="there is no current job here"):
        current_job()


async def test_code_that_a_handler_calls_finds_the_job_in_coroutines_and_threads(
    q: Kue,
) -> None:
    def whoami() -> int:
        return current_job().id

    @q.task
    async def on_the_loop() -> int:
        await asyncio.sleep(0)
        return whoami()

    @q.task
    def in_a_thread() -> list[Any]:
        return [whoami(), threading.current_thread() is threading.main_thread()]

    jobs: list[Any] = [await on_the_loop.enqueue(), await in_a_thread.enqueue()]
    async with q.work():
        results = [await job.result(timeout=PATIENCE_SECONDS) for job in jobs]

    assert results == [jobs[0].id, [jobs[1].id, False]]


# -- from ordinary code ------------------------------------------------------


def test_delay_enqueues_from_ordinary_code(place: Engine) -> None:
    q = Kue(place.settings.url, prefix=place.settings.prefix)

    @q.task
    def double(n: int) -> int:
        return n * 2

    with q.sync, q.sync.work():
        job = double.delay(4)
        assert job.result(timeout=PATIENCE_SECONDS) == 8
        assert job.refresh().state is State.COMPLETE


# -- what is wrong is said where it is written --------------------------------------


async def test_a_wrong_option_names_the_right_one(q: Kue) -> None:
    @q.task
    async def send(to: str) -> None: ...

    for misuse in (
        lambda: q.task(prio=1)(send.function),  # type: ignore[call-overload]
        lambda: send.options(prio=1),  # type: ignore[call-arg]
        lambda: q.draft("email", prio=1),
    ):
        with pytest.raises(TypeError, match=r"prio is not .* did you mean priority"):
            misuse()
    with pytest.raises(TypeError, match=r"prio is not .* did you mean priority"):
        await q.enqueue("email", prio=1)


@pytest.mark.parametrize("unique", [True, "k"])
async def test_options_are_checked_at_once(q: Kue, unique: str | bool) -> None:
    @q.task
    async def send(to: str) -> None: ...

    keyed = send.options(unique=unique, unique_for="1h")
    with pytest.raises(ValueError, match="priority 'urgent' is unknown"):
        keyed.options(priority="urgent")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="attempts must be from 1"):
        keyed.options(attempts=0)
    assert (await keyed.enqueue("ann")).is_new


async def test_delay_where_an_event_loop_runs_says_what_to_write(q: Kue) -> None:
    """Friction 19: a caller of `delay` in an async view has written no `sync`."""

    @q.task
    async def send(to: str) -> None: ...

    with pytest.raises(RuntimeError) as caught:
        send.delay("ann")

    assert str(caught.value) == (
        "send.delay() would block the event loop that runs in this thread; "
        "write await send.enqueue(…) instead"
    )


async def test_a_task_waits_for_jobs_as_they_are_held(q: Kue) -> None:
    """Friction 19: by their handles, not only by their ids."""

    @q.task
    async def send(to: str) -> None: ...

    first = await send.enqueue("ann")
    second = await send.options(after=[first], parent=first).enqueue("bob")

    job = await second.refresh()
    assert (job.spec.after, job.spec.parent) == ((first.id,), first.id)


@pytest.mark.parametrize("unique", [True, "key"])
def test_an_option_that_can_be_read_once_holds_for_every_call(
    unique: str | bool,
) -> None:
    q = Kue("memory://")

    @q.task(tags=(tag for tag in ["post"]))
    async def send(to: str) -> None: ...

    calls = send.options(after=(job_id for job_id in [7]), unique=unique)
    for _ in range(2):
        spec = calls.draft("ann").spec
        assert (spec.after, spec.tags) == ((7,), ("post",))
