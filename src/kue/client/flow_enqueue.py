"""
Adding a flow: in one call if it fits, else behind a gate.

One call is atomic.  A flow of several calls is held back by a gate, a job of the type
``kue.gate`` that its first jobs wait for: it is opened when everything was added, and
cancels the jobs if that did not happen within an hour.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from kue.aio.tasks import cancel_all
from kue.client.backpressure import add_when_room
from kue.client.flow_handle import FlowHandle
from kue.client.handle import added_handle
from kue.model.errors import JobNotFound, StoreError
from kue.model.job import State
from kue.store.batches import bytes_of_draft, split
from kue.store.values import MAX_BATCH, REFUSED, MoveRequest
from kue.worker.flow_jobs import GATE, OPEN, use_flow_jobs

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from kue.client.connection import Connection
    from kue.client.flow_plan import FlowPlan
    from kue.client.handle import JobHandle
    from kue.model.job import Draft
    from kue.store.contract import Store
    from kue.store.values import Added

#: Opened by the producer, and run by every worker: see `kue.worker.flow_jobs`.
GATE_HOURS = 1
#: How often a program that is still adding jobs puts that hour off.
RENEW_SECONDS = 600


async def add_flow(
    connection: Connection, plan: FlowPlan, *, durable: bool = False
) -> FlowHandle[Any]:
    """Add all jobs of *plan*; raises what `Kue.enqueue` raises."""
    connection = await connection.home_of_flow()
    answers = await add_linked(connection, plan.drafts, durable=durable)
    handles = [
        added_handle(connection, draft.type, one, reader)
        for draft, one, reader in zip(plan.drafts, answers, plan.readers, strict=True)
    ]
    return FlowHandle(connection, plan, handles)


async def add_linked(
    connection: Connection, drafts: list[Draft], *, durable: bool = False
) -> list[Added]:
    """Add drafts that refer to each other; none runs before all were added."""
    await connection.subscriptions.ready()
    adding = LinkedAdd(connection, durable=durable)
    is_gated = len(calls_of(drafts)) > 1 or connection.store.spans_shards(
        {draft.type for draft in drafts}
    )
    if is_gated:
        await use_flow_jobs(connection.store)
        drafts = _behind_gate(connection, drafts)
    try:
        async with closed_gate(connection, adding, is_gated=is_gated):
            await adding.add(drafts)
    except BaseException:
        await adding.cancel("the flow could not be added as a whole")
        raise
    if is_gated:
        await open_gate(connection, adding.added[0])
    await adding.run()
    return adding.added[is_gated:]


def gate(connection: Connection) -> Draft:
    """Return a gate that is closed."""
    return connection.draft(
        GATE, None, {"delay": f"{GATE_HOURS}h", "remove_on_complete": True}
    )


@asynccontextmanager
async def closed_gate(
    connection: Connection, adding: LinkedAdd, *, is_gated: bool
) -> AsyncIterator[None]:
    """Keep a gate, the first job that is added, closed for as long as this takes."""
    if not is_gated:
        yield
        return
    renewing = asyncio.create_task(_renew(connection.store, adding))
    try:
        yield
    finally:
        await cancel_all([renewing])


async def _renew(store: Store, adding: LinkedAdd) -> None:
    while True:
        await asyncio.sleep(RENEW_SECONDS)
        # Adding reports an outage.
        with suppress(StoreError):
            if adding.added and not adding.added[0].is_refused:
                at = await store.now() + GATE_HOURS * 3_600_000
                gates, states = [adding.added[0].id], (State.DELAYED,)
                await store.move(MoveRequest(gates, State.DELAYED, at, states=states))


async def open_gate(connection: Connection, added: Added) -> None:
    """Let the jobs run that wait for a gate."""
    handle: JobHandle[None] = added_handle(connection, GATE, added)
    # One that was removed has cancelled the jobs; and null:// keeps none.
    with suppress(JobNotFound):
        # First, so that a gate which is due by now is not taken for an abandoned one.
        await handle.update(data=OPEN)
        await handle.promote()


def _behind_gate(connection: Connection, drafts: Sequence[Draft]) -> list[Draft]:
    """
    Return *drafts* after a gate.

    Those wait for it that wait for no other, or that run although others did not
    succeed: a job in front of them may be cancelled before all of them were added.
    """
    shifted = [linked(one, lambda at: at - 1 if at < 0 else at) for one in drafts]
    return [gate(connection), *(map(_gated, shifted))]


def _gated(draft: Draft) -> Draft:
    after = draft.spec.after
    needs_success = draft.on_parent_failure in ("block", "cancel")
    if needs_success and any(reference < 0 for reference in after):
        return draft
    return replace(draft, spec=replace(draft.spec, after=(*after, -1)))


def linked(draft: Draft, resolve: Callable[[int], int]) -> Draft:
    """Return *draft* with all references resolved."""
    spec = replace(draft.spec, after=tuple(map(resolve, draft.spec.after)))
    flow = None if draft.flow is None else resolve(draft.flow)
    before = tuple(map(resolve, draft.before))
    return replace(draft, spec=spec, flow=flow, before=before)


def calls_of(drafts: Sequence[Draft]) -> list[Sequence[Draft]]:
    """Return *drafts* in parts that one call takes, in order."""
    return [
        part[start : start + MAX_BATCH]
        for part in split(drafts, bytes_of_draft)
        for start in range(0, len(part), MAX_BATCH)
    ]


class LinkedAdd:
    """
    Adds drafts that refer to each other, in as many calls as they need.

    A number -k in a draft is the k-th of all drafts that it was given so far.
    """

    def __init__(self, connection: Connection, *, durable: bool = False) -> None:
        self._connection = connection
        self._durable = durable
        #: In the order of the drafts.
        self.added: list[Added] = []
        self._types: set[str] = set()

    async def add(self, drafts: Sequence[Draft]) -> None:
        """Add *drafts*, in calls of up to MAX_BATCH drafts and about 1 MiB."""
        for call in calls_of(drafts):
            await self._add_call(call)

    async def run(self) -> None:
        """Run what was added, where a connection does that itself."""
        await self._connection.run_added(self._types, self.added)

    async def cancel(self, reason: str) -> None:
        """Cancel what was added and has not ended."""
        ids = [one.id for one in self.added if one.new]
        for start in range(0, len(ids), MAX_BATCH):
            part = ids[start : start + MAX_BATCH]
            await self._connection.store.cancel(part, reason=reason)

    async def _add_call(self, drafts: Sequence[Draft]) -> None:
        first = len(self.added)
        self._types.update(draft.type for draft in drafts)
        self.added += [REFUSED] * len(drafts)

        async def add_rest(rest: Sequence[Draft]) -> list[Added]:
            answers = enumerate(self.added[first:], first)
            return await self._send(rest, [at for at, one in answers if one.is_refused])

        try:
            await add_rest(drafts)
        except BaseException:
            del self.added[first:]
            raise
        answers = self.added[first:]
        if REFUSED in answers:
            await add_when_room(self._connection.store, drafts, answers, add_rest)

    async def _send(self, drafts: Sequence[Draft], numbers: list[int]) -> list[Added]:
        """Add the drafts with these *numbers*, counted from 0, and note the answers."""
        places = {number: place for place, number in enumerate(numbers)}

        def resolved(reference: int) -> int:
            """Return an id, or the place within this call."""
            if reference > 0:
                return reference
            place = places.get(-reference - 1)
            return self.added[-reference - 1].id if place is None else -place - 1

        sent = [linked(draft, resolved) for draft in drafts]
        answers = await self._connection.batcher.add_call(sent, durable=self._durable)
        for number, answer in zip(numbers, answers, strict=True):
            self.added[number] = answer
        return answers
