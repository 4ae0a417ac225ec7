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


class Moment(NamedTuple):
    """A call of the store at which the process dies."""

    verbs: tuple[str, ...]
    #: Whether a call with these arguments, and this reply if there is one, is the one.
    is_it: Callable[[tuple[Any, ...], dict[str, Any], Any], Any]
    #: Die when the store has done it, not before.
    after: bool = False
    #: At the how manyth such call.
    nth: int = 1


def _any(args: tuple[Any, ...], given: dict[str, Any], reply: Any) -> bool:
    return True


def _got_jobs(args: tuple[Any, ...], given: dict[str, Any], reply: Any) -> bool:
    return bool(reply[1].jobs)


def _has_outcomes(args: tuple[Any, ...], given: dict[str, Any], reply: Any) -> bool:
    return bool(args[0])


def _has_runs(args: tuple[Any, ...], given: dict[str, Any], reply: Any) -> bool:
    return bool(args[0].runs)


def _did_rescue(args: tuple[Any, ...], given: dict[str, Any], reply: Any) -> bool:
    return bool(reply.rescued)


def _has_work(args: tuple[Any, ...], given: dict[str, Any], reply: Any) -> bool:
    return bool(reply)


def _stood_by(args: tuple[Any, ...], given: dict[str, Any], reply: Any) -> bool:
    return bool(reply.jobs)


#: Outcomes travel with the next claim, or alone when there is none to make.
_SETTLING = ("cycle", "settle")
MOMENTS = {
    "woken": Moment(("wait",), _has_work, after=True),
    "handed jobs": Moment(("stand_by",), _stood_by, after=True),
    "claimed": Moment(("cycle",), _got_jobs, after=True),
    "before settling": Moment(_SETTLING, _has_outcomes),
    "settled": Moment(_SETTLING, _has_outcomes, after=True),
    "before a beat": Moment(("renew",), _has_runs),
    "after a beat": Moment(("renew",), _has_runs, after=True),
    "before handing back": Moment(("settle",), _any),
    "after handing back some": Moment(("settle",), _any, after=True),
    "before handing back the rest": Moment(("settle",), _any, nth=2),
    "after handing back": Moment(("settle",), _any, after=True, nth=2),
    "before upkeep": Moment(("tend",), _any),
    "after upkeep": Moment(("tend",), _did_rescue, after=True),
}
#: At these steps handlers are to be at work when the process dies.
HELD = ("before a beat", "after a beat", "held", *(m for m in MOMENTS if "hand" in m))


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
                self._look(args, given, None)
            reply = await verb(*args, **given)
            if self._moment.after:
                self._look(args, given, reply)
            return reply

        return call

    def _look(self, args: tuple[Any, ...], given: dict[str, Any], reply: Any) -> None:
        if self._moment.is_it(args, given, reply):
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
