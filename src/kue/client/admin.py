"""The verbs of a queue that an operator uses: pause, resume, limit, clear."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Literal

from kue.client.queries import state_of
from kue.model.duration import Duration, epoch_ms, milliseconds
from kue.model.job import FINAL
from kue.model.names import check_path_name
from kue.store.values import Limits

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kue.client.bulk_actions import OnSwept
    from kue.client.connection import Connection
    from kue.model.job import State

WorkerOrder = Literal["stop", "stacks"]


class QueueAdmin:
    """What can be asked of a queue as a whole."""

    _session: Connection

    async def pause(
        self,
        type: str | None = None,
        *,
        worker: str | None = None,
        reason: str = "",
        by: str = "",
        until: Duration | datetime | None = None,
    ) -> None:
        """
        Hand out no more jobs of *type* (None: of any type), whoever asks.

        With *worker*, that worker alone takes no more; it hears of it with its next
        beat, and one that has a name of its own is still paused when it comes back.

        What runs goes on.  Ends with `resume`, or by itself after *until* (a duration)
        or at that moment (an aware datetime).

        Raises:
            ValueError: Both a type and a worker are given, or one is not a name.
        """
        for name, what in ((type, "type"), (worker, "worker name")):
            if name is not None:
                check_path_name(name, what=what)
        moment = None if until is None else await self._moment(until)
        await self._session.store.pause(
            type, worker=worker, reason=reason, by=by, until=moment
        )

    async def resume(
        self, type: str | None = None, *, worker: str | None = None
    ) -> bool:
        """
        End the pause of a type, of a worker or (neither given) of everything.

        Tells whether there was one.

        Raises:
            ValueError: Both a type and a worker are given.
        """
        return await self._session.store.resume(type, worker=worker)

    async def order(self, worker: str, order: WorkerOrder) -> bool:
        """
        Have a live worker do something; tell whether there is one of that name.

        It hears of it with its next beat.  Told to ``stop`` it takes no more jobs and
        leaves once those in hand have ended; ``kue worker`` starts no other in its
        place.  Told to write down its ``stacks`` it does so where `stacks` reads them.
        """
        return await self._session.store.order(worker, order)

    async def limit(
        self,
        type: str,
        *,
        concurrency: int | None = None,
        rate: int | None = None,
        per: Duration = 1,
        per_key: int | None = None,
    ) -> None:
        """
        Hold jobs of *type* back, in all workers together.

        At most *concurrency* run at once, *rate* start each *per*, *per_key* of one
        group run at once.  With none of them given nothing holds them back any more.

        Raises:
            ValueError: A limit is less than 1.
        """
        check_path_name(type, what="type")
        given = {"concurrency": concurrency, "rate": rate, "per_key": per_key}
        for name, value in given.items():
            if value is not None and value < 1:
                raise ValueError(f"{name} must be 1 or more, not {value}; or pause")
        length = milliseconds(per, field="per")
        if length < 1:
            raise ValueError(f"per must be at least a millisecond, not {per!r}")
        limits = Limits(concurrency, rate, length, per_key)
        held = any(value is not None for value in given.values())
        await self._session.store.limit(type, limits if held else None)

    async def clear(
        self,
        type: str | None = None,
        states: Iterable[State | str] = FINAL,
        *,
        on_progress: OnSwept | None = None,
    ) -> int:
        """
        Remove all jobs of *type* (None: of any) in *states*; return how many.

        By default those that have ended.  *on_progress* is called with how many were
        removed so far.

        Raises:
            ValueError: A state is unknown, or is ``active``: cancel those first.
        """
        wanted = [state_of(state) for state in states]
        total = 0
        while removed := await self._session.store.clear(type, wanted):
            total += removed
            if on_progress is not None:
                on_progress(total)
        return total

    async def _moment(self, until: Duration | datetime) -> int:
        if isinstance(until, datetime):
            return epoch_ms(until, field="until")
        wait = milliseconds(until, field="until")
        return await self._session.store.now() + wait
