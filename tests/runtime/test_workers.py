"""Worker verticles and blocking code: on threads of a pool, in order."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from kue.runtime import Runtime, RuntimeClosed, Verticle, current_context
from tests.runtime.waiting import Lingering, Signal, thread
from tests.support.patience import PATIENCE_SECONDS


class Peak:
    """Counts how many are in it at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._now = 0
        self.most = 0

    def __enter__(self) -> None:
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
        # Long enough for another to come in, if nothing keeps it out.
        time.sleep(0.001)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._now -= 1


async def worker(runtime: Runtime, **options: Any) -> Verticle:
    verticle = Verticle()
    await runtime.deploy(verticle, worker=True, **options)
    return verticle


# -- worker verticles ----------------------------------------------------------


async def test_a_worker_starts_and_stops_on_threads_of_the_pool(
    runtime: Runtime,
) -> None:
    seen: list[str] = []

    class Working(Verticle):
        async def start(self) -> None:
            assert current_context() is self.context
            seen.append(thread())

        async def stop(self) -> None:
            seen.append(thread())

    await runtime.undeploy(await runtime.deploy(Working, worker=True))

    assert len(seen) == 2
    assert all(name.startswith("kue-worker-") for name in seen)


async def test_a_worker_may_have_a_pool_of_its_own(runtime: Runtime) -> None:
    verticle = await worker(runtime, pool="images", pool_size=1)
    seen = Signal()

    verticle.context.run(lambda: seen.tell(thread()))

    assert await seen.told() == "images-0"


async def test_a_worker_may_block_and_the_loop_goes_on(runtime: Runtime) -> None:
    verticle, begun, go_on = await worker(runtime), Signal(), Signal()

    async def block() -> Any:
        begun.tell()
        return go_on.wait()

    call = asyncio.create_task(verticle.context.call(block))
    await begun.told()
    go_on.tell("blocked")

    assert await call == "blocked"


async def test_handlers_of_a_worker_never_run_two_at_once_and_keep_their_order(
    runtime: Runtime,
) -> None:
    verticle, peak, seen, done = await worker(runtime), Peak(), list[int](), Signal()

    def block(number: int) -> None:
        with peak:
            seen.append(number)

    async def wait(number: int) -> None:
        with peak:
            await asyncio.sleep(0)
            seen.append(number)

    for number in range(100):
        verticle.context.run(wait if number % 2 else block, number)
    verticle.context.run(done.tell)

    await done.told()
    assert peak.most == 1
    assert seen == list(range(100))


async def test_instances_of_a_worker_run_side_by_side(runtime: Runtime) -> None:
    await runtime.deploy(Verticle, worker=True, instances=3)
    [deployment] = runtime.deployments
    meeting = threading.Barrier(3, timeout=PATIENCE_SECONDS)

    async def meet() -> int:
        return meeting.wait()

    calls = [one.context.call(meet) for one in deployment.instances]
    assert sorted(await asyncio.gather(*calls)) == [0, 1, 2]


async def test_many_workers_share_the_few_threads_of_a_pool(runtime: Runtime) -> None:
    made = [await worker(runtime, pool="few", pool_size=2) for _ in range(10)]

    async def look() -> str:
        await asyncio.sleep(0)
        return thread()

    names = await asyncio.gather(*(one.context.call(look) for one in made))

    assert set(names) <= {"few-0", "few-1"}


async def test_a_plain_handler_of_a_worker_may_start_a_loop(runtime: Runtime) -> None:
    verticle, seen = await worker(runtime), Signal()

    def run() -> None:
        seen.tell(asyncio.run(asyncio.sleep(0, "ran")))

    verticle.context.run(run)

    assert await seen.told() == "ran"


async def test_a_worker_calls_itself_without_waiting_for_itself(
    runtime: Runtime,
) -> None:
    verticle = await worker(runtime)

    async def inner() -> str:
        return "inner"

    async def outer() -> str:
        return await verticle.context.call(inner)

    assert await verticle.context.call(outer) == "inner"


async def test_a_worker_that_wants_to_exit_harms_nobody(runtime: Runtime) -> None:
    verticle, told, done = await worker(runtime), Signal(), Signal()
    runtime.exception_handler = told.tell

    def leave() -> None:
        raise SystemExit(1)

    verticle.context.run(leave)
    verticle.context.run(done.tell)

    await done.told()
    assert isinstance(await told.told(), SystemExit)


async def test_a_handler_of_a_worker_that_was_cancelled_is_no_failure(
    runtime: Runtime, caplog: pytest.LogCaptureFixture
) -> None:
    verticle, done = await worker(runtime), Signal()

    async def give_up() -> None:
        raise asyncio.CancelledError

    verticle.context.run(give_up)
    verticle.context.run(done.tell)

    await done.told()
    assert caplog.text == ""


async def test_tasks_that_a_worker_leaves_behind_end_with_it(runtime: Runtime) -> None:
    verticle, linger = Verticle(), Lingering()
    deployment_id = await runtime.deploy(verticle, worker=True)
    left: list[asyncio.Task[None]] = []

    async def leave_behind() -> None:
        left.append(asyncio.create_task(linger()))
        await asyncio.sleep(0)

    await verticle.context.call(leave_behind)
    await runtime.undeploy(deployment_id)

    assert linger.ended.is_told


async def test_a_worker_that_is_undeployed_runs_nothing(runtime: Runtime) -> None:
    verticle = Verticle()
    await runtime.undeploy(await runtime.deploy(verticle, worker=True))

    with pytest.raises(RuntimeClosed):
        verticle.context.run(print)


async def test_a_worker_deploys_children(runtime: Runtime) -> None:
    seen: list[str] = []

    class Child(Verticle):
        async def stop(self) -> None:
            seen.append("child")

    class Parent(Verticle):
        async def start(self) -> None:
            await self.runtime.deploy(Child)
            await self.runtime.deploy(Child, worker=True)

        async def stop(self) -> None:
            seen.append("parent")

    await runtime.undeploy(await runtime.deploy(Parent, worker=True))

    assert seen == ["child", "child", "parent"]


async def test_a_named_pool_ends_with_the_last_who_holds_it(runtime: Runtime) -> None:
    class Looking(Verticle):
        async def start(self) -> None:
            self.config["threads"] = thread()

    one = await runtime.deploy(Looking, worker=True, pool="named")
    other = await runtime.deploy(Looking, worker=True, pool="named", pool_size=3)
    [pool] = {deployment.pool for deployment in runtime.deployments}
    assert pool is not None
    assert pool.size == 20

    await runtime.undeploy(one)
    pool.submit(lambda: None)
    await runtime.undeploy(other)

    with pytest.raises(RuntimeClosed, match="the pool 'named' is closed"):
        pool.submit(lambda: None)


@pytest.mark.parametrize("size", [0, 1001])
async def test_the_size_of_a_pool_has_limits(runtime: Runtime, size: int) -> None:
    with pytest.raises(ValueError, match="must have 1 to 1000 threads"):
        await runtime.deploy(Verticle, worker=True, pool="odd", pool_size=size)


# -- execute_blocking ----------------------------------------------------------


async def test_blocking_code_runs_in_a_worker_thread_and_its_result_comes_back(
    runtime: Runtime,
) -> None:
    context = runtime.context()

    async def ask() -> tuple[str, str]:
        name = await context.execute_blocking(thread)
        return name, thread()

    name, back = await context.call(ask)

    assert name.startswith("kue-worker-")
    assert back == context.host.name


async def test_blocking_code_gets_arguments_and_its_errors_are_raised(
    runtime: Runtime,
) -> None:
    assert await runtime.execute_blocking(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        await runtime.execute_blocking(divmod, 7, 0)


async def test_an_exhausted_iterator_in_blocking_code_is_an_error_and_no_hang(
    runtime: Runtime,
) -> None:
    empty: Iterator[int] = iter([])

    with pytest.raises(RuntimeError, match="StopIteration"):
        await runtime.execute_blocking(lambda: next(empty))


async def test_an_async_function_is_not_blocking_code(runtime: Runtime) -> None:
    function: Any = asyncio.sleep

    with pytest.raises(TypeError, match="is async"):
        await runtime.execute_blocking(function, 0)


async def test_blocking_code_knows_its_context_and_its_variables(
    runtime: Runtime,
) -> None:
    context = runtime.context()
    variable = contextvars.ContextVar("colour", default="none")
    variable.set("green")

    def look() -> tuple[object, str]:
        return current_context(), variable.get()

    assert await context.execute_blocking(look) == (context, "green")


async def test_blocking_code_of_a_context_runs_in_order_unless_it_need_not(
    runtime: Runtime,
) -> None:
    context, peak, seen = runtime.context(), Peak(), list[int]()
    meeting = threading.Barrier(3, timeout=PATIENCE_SECONDS)

    def block(number: int) -> None:
        with peak:
            seen.append(number)

    await asyncio.gather(*(context.execute_blocking(block, n) for n in range(50)))

    assert peak.most == 1
    assert seen == list(range(50))
    calls = [context.execute_blocking(meeting.wait, ordered=False) for _ in range(3)]
    assert sorted(await asyncio.gather(*calls)) == [0, 1, 2]


async def test_blocking_code_of_others_runs_side_by_side(runtime: Runtime) -> None:
    meeting = threading.Barrier(3, timeout=PATIENCE_SECONDS)

    calls = [runtime.context().execute_blocking(meeting.wait) for _ in range(3)]
    assert sorted(await asyncio.gather(*calls)) == [0, 1, 2]


async def test_one_that_fails_does_not_stop_those_after_it(runtime: Runtime) -> None:
    context = runtime.context()

    results = await asyncio.gather(
        context.execute_blocking(divmod, 1, 0),
        context.execute_blocking(divmod, 1, 1),
        return_exceptions=True,
    )

    assert isinstance(results[0], ZeroDivisionError)
    assert results[1] == (1, 0)


async def test_what_is_cancelled_before_its_turn_is_not_executed(
    runtime: Runtime,
) -> None:
    context, go_on, seen = runtime.context(), Signal(), list[str]()
    first = asyncio.create_task(context.execute_blocking(go_on.wait))
    second = asyncio.create_task(context.execute_blocking(seen.append, "second"))
    third = asyncio.create_task(context.execute_blocking(seen.append, "third"))
    await asyncio.sleep(0)

    second.cancel()
    await asyncio.wait([second])
    go_on.tell()
    await asyncio.gather(first, third)

    assert seen == ["third"]


async def test_workers_that_fill_their_pool_still_execute_blocking_code(
    runtime: Runtime,
) -> None:
    made = [await worker(runtime, pool="one", pool_size=1) for _ in range(2)]

    async def ask() -> tuple[str, str]:
        here = current_context()
        assert here is not None
        ordered = await here.execute_blocking(thread)
        return ordered, await here.execute_blocking(thread, ordered=False)

    names = await asyncio.gather(*(one.context.call(ask) for one in made))

    assert all(name.startswith("kue-blocking-") for pair in names for name in pair)


# -- worker executors ----------------------------------------------------------


async def test_an_executor_has_threads_of_its_name(runtime: Runtime) -> None:
    executor = runtime.worker_executor("reports", 2)

    assert await executor.execute_blocking(thread) == "reports-0"


async def test_an_executor_keeps_the_order_of_each_context(runtime: Runtime) -> None:
    executor, context = runtime.worker_executor("reports"), runtime.context()
    peak = Peak()

    def block() -> None:
        with peak:
            # Long enough for another to come in, were it let.
            threading.Event().wait(0.001)

    async def ask() -> None:
        await asyncio.gather(*(executor.execute_blocking(block) for _ in range(20)))

    await context.call(ask)

    assert peak.most == 1


async def test_executors_of_one_name_share_their_threads(runtime: Runtime) -> None:
    one = runtime.worker_executor("reports", 1)
    other = runtime.worker_executor("reports", 5)
    one.close()
    one.close()

    assert await other.execute_blocking(thread) == "reports-0"
    with pytest.raises(RuntimeClosed, match="'reports' is closed"):
        await one.execute_blocking(thread)


async def test_an_executor_of_a_verticle_is_closed_with_it(runtime: Runtime) -> None:
    class Reporting(Verticle):
        async def start(self) -> None:
            self.executor = self.runtime.worker_executor("reports")

    verticle = Reporting()
    deployment_id = await runtime.deploy(verticle)
    assert await verticle.executor.execute_blocking(thread) == "reports-0"

    await runtime.undeploy(deployment_id)

    with pytest.raises(RuntimeClosed):
        await verticle.executor.execute_blocking(thread)
