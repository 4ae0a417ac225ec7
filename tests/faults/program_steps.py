"""
A worker that is killed at a chosen step: ``python -m tests.faults.program_steps``.

Arguments: the step, the URL, the prefix, and a file to which each effect of a handler
adds a line.  The program kills itself: nobody else could tell the moment between a call
that the store carried out and the answer to it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, cast

from kue import Kue
from kue.model import settings
from kue.model.payload import JSON
from kue.store import store_for
from kue.store.contract import Store
from kue.worker.active_job import ActiveJob
from tests.faults.program import say
from tests.support.leases import SHORT_LEASE_SECONDS

TYPE, OTHER_TYPE = "email", "sms"
#: Jobs of each type that run at once.
SLOTS = 3


class Call(NamedTuple):
    """A call of the store, with its reply once there is one."""

    args: tuple[Any, ...]
    given: dict[str, Any]
    reply: Any = None


class Moment(NamedTuple):
    """A call of the store at which the process dies."""

    verbs: tuple[str, ...]
    is_it: Callable[[Call], Any] = lambda call: True
    #: Die when the store has done it, not before.
    after: bool = False
    #: At the how manyth such call.
    nth: int = 1


def _has_outcomes(call: Call) -> bool:
    return bool(call.args[0])


def _has_runs(call: Call) -> bool:
    return bool(call.args[0].runs)


#: Outcomes travel with the next claim, or alone when there is none to make.
_SETTLING = ("cycle", "settle")
MOMENTS = {
    "woken": Moment(("wait",), lambda call: call.reply, after=True),
    "handed jobs": Moment(("stand_by",), lambda call: call.reply.jobs, after=True),
    "claimed": Moment(("cycle",), lambda call: call.reply[1].jobs, after=True),
    "before settling": Moment(_SETTLING, _has_outcomes),
    "settled": Moment(_SETTLING, _has_outcomes, after=True),
    "before a heartbeat": Moment(("renew",), _has_runs),
    "after a heartbeat": Moment(("renew",), _has_runs, after=True),
    "before handing back": Moment(("settle",)),
    "after handing back some": Moment(("settle",), after=True),
    "before handing back the rest": Moment(("settle",), nth=2),
    "after handing back": Moment(("settle",), after=True, nth=2),
    "before maintenance": Moment(("tend",)),
    "after maintenance": Moment(("tend",), lambda call: call.reply.rescued, after=True),
}
#: At these steps handlers are to be at work when the process dies.
HELD = ("held", *(m for m in MOMENTS if "heartbeat" in m or "hand" in m))


def die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("killed, and still here")


class Deadly:
    """A store for a process that is to die at *moment*."""

    def __init__(self, store: Store, moment: Moment) -> None:
        self._store = store
        self._moment = moment
        self._left = moment.nth

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._store, name)
        return self._deadly(verb) if name in self._moment.verbs else verb

    def _deadly(self, verb: Callable[..., Awaitable[Any]]) -> Any:
        async def call(*args: Any, **given: Any) -> Any:
            if self._moment.verbs in (("wait",), ("stand_by",)):
                say("waits")
            if not self._moment.after:
                self._look(Call(args, given))
            reply = await verb(*args, **given)
            if self._moment.after:
                self._look(Call(args, given, reply))
            return reply

        return call

    def _look(self, call: Call) -> None:
        if self._moment.is_it(call):
            self._left -= 1
            if not self._left:
                die()


def store_at(step: str, url: str, prefix: str) -> Store:
    store = store_for(settings.load(environ={}, url=url, prefix=prefix))
    if step not in MOMENTS:
        return store
    return cast("Store", Deadly(store, MOMENTS[step]))


def effect(path: Path, job_id: int) -> None:
    """Do something that the world can see."""
    with path.open("a") as file:
        file.write(f"{job_id}\n")


async def main(step: str, url: str, prefix: str, effects: str) -> None:
    store = store_at(step, url, prefix)
    queue = Kue(store=store, prefix=prefix, lease=SHORT_LEASE_SECONDS)

    @queue.middleware
    async def arrive(
        job: ActiveJob, call_next: Callable[[ActiveJob], Awaitable[JSON]]
    ) -> JSON:
        if step == "received":
            die()
        return await call_next(job)

    async def handle(job: ActiveJob) -> str:
        say("started", job.id)
        if step == "before the effect":
            die()
        if step in HELD:
            await asyncio.Event().wait()
        effect(Path(effects), job.id)
        return "victim"

    for type in (TYPE, OTHER_TYPE):
        queue.process(type, SLOTS, handle)
    say("ready")
    # Workers whose types share slots wait and claim apart.
    concurrency = SLOTS if step == "woken" else None
    async with queue:
        await queue.run(grace=0, concurrency=concurrency)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
