"""``python -m chaos.producer FOLDER NUMBER``: adds jobs according to the plan."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

import kue
from chaos.facts import Attempted
from chaos.journal import Journal, now_ms
from chaos.plan import Plan, in_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chaos.plan import Call, Chore

BACKOFF_SECONDS = 0.2


class Producer:
    """Adds jobs through the queue, and records the answers."""

    def __init__(self, queue: kue.Kue, journal: Journal) -> None:
        self._queue = queue
        self._journal = journal

    async def follow(self, calls: Sequence[Call]) -> None:
        """Make each call at its time, however long the ones before it take."""
        async with asyncio.TaskGroup() as group:
            async for call in in_time(calls):
                for chores in split(call):
                    group.create_task(self._add(chores))

    async def _add(self, chores: Sequence[Chore]) -> None:
        at = now_ms()
        for chore in chores:
            self._journal.write(Attempted(chore.key, at))
        try:
            handles = await self._send(chores)
        except kue.DurabilityUnknown as exc:
            self._warn(chores, at, exc)
            return
        except kue.StoreError as exc:
            self._fail(chores, at, exc)
            return
        for chore, handle in zip(chores, handles, strict=True):
            added = Attempted(chore.key, at, now_ms(), handle.id, handle.is_new)
            self._journal.write(replace(added, is_durable=chore.durable))

    async def _send(self, chores: Sequence[Chore]) -> Sequence[kue.JobHandle[Any]]:
        durable = chores[0].durable
        if len(chores) > 1:
            drafts = map(self._draft, chores)
            return await self._queue.enqueue_many(drafts, durable=durable)
        [chore] = chores
        data = msgspec.to_builtins(chore)
        added = self._queue.enqueue(chore.type, data, durable=durable, **options(chore))
        return [await added]

    def _warn(
        self, chores: Sequence[Chore], at: int, warning: kue.DurabilityUnknown
    ) -> None:
        for chore, job_id in zip(chores, warning.job_ids, strict=True):
            # It does not report whether a unique job existed already.
            is_new = chore.unique is None
            self._journal.write(
                Attempted(chore.key, at, now_ms(), job_id, is_new, is_warned=True)
            )

    def _fail(self, chores: Sequence[Chore], at: int, exc: Exception) -> None:
        for chore in chores:
            self._journal.write(Attempted(chore.key, at, now_ms(), error=str(exc)))

    def _draft(self, chore: Chore) -> kue.Draft:
        data = msgspec.to_builtins(chore)
        return self._queue.draft(chore.type, data, **options(chore))


def split(call: Call) -> list[Sequence[Chore]]:
    """Return the jobs of *call*, grouped as they are added."""
    if call.how == "bulk":
        return [call.chores]
    return [[chore] for chore in call.chores]


def options(chore: Chore) -> dict[str, Any]:
    return {
        "priority": chore.priority,
        "delay": chore.delay,
        "attempts": chore.attempts,
        "backoff": kue.fixed(BACKOFF_SECONDS),
        "timeout": chore.timeout or None,
        "unique": chore.unique,
        "delivery": "at-most-once" if chore.once else "at-least-once",
    }


async def main(folder: Path, number: int) -> None:
    plan = Plan.read(folder / "plan.json")
    journal = Journal(folder / f"attempted-{number}.jsonl")
    async with kue.Kue() as queue:
        await Producer(queue, journal).follow(plan.calls[number])


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
