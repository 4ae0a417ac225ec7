"""
Sealed store: seals payloads on their way to an engine, and opens them on the way back.

Engines keep envelopes like any other JSON.  A queue without keys and compression calls
its engine directly, except for what only reads: there, a payload that cannot be opened
is replaced by `Sealed`, which says so.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec.structs import replace

from kue.model.sealed_payload import Envelope
from kue.model.stream import BEGINNING
from kue.store import null_store
from kue.store.contract import Store
from kue.store.null_store import NullStore
from kue.store.payload_sealing import PayloadSealing
from kue.store.validation import IdNotReserved
from kue.store.values import MAX_BATCH

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence

    from msgspec import Raw

    from kue.model.events import Event
    from kue.model.job import Draft, Job
    from kue.model.payload import JSON
    from kue.model.schedule import Schedule
    from kue.model.settings import Settings
    from kue.model.steps import JobSteps, Signal, Step
    from kue.model.stream import Chunk, Position, SentChunks
    from kue.store.contract import Events
    from kue.store.values import (
        Added,
        Change,
        Claimed,
        ClaimRequest,
        Outcome,
        Page,
        PageRequest,
        Progress,
        Reply,
        Result,
    )

#: Verbs of the hot path: a queue that seals nothing calls those of its engine.
_DIRECT = (
    *("add", "claim", "cycle", "stand_by", "settle", "progress"),
    *("append_chunks", "record_step", "receive", "signal", "update", "watch"),
)
#: How often ids are reserved for one call: a fail-over may lose them.
_RESERVATIONS = 3


def sealed(store: Store, settings: Settings) -> Store:
    """
    Return *store* with payloads sealed as *settings* demand.

    Raises:
        ConfigError: They cannot be.
    """
    # A process that runs jobs has neither a store nor keys; and the store of another
    # queue is sealed as that one demands.
    if null_store.is_job_process() or isinstance(store, NullStore | SealedStore):
        return store
    return cast("Store", SealedStore(store, PayloadSealing.of(settings)))


class SealedStore:
    """A store as the contract has it; verbs without payloads are the engine's."""

    def __init__(self, store: Store, sealing: PayloadSealing) -> None:
        #: The store itself, which has the envelopes.
        self.engine = store
        self._sealing = sealing
        if not sealing.sealer.is_active:
            for verb in _DIRECT:
                setattr(self, verb, getattr(store, verb))

    def __getattr__(self, name: str) -> Any:
        if name == "engine":
            raise AttributeError(name)
        return getattr(self.engine, name)

    def twin(self) -> Store:
        return cast("Store", SealedStore(self.engine.twin(), self._sealing))

    # -- producing -------------------------------------------------------------

    async def add(
        self,
        drafts: Sequence[Draft],
        *,
        producer: str,
        seq: int,
        durable: bool = False,
        now: int | None = None,
    ) -> list[Added]:
        for attempt in range(_RESERVATIONS):
            made = await self._sealed_drafts(drafts, now)
            try:
                return await self.engine.add(
                    made, producer=producer, seq=seq, durable=durable, now=now
                )
            except IdNotReserved:
                if attempt == _RESERVATIONS - 1:
                    raise
        raise AssertionError

    async def _sealed_drafts(
        self, drafts: Sequence[Draft], now: int | None
    ) -> Sequence[Draft]:
        texts = [self._sealing.text_of(draft) for draft in drafts]
        wanted = [
            position
            for position, (draft, text) in enumerate(zip(drafts, texts, strict=True))
            if draft.spec.sealed or self._sealing.sealer.is_wanted(text)
        ]
        named = [at for at in wanted if drafts[at].on_conflict != "replace"]
        ids: dict[int, int] = {}
        if named:
            types = [drafts[at].type for at in named]
            reserved = await self.engine.reserve(types, now=now)
            ids = dict(zip(named, reserved, strict=True))
        made = list(drafts)
        for at in wanted:
            made[at] = self._sealing.sealed_draft(drafts[at], texts[at], ids.get(at))
        return made

    async def schedule(
        self, schedule: Schedule, *, expected: Schedule | None = None
    ) -> bool:
        stored = None
        if expected is not None:
            known = await self.engine.schedules(schedule.name)
            stored = next(
                (x for x in known if self._sealing.shown_schedule(x) == expected), None
            )
            if stored is None:
                return False
        return await self.engine.schedule(
            self._sealing.sealed_schedule(schedule, stored), expected=stored
        )

    async def schedules(self, name: str | None = None) -> list[Schedule]:
        return [
            self._sealing.shown_schedule(one)
            for one in await self.engine.schedules(name)
        ]

    # -- running ---------------------------------------------------------------

    async def claim(self, request: ClaimRequest, *, now: int | None = None) -> Claimed:
        return self._started(await self.engine.claim(request, now=now))

    async def stand_by(self, request: ClaimRequest, *, timeout: float) -> Claimed:
        return self._started(await self.engine.stand_by(request, timeout=timeout))

    async def settle(
        self, outcomes: Sequence[Outcome], *, now: int | None = None
    ) -> list[Result]:
        return await self.engine.settle(
            list(map(self._sealing.ended, outcomes)), now=now
        )

    async def cycle(
        self,
        outcomes: Sequence[Outcome],
        request: ClaimRequest,
        *,
        now: int | None = None,
    ) -> tuple[list[Result], Claimed]:
        ended = list(map(self._sealing.ended, outcomes))
        results, claimed = await self.engine.cycle(ended, request, now=now)
        return results, self._started(claimed)

    def _started(self, claimed: Claimed) -> Claimed:
        return replace(claimed, jobs=list(map(self._sealing.to_run, claimed.jobs)))

    async def _sealed_jobs(self, job_ids: Iterable[int]) -> dict[int, Job]:
        """Return those of the jobs that are sealed, by id, as they are stored."""
        found = await self.engine.get(list(dict.fromkeys(job_ids)))
        return {job.id: job for job in found if job is not None and job.spec.sealed}

    async def _is_sealed(self, job_id: int, values: Sequence[JSON]) -> bool:
        """Return whether these values of a job are sealed, or should be."""
        # Without keys only those are looked at that may be sealed.
        may_be = self._sealing.sealer.is_active or any(map(Envelope.read, values))
        return bool(values and may_be and await self._sealed_jobs([job_id]))

    # -- progress, streams, steps and signals ----------------------------------

    async def progress(
        self, updates: Sequence[Progress], *, now: int | None = None
    ) -> list[Result]:
        with_data = [one.job_id for one in updates if one.data is not None]
        jobs = await self._sealed_jobs(with_data) if with_data else {}
        made = [
            replace(
                one, data=self._sealing.seal(jobs[one.job_id], "progress", one.data)
            )
            if one.data is not None and one.job_id in jobs
            else one
            for one in updates
        ]
        return await self.engine.progress(made, now=now)

    async def append_chunks(
        self, sent: Sequence[SentChunks], *, now: int | None = None
    ) -> list[Result]:
        made = list(map(self._sealing.sealed_chunks, sent))
        return await self.engine.append_chunks(made, now=now)

    async def chunks(
        self, job_id: int, after: Position = BEGINNING, *, limit: int = MAX_BATCH
    ) -> list[Chunk]:
        found = await self.engine.chunks(job_id, after, limit=limit)
        if await self._is_sealed(job_id, [chunk.value for chunk in found]):
            return [self._sealing.shown_chunk(job_id, chunk) for chunk in found]
        return list(map(self._sealing.plain_chunk, found))

    async def steps(self, job_id: int) -> JobSteps:
        found = await self.engine.steps(job_id)
        values = [
            *(step.result for step in found.steps),
            *(signal.data for signal in found.signals),
        ]
        if not await self._is_sealed(job_id, values):
            return found
        return replace(
            found,
            steps=tuple(self._sealing.shown_step(job_id, step) for step in found.steps),
            signals=tuple(
                replace(
                    one,
                    data=self._sealing.opened(job_id, f"signal:{one.name}", one.data),
                )
                for one in found.signals
            ),
        )

    async def record_step(
        self, job: Job, name: str, result: Raw, *, duration: int, now: int | None = None
    ) -> Result:
        if job.spec.sealed:
            result = self._sealing.seal(job, f"step:{name}", result)
        return await self.engine.record_step(
            job, name, result, duration=duration, now=now
        )

    async def receive(
        self, job: Job, signal: str, number: int, *, now: int | None = None
    ) -> Step | Result | None:
        found = await self.engine.receive(job, signal, number, now=now)
        if not job.spec.sealed or found is None or isinstance(found, str):
            return found
        return self._sealing.shown_step(job.id, found)

    async def signal(
        self,
        job_id: int,
        signal: Signal,
        *,
        created_at: int | None = None,
        now: int | None = None,
    ) -> Reply:
        for job in (await self._sealed_jobs([job_id])).values():
            data = self._sealing.seal(job, f"signal:{signal.name}", signal.data)
            signal = replace(signal, data=data)
        return await self.engine.signal(job_id, signal, created_at=created_at, now=now)

    # -- changing --------------------------------------------------------------

    async def update(
        self, changes: Sequence[Change], *, now: int | None = None
    ) -> list[Result]:
        touched = [one.job_id for one in changes if _touches_data(one)]
        found = await self.engine.get(list(dict.fromkeys(touched))) if touched else []
        jobs = {job.id: job for job in found if job is not None}
        made = [
            self._sealing.sealed_change(one, jobs[one.job_id])
            if _touches_data(one) and one.job_id in jobs
            else one
            for one in changes
        ]
        return await self.engine.update(made, now=now)

    # -- reading ---------------------------------------------------------------

    async def get(self, job_ids: Sequence[int]) -> list[Job | None]:
        found = await self.engine.get(job_ids)
        return [job and self._sealing.shown(job) for job in found]

    async def page(self, request: PageRequest) -> Page:
        return self._shown_page(await self.engine.page(request))

    async def members(
        self, flow: int, *, limit: int = 50, cursor: str | None = None
    ) -> Page:
        page = await self.engine.members(flow, limit=limit, cursor=cursor)
        return self._shown_page(page)

    # It reads pages of this store.
    find = Store.find

    def _shown_page(self, page: Page) -> Page:
        accepts_plain = self._sealing.sealer.accepts_plain
        if accepts_plain and not any(job.spec.sealed for job in page.jobs):
            return page
        return replace(page, jobs=list(map(self._sealing.shown, page.jobs)))

    # -- events ----------------------------------------------------------------

    @asynccontextmanager
    async def watch(
        self, job_ids: Sequence[int] | None = None, *, buffer: int = 1000
    ) -> AsyncIterator[Events]:
        async with self.engine.watch(job_ids, buffer=buffer) as events:
            yield _OpenedEvents(self._sealing, events)


class _OpenedEvents:
    """Events, with the payloads in their details opened."""

    def __init__(self, sealing: PayloadSealing, events: Events) -> None:
        self._sealing = sealing
        self._events = aiter(events)

    def __aiter__(self) -> _OpenedEvents:
        return self

    async def __anext__(self) -> Event:
        return self._sealing.shown_event(await anext(self._events))


def _touches_data(change: Change) -> bool:
    return change.data is not msgspec.UNSET or change.tags is not msgspec.UNSET
