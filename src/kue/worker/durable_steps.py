"""
Durable steps of a run: kept results, sleeps and waits, passed without repeating them.

The first step of a run reads what earlier runs kept.  A sleep or a wait that is not
over raises `Suspended`: the run ends as released, and the store delays the job until
the time or the signal.  Then the handler runs again from the top.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from datetime import datetime
from inspect import isawaitable, iscoroutine
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeVar

from kue.aio.callbacks import awaited, is_async
from kue.aio.loop_calls import running
from kue.model.duration import MAX_MS, Duration, epoch_ms, milliseconds
from kue.model.errors import BadPayload, SignalTimeout, StepError, Suspended
from kue.model.names import check_name
from kue.model.payload import JSON, MAX_RESULT, decode, encode
from kue.model.steps import MAX_STEPS, JobSteps, Step
from kue.store.reply_errors import check
from kue.store.step_record import field_of
from kue.store.values import Result

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from msgspec import Raw

    from kue.worker.active_job import ActiveJob

T = TypeVar("T")

#: Stands for a default that was not given.
NO_DEFAULT: Any = object()


class StepStore(Protocol):
    """Where the steps of one run are kept."""

    async def read(self) -> JobSteps: ...

    async def record(self, name: str, result: Raw, duration: int) -> Result: ...

    async def receive(self, signal: str, number: int) -> Step | Result | None: ...

    async def call(self, function: Callable[[], Any]) -> Any:
        """Call a plain function from a coroutine."""
        ...

    def block(self, call: Coroutine[Any, Any, T]) -> T:
        """Return what *call* returns, in a thread without an event loop."""
        ...


class DurableSteps:
    """The steps of one run."""

    def __init__(self, active: ActiveJob, store: StepStore) -> None:
        self._active = active
        self._store = store
        self._kept: dict[str, Step] | None = None
        #: Fields that this run has come to.
        self._used: set[str] = set()
        #: How many sleeps without a name, and waits for each signal, it has come to.
        self._numbers: Counter[str] = Counter()

    # -- steps -----------------------------------------------------------------

    def step(self, name: str, function: Callable[[], Any]) -> Any:
        """Return the kept result, or run *function*; awaitable on an event loop."""
        if running() is not None:
            return self._step(name, function)
        store = self._store
        kept = store.block(self._find(name))
        if kept is not None:
            return kept.result
        began = time.monotonic()
        result = function()
        if isawaitable(result):
            result = store.block(awaited(result))
        return store.block(self._keep(name, result, began))

    async def _step(self, name: str, function: Callable[[], Any]) -> JSON:
        kept = await self._find(name)
        if kept is not None:
            return kept.result
        began = time.monotonic()
        call = function() if is_async(function) else self._store.call(function)
        result = await awaited(await call)
        return await _finished(self._keep(name, result, began))

    async def _find(self, name: str) -> Step | None:
        field = field_of("step", check_name(name, what="the name of a step"))
        if field in self._used:
            raise StepError(
                f"job {self._active.id} has come to step {name!r} before in this run; "
                "give each step its own name, such as f'charge {order}'"
            )
        return await self._pass(field)

    async def _pass(self, field: str) -> Step | None:
        """Come to a step, sleep or wait; return it if it was kept."""
        if self._kept is None:
            found = (await self._store.read()).steps
            self._kept = {field_of(s.kind, s.name, s.number): s for s in found}
        self._used.add(field)
        kept = self._kept.get(field)
        if kept is None and len(self._used | self._kept.keys()) > MAX_STEPS:
            self._refuse()
        return kept

    async def _keep(self, name: str, result: JSON, began: float) -> JSON:
        try:
            encoded = encode(result, field=f"step {name!r}", limit=MAX_RESULT)
        except BadPayload as exc:
            # Another attempt would do again what it did, and fail again.
            raise StepError(f"the result cannot be kept: {exc}") from exc
        duration = round((time.monotonic() - began) * 1000)
        word = await self._store.record(name, encoded, duration)
        if word is Result.REFUSED:
            self._refuse()
        check(self._active.id, word, wanted="keep a step")
        return decode(encoded)

    def _refuse(self) -> NoReturn:
        raise StepError(
            f"job {self._active.id} has {MAX_STEPS:,} steps, sleeps and waits, and no "
            "more can be kept; let it end, and add another job for the rest"
        )

    # -- sleeps ----------------------------------------------------------------

    def sleep(self, delay: Duration | datetime, name: str | None) -> Any:
        return self._run(self._sleep(delay, name))

    async def _sleep(self, delay: Duration | datetime, name: str | None) -> None:
        length = self._length(delay)
        if name is None:
            self._numbers["sleep"] += 1
            name = str(self._numbers["sleep"])
        field = field_of("sleep", check_name(name, what="the name of a sleep"))
        if field in self._used:
            raise StepError(
                f"job {self._active.id} has come to sleep {name!r} before in this run; "
                "give each sleep its own name, or none"
            )
        kept = await self._pass(field)
        left = length if kept is None else self._left(kept)
        if left > 0:
            raise Suspended("sleeps", field, left)

    def _length(self, delay: Duration | datetime) -> int:
        if isinstance(delay, datetime):
            return max(0, epoch_ms(delay, field="delay") - self._active.now_ms)
        return milliseconds(delay, field="delay")

    def _left(self, kept: Step) -> int:
        if kept.until is None:
            return MAX_MS
        return kept.until - self._active.now_ms

    # -- signals ---------------------------------------------------------------

    def wait_for(self, signal: str, timeout: Duration | None, default: JSON) -> Any:
        return self._run(self._wait_for(signal, timeout, default))

    async def _wait_for(
        self, signal: str, timeout: Duration | None, default: JSON
    ) -> JSON:
        check_name(signal, what="the name of a signal")
        length = MAX_MS if timeout is None else milliseconds(timeout, field="timeout")
        self._numbers[f"wait:{signal}"] += 1
        number = self._numbers[f"wait:{signal}"]
        field = field_of("wait", signal, number)
        wait = await self._pass(field)
        if wait is None or wait.ended_at is None:
            found = await self._store.receive(signal, number)
            if isinstance(found, Result):
                check(self._active.id, found, wanted="wait for a signal")
            else:
                wait = found
        if isinstance(wait, Step) and wait.ended_at is not None:
            return self._received(wait, default)
        left = length if wait is None else max(1, self._left(wait))
        raise Suspended(f"waits for signal {signal!r}", field, left)

    def _received(self, wait: Step, default: JSON) -> JSON:
        if not wait.timed_out:
            return wait.result
        if default is not NO_DEFAULT:
            return default
        raise SignalTimeout(
            f"job {self._active.id} waited for signal {wait.name!r}, which did not "
            "come in time; retry the job to wait again"
        )

    def _run(self, call: Coroutine[Any, Any, T]) -> Any:
        return self._store.block(call) if running() is None else call


def check_function(name: str, function: object) -> None:
    """Raise `StepError` if what a step is to run is not a function."""
    if callable(function):
        return
    if iscoroutine(function):
        function.close()
    raise StepError(
        f"step {name!r} takes a function and its arguments, such as "
        f"job.step({name!r}, function, 1), not {function!r}"
    )


async def _finished(call: Coroutine[Any, Any, T]) -> T:
    """Return what *call* returns; if the caller is cancelled, when that has ended."""
    task = asyncio.ensure_future(call)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        # What the step did is done: a moment more, and no later run does it again.
        await asyncio.wait([task], timeout=1)
        task.cancel()
        raise
