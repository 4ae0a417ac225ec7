"""Contexts: handlers run where they were registered, in order."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading

import pytest

from kue.runtime import Context, Runtime, RuntimeClosed, Verticle, current_context
from tests.runtime.waiting import Lingering, Signal, thread
from tests.support.patience import until


async def test_outside_of_a_context_there_is_none(runtime: Runtime) -> None:
    assert current_context() is None


async def test_each_call_from_outside_makes_a_context_on_the_next_loop(
    threaded: Runtime,
) -> None:
    contexts = [threaded.context() for _ in range(4)]

    names = [context.host.name for context in contexts]
    assert len(set(contexts)) == 4
    assert names == ["kue-loop-0", "kue-loop-1"] * 2


async def test_without_threads_contexts_are_on_the_loop_that_opened_it() -> None:
    async with Runtime() as runtime:
        assert runtime.context().host.loop is asyncio.get_running_loop()


async def test_in_a_context_the_current_one_is_given(runtime: Runtime) -> None:
    context = runtime.context()
    seen = Signal()

    context.run(lambda: seen.tell((current_context(), runtime.context())))

    assert await seen.told() == (context, context)


async def test_a_context_stays_on_one_thread_for_life(threaded: Runtime) -> None:
    context = threaded.context()

    async def look() -> set[str]:
        await asyncio.sleep(0)
        return {thread()}

    seen = {name for _ in range(10) for name in await context.call(look)}

    assert seen == {context.host.name}


async def test_what_a_context_is_asked_to_run_is_run_in_order(runtime: Runtime) -> None:
    context, seen, done = runtime.context(), list[int](), Signal()

    for number in range(100):
        context.run(seen.append, number)
    context.run(done.tell)

    await done.told()
    assert seen == list(range(100))


async def test_run_returns_before_the_function_is_called(runtime: Runtime) -> None:
    context, seen, done = runtime.context(), list[str](), Signal()

    def first() -> None:
        context.run(second)
        seen.append("first")

    def second() -> None:
        seen.append("second")
        done.tell()

    context.run(first)

    await done.told()
    assert seen == ["first", "second"]


async def test_an_async_function_runs_in_its_context(runtime: Runtime) -> None:
    context, seen = runtime.context(), Signal()

    async def look() -> None:
        await asyncio.sleep(0)
        seen.tell((current_context(), thread()))

    context.run(look)

    assert await seen.told() == (context, context.host.name)


async def test_a_plain_thread_may_run_something_in_a_context(runtime: Runtime) -> None:
    context, seen = runtime.context(), Signal()

    threading.Thread(target=context.run, args=(lambda: seen.tell(thread()),)).start()

    assert await seen.told() == context.host.name


async def test_a_call_returns_or_raises_what_the_function_does(
    runtime: Runtime,
) -> None:
    async def divide(one: int, other: int) -> float:
        await asyncio.sleep(0)
        return one / other

    assert await runtime.context().call(divide, 6, 2) == 3
    with pytest.raises(ZeroDivisionError):
        await runtime.context().call(divide, 6, 0)


async def test_a_call_from_its_own_context_is_made_at_once(runtime: Runtime) -> None:
    context = runtime.context()

    async def inner() -> asyncio.Task[None] | None:
        return asyncio.current_task()

    async def outer() -> bool:
        return await context.call(inner) is asyncio.current_task()

    assert await context.call(outer)


@pytest.mark.parametrize("worker", [False, True])
async def test_cancelling_a_call_cancels_the_function(
    runtime: Runtime, worker: bool
) -> None:
    verticle, linger = Verticle(), Lingering()
    await runtime.deploy(verticle, worker=worker)

    call = asyncio.create_task(verticle.context.call(linger))
    await linger.begun.told()
    call.cancel()

    with pytest.raises(asyncio.CancelledError):
        await call
    await linger.ended.told()


async def test_a_handler_that_is_cancelled_before_it_began_leaves_nothing_behind(
    runtime: Runtime,
) -> None:
    verticle, seen = Verticle(), list[str]()
    deployment_id = await runtime.deploy(verticle)

    async def never() -> None:
        seen.append("began")

    async def leave() -> None:
        # Both are on their way when the verticle ends.
        verticle.context.run(never)
        await asyncio.sleep(0)
        await runtime.undeploy(deployment_id)

    await verticle.context.call(leave)

    # A coroutine that nobody awaited would be a warning, and that an error.
    assert not runtime.deployments


async def test_context_variables_of_the_caller_are_seen(runtime: Runtime) -> None:
    variable = contextvars.ContextVar("colour", default="none")
    variable.set("green")
    seen = Signal()

    runtime.run(lambda: seen.tell(variable.get()))

    assert await seen.told() == "green"


async def test_what_a_handler_raises_goes_to_the_contexts_handler_or_the_runtimes(
    runtime: Runtime,
) -> None:
    context, own, others = runtime.context(), Signal(), Signal()
    context.exception_handler = own.tell
    runtime.exception_handler = others.tell
    error = LookupError()

    async def fail() -> None:
        raise error

    context.run(fail)
    assert await own.told() is error
    assert not others.is_told

    runtime.run(int, "no number")
    assert isinstance(await others.told(), ValueError)


async def test_without_any_it_is_logged_and_the_next_handler_runs(
    runtime: Runtime, caplog: pytest.LogCaptureFixture
) -> None:
    context, done = runtime.context(), Signal()

    with caplog.at_level(logging.ERROR):
        context.run(lambda: 1 / 0)
        context.run(done.tell)
        await done.told()

    assert "ZeroDivisionError" in caplog.text


async def test_a_failing_exception_handler_harms_nobody(
    runtime: Runtime, caplog: pytest.LogCaptureFixture
) -> None:
    context, done = runtime.context(), Signal()
    context.exception_handler = lambda error: 1 / 0

    context.run(int, "no number")
    context.run(done.tell)

    await done.told()
    assert "exception handler" in caplog.text


async def test_data_is_kept_by_context(runtime: Runtime) -> None:
    one, other = runtime.context(), runtime.context()

    one.data["colour"] = "green"

    assert one.data == {"colour": "green"}
    assert other.data == {}


async def test_each_instance_of_a_verticle_has_a_context_of_its_own(
    threaded: Runtime,
) -> None:
    contexts: list[Context] = []

    class Looking(Verticle):
        async def start(self) -> None:
            contexts.append(self.context)
            assert current_context() is self.context

    await threaded.deploy(Looking, instances=4)

    assert len(set(contexts)) == len(threaded.deployments[0].instances) == 4
    assert {context.host.name for context in contexts} == {"kue-loop-0", "kue-loop-1"}


async def test_runtimes_know_only_their_own_contexts(runtime: Runtime) -> None:
    async with Runtime() as other:

        async def look() -> bool:
            return other.context() is current_context()

        assert not await runtime.context().call(look)


async def test_a_closed_runtime_runs_nothing(runtime: Runtime) -> None:
    context = runtime.context()
    await runtime.close()

    with pytest.raises(RuntimeClosed):
        context.run(print)
    with pytest.raises(RuntimeClosed):
        await context.call(asyncio.sleep, 0)
    with pytest.raises(RuntimeClosed):
        runtime.context()
    with pytest.raises(RuntimeClosed):
        await runtime.deploy(Verticle)


def test_a_context_whose_loop_was_closed_runs_nothing() -> None:
    async def open_only() -> Context:
        return (await Runtime().open()).context()

    context = asyncio.run(open_only())

    with pytest.raises(RuntimeClosed, match="the loop of"):
        context.run(print)
    with pytest.raises(RuntimeClosed, match="the loop of"):
        asyncio.run(context.call(asyncio.sleep, 0))


async def test_a_plain_thread_gets_a_new_context(runtime: Runtime) -> None:
    seen = Signal()

    threading.Thread(target=lambda: seen.tell(runtime.context())).start()

    context = await seen.told()
    assert isinstance(context, Context)
    assert context.deployment_id is None


async def test_a_runtime_that_was_not_opened_runs_nothing() -> None:
    with pytest.raises(RuntimeClosed, match="async with"):
        Runtime().context()


async def test_a_handler_that_wants_to_exit_does_not_end_the_loop(
    threaded: Runtime, caplog: pytest.LogCaptureFixture
) -> None:
    context, done = threaded.context(), Signal()

    def leave() -> None:
        raise SystemExit(1)

    context.run(leave)
    context.run(done.tell)

    await done.told()
    await until(lambda: f"tried to end {context.host.name}" in caplog.text)


@pytest.mark.parametrize("loops", [-1, 257])
def test_the_number_of_loops_has_limits(loops: int) -> None:
    with pytest.raises(ValueError, match="loops must be 0 to 256"):
        Runtime(loops=loops)
