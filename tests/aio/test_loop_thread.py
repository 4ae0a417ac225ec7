"""The portal: a thread with an event loop, whatever is done to it."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import logging
import sys
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from kue import ActiveJob, Kue, StoreUnavailable
from kue.client.sync import BackgroundLoop
from tests.support.patience import PATIENCE_SECONDS


async def nothing() -> None:
    return


async def echo(value: object) -> object:
    return value


@pytest.fixture
def portal() -> Iterator[BackgroundLoop]:
    portal = BackgroundLoop(nothing)
    yield portal
    portal.close()


def test_a_call_returns_and_raises_what_the_coroutine_does(
    portal: BackgroundLoop,
) -> None:
    async def fail() -> None:
        raise LookupError("nowhere")

    assert portal.call(echo(7)) == 7
    with pytest.raises(LookupError, match="nowhere"):
        portal.call(fail())


def test_a_timeout_of_the_coroutine_is_told_like_any_error(
    portal: BackgroundLoop,
) -> None:
    async def late() -> None:
        raise TimeoutError("too late")

    with pytest.raises(TimeoutError, match="too late"):
        portal.call(late())


def test_the_context_of_the_thread_travels_along(portal: BackgroundLoop) -> None:
    trace = contextvars.ContextVar[str]("trace")
    trace.set("of this thread")

    async def read() -> str:
        return trace.get()

    assert portal.call(read()) == "of this thread"


def test_a_callback_that_exits_does_not_end_the_thread(
    portal: BackgroundLoop, caplog: pytest.LogCaptureFixture
) -> None:
    portal.call_soon(lambda: sys.exit("enough"))

    assert portal.call(echo("still here")) == "still here"
    assert "a callback tried to end kue-sync" in caplog.text


def test_what_is_asked_of_a_closed_portal_is_refused() -> None:
    portal = BackgroundLoop(nothing)
    portal.close()
    portal.close()
    portal.call_soon(nothing)

    with pytest.raises(StoreUnavailable, match="the queue was closed"):
        portal.call(echo(1))


def test_closing_ends_what_is_left() -> None:
    ended = threading.Event()
    begun = threading.Event()

    async def hang() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    portal = BackgroundLoop(nothing)
    with ThreadPoolExecutor(1) as pool:
        hanging = pool.submit(portal.call, hang())
        assert begun.wait(PATIENCE_SECONDS)
        portal.close()

        with pytest.raises(StoreUnavailable, match="the queue was closed"):
            hanging.result(45)
    assert ended.is_set()


def test_a_farewell_that_fails_is_told_to_whoever_closes() -> None:
    async def fail() -> None:
        raise OSError("no way back")

    portal = BackgroundLoop(fail)

    with pytest.raises(OSError, match="no way back"):
        portal.close()


def test_an_error_keeps_nothing_alive(portal: BackgroundLoop) -> None:
    class Precious:
        pass

    async def fail(_: Precious) -> None:
        raise LookupError

    def ask() -> weakref.ref[Precious]:
        precious = Precious()
        with pytest.raises(LookupError):
            portal.call(fail(precious))
        return weakref.ref(precious)

    kept = ask()
    gc.collect()

    assert kept() is None


# -- working -----------------------------------------------------------------


def test_jobs_are_run_beside_a_block(plain_q: Kue) -> None:
    threads: list[str] = []

    @plain_q.process("email")
    async def send(job: ActiveJob) -> str:
        threads.append(threading.current_thread().name)
        return "sent"

    with plain_q.sync.work(types=["email"]) as worker:
        assert plain_q.sync.working == {worker}
        assert plain_q.sync.enqueue("email").result(timeout=PATIENCE_SECONDS) == "sent"

    assert plain_q.sync.working == frozenset()
    assert threads == ["kue-sync"]


def test_a_plain_handler_calls_the_queue_that_runs_it(plain_q: Kue) -> None:
    @plain_q.process("first")
    def first(job: ActiveJob) -> int:
        return plain_q.sync.enqueue("second", job.data).id

    @plain_q.process("second")
    def second(job: ActiveJob) -> object:
        return job.data

    with plain_q.sync.work() as _:
        following = plain_q.sync.enqueue("first", "along").result(
            timeout=PATIENCE_SECONDS
        )
        assert plain_q.sync.get(following).result(timeout=PATIENCE_SECONDS) == "along"


def test_a_coroutine_on_that_thread_awaits_the_queue_it_knows(plain_q: Kue) -> None:
    """Though the queue has connections on another event loop, too."""

    @plain_q.process("first")
    async def first(job: ActiveJob) -> int:
        return (await plain_q.enqueue("second", job.data)).id

    @plain_q.process("second")
    async def second(job: ActiveJob) -> object:
        return (await (await plain_q.get(job.id)).refresh()).data

    async def count() -> int:
        return await plain_q.count("complete")

    with asyncio.Runner() as runner, plain_q.sync.work():
        assert runner.run(count()) == 0
        following = plain_q.sync.enqueue("first", "along").result(
            timeout=PATIENCE_SECONDS
        )
        assert plain_q.sync.get(following).result(timeout=PATIENCE_SECONDS) == "along"
        assert runner.run(count()) == 2
        if plain_q.settings.url != "memory://":
            runner.run(plain_q._connection.close())


def test_a_script_runs_what_there_is_and_ends(plain_q: Kue) -> None:
    done: list[object] = []

    @plain_q.process("email")
    async def send(job: ActiveJob) -> None:
        done.append(job.data)

    plain_q.sync.enqueue_many("email", range(3))

    plain_q.sync.run(burst=True, types=(name for name in ["email"]))

    assert sorted(done, key=str) == [0, 1, 2]


def test_a_handler_stops_the_queue_that_runs_it(plain_q: Kue) -> None:
    @plain_q.process("last")
    async def last(job: ActiveJob) -> str:
        plain_q.sync.stop()
        return "the last"

    job = plain_q.sync.enqueue("last")

    plain_q.sync.run()

    assert job.result() == "the last"


def test_a_thread_that_works_hears_no_signals_and_stops_when_told(
    plain_q: Kue, caplog: pytest.LogCaptureFixture
) -> None:
    started = threading.Event()
    plain_q.process("email", echo)
    with caplog.at_level(logging.INFO), ThreadPoolExecutor(1) as pool:
        running = pool.submit(
            plain_q.sync.run, on_start=lambda worker: started.set(), grace=1
        )
        assert started.wait(PATIENCE_SECONDS)
        plain_q.sync.stop()

        running.result(20)
