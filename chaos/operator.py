"""``python -m chaos.operator FOLDER``: gives orders such as cancel, retry and pause."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from chaos.facts import Given
from chaos.journal import Journal, now_ms
from chaos.plan import BULK, Plan, in_time
from kue import JobError, Kue, State, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chaos.plan import Order
    from kue import Job

#: Jobs that an order chooses from.
CHOICE = 200
UNKNOWN = "error"


class Operator:
    """
    Gives orders, and records the answers.

    Promotions and retries are given twice at the same time, with the jobs as they were
    read before: as if two operators press the same button.
    """

    def __init__(self, first: Kue, second: Kue, journal: Journal) -> None:
        self._first = first
        self._second = second
        self._journal = journal
        #: The jobs that were retried last, as they were then.
        self._retried: list[Job] = []

    async def follow(self, orders: Sequence[Order]) -> None:
        """Give each order at its time, or as soon as those before it are given."""
        async for order in in_time(orders):
            await self._give(order)

    async def _give(self, order: Order) -> None:
        if order.type:
            await self._give_for_type(order)
            return
        is_late = order.verb == "retry_late"
        jobs = self._retried if is_late else await self._choose(order)
        verb = order.verb.partition("_")[0]
        if verb in ("retry", "promote"):
            both = (self._first, self._second)
            await asyncio.gather(*(self._press(q, verb, jobs) for q in both))
        elif jobs:
            await self._give_for_job(order.verb, jobs[0])
        if verb == "retry" and not is_late:
            self._retried = jobs

    async def _choose(self, order: Order) -> list[Job]:
        """Return the jobs that *order* is for, if there are any now."""
        state = State(order.state)
        try:
            page = await self._first.page(state, limit=CHOICE, descending=True)
        except StoreUnavailable:
            return []
        start = int(order.pick * len(page.jobs))
        return page.jobs[start : start + (BULK if order.is_bulk else 1)]

    # -- promotions and retries ------------------------------------------------

    async def _press(self, q: Kue, verb: str, jobs: list[Job]) -> None:
        at = now_ms()
        words = await self._words(q, verb, jobs)
        ended = now_ms()
        for job, word in zip(jobs, words, strict=True):
            ending = job.ending or ""
            self._journal.write(Given(verb, at, ended, word, id=job.id, ending=ending))

    async def _words(self, q: Kue, verb: str, jobs: list[Job]) -> list[str]:
        try:
            if len(jobs) == 1:
                return [await self._one(q, verb, jobs[0])]
            act = q.retry_many if verb == "retry" else q.promote_many
            return [result.word for result in await act(jobs)]
        except StoreUnavailable:
            return [UNKNOWN] * len(jobs)

    async def _one(self, q: Kue, verb: str, job: Job) -> str:
        handle = q.handle(job)
        try:
            if verb == "retry":
                return "done" if await handle.retry() else "already"
            await handle.promote()
        except JobError:
            return "refused"
        return "done"

    # -- everything else -------------------------------------------------------

    async def _give_for_type(self, order: Order) -> None:
        at = now_ms()
        try:
            if order.verb == "pause":
                await self._first.pause(order.type, reason="chaos")
            else:
                await self._first.resume(order.type)
            word = "done"
        except StoreUnavailable:
            word = UNKNOWN
        self._journal.write(Given(order.verb, at, now_ms(), word, type=order.type))

    async def _give_for_job(self, verb: str, job: Job) -> None:
        at = now_ms()
        try:
            if verb == "cancel":
                [result] = await self._first.cancel_many([job.id], reason="chaos")
            else:
                force = verb == "force_remove"
                [result] = await self._first.remove_many([job.id], force=force)
            word: str = result.word
        except StoreUnavailable:
            word = UNKNOWN
        self._journal.write(Given(verb, at, now_ms(), word, id=job.id))


async def main(folder: Path) -> None:
    plan = Plan.read(folder / "plan.json")
    async with Kue() as first, Kue() as second:
        operator = Operator(first, second, Journal(folder / "given.jsonl"))
        await operator.follow(plan.orders)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
