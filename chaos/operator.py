"""``python -m chaos.operator FOLDER``: cancels, retries, removes, pauses, resumes."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from chaos.facts import Given
from chaos.journal import Journal, now_ms
from chaos.plan import Plan
from kue import State, StoreUnavailable, settings
from kue.store import store_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chaos.plan import Order
    from kue.store.base import Store

#: Jobs that an order chooses from.
CHOICE = 200
NOT_KNOWN = "error"


class Operator:
    """Gives orders, and writes down what it was told."""

    def __init__(self, store: Store, journal: Journal) -> None:
        self._store = store
        self._journal = journal

    async def follow(self, orders: Sequence[Order]) -> None:
        """Give each order at its moment, or as soon as those before it are given."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        for order in orders:
            # The plan says when.
            await asyncio.sleep(began + order.at - loop.time())
            await self._give(order)

    async def _give(self, order: Order) -> None:
        job_id = 0 if order.type else await self._choose(order)
        if not (order.type or job_id):
            return
        at = now_ms()
        word = await self._said(order, job_id)
        self._journal.write(
            Given(order.verb, at, now_ms(), word, id=job_id, type=order.type)
        )

    async def _choose(self, order: Order) -> int:
        """Return the job that *order* is about; 0 when there is none at the moment."""
        state = State(order.state)
        try:
            page = await self._store.page(state, limit=CHOICE, descending=True)
        except StoreUnavailable:
            return 0
        return page.jobs[int(order.pick * len(page.jobs))].id if page.jobs else 0

    async def _said(self, order: Order, job_id: int) -> str:
        try:
            return await self._do(order, job_id)
        except StoreUnavailable:
            return NOT_KNOWN

    async def _do(self, order: Order, job_id: int) -> str:
        match order.verb:
            case "pause":
                await self._store.pause(order.type, reason="chaos")
                return "done"
            case "resume":
                return "done" if await self._store.resume(order.type) else "already"
            case "cancel":
                [reply] = await self._store.cancel([job_id], reason="chaos")
            case "retry":
                [reply] = await self._store.move([job_id], State.WAITING)
            case "remove":
                [reply] = await self._store.remove([job_id])
            case _:
                [reply] = await self._store.remove([job_id], force=True)
        return reply.word


async def main(folder: Path) -> None:
    plan = Plan.read(folder / "plan.json")
    store = store_for(settings.load())
    try:
        await Operator(store, Journal(folder / "given.jsonl")).follow(plan.orders)
    finally:
        await store.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
