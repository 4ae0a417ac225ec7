"""Administration of a queue: pause, signals, orders to workers, limits, clear."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

from kue.client.handle import JobHandle
from kue.client.queries import state_of
from kue.client.signals import send_signal
from kue.model.duration import Duration, milliseconds
from kue.model.job import FINAL
from kue.model.named_limits import StoredLimit, TaskLimit
from kue.model.names import check_path_name
from kue.store.values import Limits, PauseRequest, WhenFull

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from kue.client.bulk_actions import OnProgress
    from kue.client.connection import Connection
    from kue.model.job import State
    from kue.model.payload import JSON

WorkerOrder = Literal["stop", "stacks"]
OnFull = Literal["refuse", "wait", "drop-oldest"]


class WithId(Protocol):
    """The handle of a job."""

    @property
    def id(self) -> int: ...


class QueueAdmin:
    """The methods of a queue for operators."""

    _connection: Connection

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
        Let no worker claim jobs of *type* (None: of any type).

        With *worker*, only that worker claims no more; it is notified with its next
        heartbeat, and one that was given a name is still paused after a restart.

        Running jobs go on.  Ends with `resume`, or by itself after *until* (a duration)
        or at that moment (an aware datetime).

        Raises:
            ValueError: Both a type and a worker are given, or one is not a name.
        """
        for name, what in ((type, "type"), (worker, "worker name")):
            if name is not None:
                check_path_name(name, what=what)
        moment = None
        if until is not None:
            moment = await self._connection.moment(until, field="until")
        await self._connection.store.pause(
            PauseRequest(type, worker=worker, reason=reason, by=by, until=moment)
        )

    async def resume(
        self, type: str | None = None, *, worker: str | None = None
    ) -> bool:
        """
        End the pause of a type, of a worker or (neither given) of everything.

        Returns whether there was one.

        Raises:
            ValueError: Both a type and a worker are given.
        """
        return await self._connection.store.resume(type, worker=worker)

    async def signal(self, job: int | WithId, name: str, data: JSON = None) -> None:
        """
        Send a signal to a job, given by its id or its handle::

            await q.signal(42, "approved", {"by": "ann"})

        ``job.wait_for("approved")`` in its handler returns *data*.  It is kept until
        the job waits for it; a job that waits goes on at once.

        Raises:
            JobNotFound: There is no such job.
            InvalidTransition: It has ended.
            BadPayload: *data* is not JSON, or has more than 64 KiB.
            ValueError: *name* cannot be one, or 1,000 signals were sent to the job.
        """
        if isinstance(job, JobHandle):
            return await job.signal(name, data)
        job_id = job if isinstance(job, int) else job.id
        await send_signal(self._connection, job_id, name, data)

    async def order(self, worker: str, order: WorkerOrder) -> bool:
        """
        Send an order to a live worker; return whether there is one of that name.

        The worker receives it with its next heartbeat.  On ``stop`` it claims no more
        jobs and leaves once its running jobs have ended; ``kue worker`` starts no other
        in its place.  On ``stacks`` it stores its stacks, for `stacks` to read.
        """
        return await self._connection.store.order(worker, order)

    async def limit(
        self,
        type: str,
        *,
        concurrency: int | None = None,
        rate: int | None = None,
        per: Duration = 1,
        per_key: int | None = None,
        max_waiting: int | None = None,
        when_full: OnFull = "refuse",
        full_timeout: Duration = 30,
        fair: bool = False,
        weights: Mapping[str, int] | None = None,
        ageing: Duration | None = None,
    ) -> None:
        """
        Limit jobs of *type*, across all workers, and set the order they start in.

        At most *concurrency* run at once, *rate* start each *per*, *per_key* of one
        group run at once.

        At most *max_waiting* wait.  When that many do, an add raises `QueueFull`
        (``when_full="refuse"``), waits for room for up to *full_timeout* and then
        raises it (``"wait"``), or cancels the oldest waiting job of the lowest priority
        (``"drop-oldest"``).

        In a *fair* type groups take turns within each priority; a group with a weight
        of 3 in *weights* gets three turns where others get one.  With *ageing*, waiting
        that long is worth one step of priority, so that no job waits forever.

        Every call replaces what was set before.  With nothing given, all is removed.

        Raises:
            ValueError: A limit is less than 1, or two of them do not go together.
        """
        check_path_name(type, what="type")
        given = {
            "concurrency": concurrency,
            "rate": rate,
            "per_key": per_key,
            "max_waiting": max_waiting,
        }
        for name, value in given.items():
            if value is not None and value < 1:
                raise ValueError(f"{name} must be 1 or more, not {value}; or pause")
        length = milliseconds(per, field="per")
        if length < 1:
            raise ValueError(f"per must be at least a millisecond, not {per!r}")
        limits = Limits(
            **given,
            per=length,
            when_full=_policy(when_full),
            full_timeout=milliseconds(full_timeout, field="full_timeout"),
            fair=fair,
            ageing=None if ageing is None else milliseconds(ageing, field="ageing"),
            weights=dict(weights or {}),
        )
        _check_cap(limits)
        is_used = limits != Limits(per=length)
        await self._connection.store.limit(type, limits if is_used else None)

    async def set_limit(self, name: str, limit: TaskLimit) -> None:
        """
        Set the rule of a named limit, also while jobs run::

            await q.set_limit("stripe", kue.concurrency(10))

        It stays until it is set again, or a program that declares another rule starts.

        Raises:
            ValueError: *limit* is a task's: it has a key or another name.
        """
        check_path_name(name, what="limit")
        if limit.by is not None or limit.name not in (None, name):
            raise ValueError(
                f"the rule of limit {name!r} is a number alone: by= and name= are for "
                "the limits of a task"
            )
        known = (await self._connection.store.named_limits()).get(name)
        declared = None if known is None else known.declared
        stored = StoredLimit(limit.rule, declared)
        await self._connection.store.set_named_limit(name, stored)

    async def clear_limit(self, name: str) -> bool:
        """
        Delete the rule of a named limit; return whether there was one.

        Jobs that count against it are no longer limited, until a program that declares
        it starts.
        """
        if name not in await self._connection.store.named_limits():
            return False
        await self._connection.store.set_named_limit(name, None)
        return True

    async def clear(
        self,
        type: str | None = None,
        states: Iterable[State | str] = FINAL,
        *,
        on_progress: OnProgress | None = None,
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
        while removed := await self._connection.store.clear(type, wanted):
            total += removed
            if on_progress is not None:
                on_progress(total)
        return total


def _policy(when_full: OnFull) -> WhenFull:
    try:
        return WhenFull(when_full)
    except ValueError:
        raise ValueError(
            f"when_full must be 'refuse', 'wait' or 'drop-oldest', not {when_full!r}"
        ) from None


def _check_cap(limits: Limits) -> None:
    """Raise `ValueError` for what happens at a cap if there is no cap."""
    policy = (limits.when_full, limits.full_timeout)
    none = Limits()
    if limits.max_waiting is None and policy != (none.when_full, none.full_timeout):
        raise ValueError(
            "when_full and full_timeout say what happens at max_waiting; give that too"
        )
