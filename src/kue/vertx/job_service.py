"""
The JobService: queries and operations on jobs, local or over the event bus.

Jobs, states and ranges are those of Vert.x Kue: a job is the JSON of
`kue.vertx.job_json.show`, states have its five names in any case, ranges count from 0
and include both ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from kue.bus.message import DEFAULT_TIMEOUT
from kue.client.handle import job_of
from kue.model.errors import JobNotFound
from kue.vertx import job_json
from kue.vertx.addresses import Addresses
from kue.vertx.service_binding import Proxy, bind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kue.bus import Consumer, EventBus
    from kue.client.queue import Kue
    from kue.runtime import Verticle
    from kue.vertx.service_binding import Interceptor

#: Most jobs of one range.
MAX_RANGE = 1000
#: Most ids of one reply.
MAX_IDS = 10_000

JobId = Annotated[int, msgspec.Meta(ge=0, lt=2**53)]
#: An index into a list of jobs.
Index = Annotated[int, msgspec.Meta(ge=0, lt=2**40)]
Type = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
ShortText = Annotated[str, msgspec.Meta(max_length=20)]
JobJson = dict[str, Any]


class JobService:
    """
    The service of that name of Vert.x Kue.

    Raises:
        ValueError: An argument is invalid, or a range too large.
        StoreError: See `kue.model.errors`.
    """

    def __init__(self, q: Kue) -> None:
        self._q = q

    async def get_job(self, id: JobId) -> JobJson | None:
        """Return a job; None if there is none."""
        try:
            return job_json.show(job_of(await self._q.get(id)))
        except JobNotFound:
            return None

    async def remove_job(self, id: JobId) -> None:
        """Remove a job, even if it runs; a missing one is not an error."""
        await self._q.remove_many([id], force=True)

    async def exists_job(self, id: JobId) -> bool:
        return await self._q.exists(id)

    async def get_job_log(self, id: JobId) -> list[str]:
        """Return the lines of a job's log."""
        return [line.text for line in await self._q.logs(id)]

    # -- ranges ----------------------------------------------------------------

    async def job_range_by_state(
        self, state: ShortText, from_: Index, to: Index, order: ShortText = "asc"
    ) -> list[JobJson]:
        """Return jobs number *from_* to *to* of those in *state*."""
        return await self._range(from_, to, order, name=job_json.read_state(state))

    async def job_range_by_type(
        self,
        type: Type,
        state: ShortText,
        from_: Index,
        to: Index,
        order: ShortText = "asc",
    ) -> list[JobJson]:
        """Return jobs number *from_* to *to* of those of *type* in *state*."""
        return await self._range(
            from_, to, order, name=job_json.read_state(state), type=type
        )

    async def job_range(
        self, from_: Index, to: Index, order: ShortText = "asc"
    ) -> list[JobJson]:
        """Return jobs number *from_* to *to* of all."""
        return await self._range(from_, to, order)

    async def get_ids_by_state(self, state: ShortText) -> list[int]:
        """Return the ids of all jobs in *state*, unless they are too many."""
        name = job_json.read_state(state)
        count = await self.card(state)
        if count > MAX_IDS:
            raise ValueError(
                f"{count:,} jobs are {name}, and a reply has at most {MAX_IDS:,} "
                "ids; ask for ranges"
            )
        return [
            job.id for job in await job_json.part(self._q, 0, MAX_IDS, "asc", name=name)
        ]

    async def _range(
        self,
        first: int,
        last: int,
        order: str,
        *,
        name: str | None = None,
        type: str | None = None,
    ) -> list[JobJson]:
        if last < first:
            raise ValueError(f"a range cannot end before it begins: {first} to {last}")
        if last - first >= MAX_RANGE:
            raise ValueError(f"a range has at most {MAX_RANGE:,} jobs; ask for fewer")
        jobs = await job_json.part(
            self._q,
            first,
            last - first + 1,
            job_json.read_order(order),
            name=name,
            type=type,
        )
        return [job_json.show(job) for job in jobs]

    # -- counts ----------------------------------------------------------------

    async def card_by_type(self, type: Type, state: ShortText) -> int:
        """Return how many jobs of *type* are in *state*."""
        return (await job_json.counts(self._q, type))[job_json.read_state(state)]

    async def card(self, state: ShortText) -> int:
        """Return how many jobs are in *state*."""
        return (await job_json.counts(self._q))[job_json.read_state(state)]

    async def complete_count(self, type: Type | None = None) -> int:
        """Return how many jobs of *type* (None: of all types) are complete."""
        return (await job_json.counts(self._q, type))["complete"]

    async def failed_count(self, type: Type | None = None) -> int:
        return (await job_json.counts(self._q, type))["failed"]

    async def inactive_count(self, type: Type | None = None) -> int:
        return (await job_json.counts(self._q, type))["inactive"]

    async def active_count(self, type: Type | None = None) -> int:
        return (await job_json.counts(self._q, type))["active"]

    async def delayed_count(self, type: Type | None = None) -> int:
        return (await job_json.counts(self._q, type))["delayed"]

    async def get_all_types(self) -> list[str]:
        """Return every type that ever had a job, sorted."""
        return await self._q.types()

    async def get_work_time(self) -> int:
        """Return the total duration of all successful runs, in ms."""
        return await self._q.work_time()


class JobServiceProxy(Proxy, JobService, of=JobService):
    """A `JobService` that calls the one on the bus; see `Proxy`."""

    def __init__(
        self,
        bus: EventBus,
        address: str = Addresses().service,
        *,
        timeout: float = DEFAULT_TIMEOUT,
        token: str | None = None,
        local: bool = False,
    ) -> None:
        Proxy.__init__(self, bus, address, timeout=timeout, token=token, local=local)


def register(
    q: Kue,
    bus: EventBus | Verticle,
    address: str = Addresses().service,
    *,
    interceptors: Sequence[Interceptor] = (),
    local: bool = False,
    debug: bool = False,
) -> Consumer:
    """Register the JobService of *q*; the arguments are those of `bind`."""
    return bind(
        JobService(q),
        bus,
        address,
        interceptors=interceptors,
        local=local,
        debug=debug,
    )
