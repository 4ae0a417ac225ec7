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

from kue.model.errors import PayloadRefused
from kue.model.job import SEALED, Completed, Reached
from kue.model.sealed_payload import (
    Envelope,
    Sealed,
    Sealer,
    binding_to_job,
    binding_to_key,
    binding_to_schedule,
    data_of,
    opened_spec,
    place_in,
    protection_of,
)
from kue.store import null_store
from kue.store.codec import encode_json
from kue.store.contract import Store
from kue.store.null_store import NullStore
from kue.store.validation import IdNotReserved

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence

    from msgspec import Raw

    from kue.model.events import Event
    from kue.model.job import Attempt, Draft, Ending, Job
    from kue.model.payload import JSON
    from kue.model.schedule import Schedule
    from kue.model.settings import Settings
    from kue.model.steps import JobSteps, Signal, Step
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
    *("record_step", "receive", "signal", "update", "watch"),
)
#: How often ids are reserved for one call: a fail-over may lose them.
_RESERVATIONS = 3
_UNPROTECTED = (
    "neither signed nor encrypted, and this queue runs only jobs that are; set "
    "accept_plain ($KUE_ACCEPT_PLAIN) while some are left"
)


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
    sealer = Sealer(
        settings.payload_keys,
        settings.payload_protection,
        compress_over=settings.compress_over,
        max_data=settings.max_data,
    )
    accepts_plain = settings.accept_plain or not sealer.is_protecting
    return cast("Store", SealedStore(store, sealer, accepts_plain))


class SealedStore:
    """A store as the contract has it; verbs without payloads are the engine's."""

    def __init__(self, store: Store, sealer: Sealer, accepts_plain: bool) -> None:
        #: The store itself, which has the envelopes.
        self.engine = store
        self._sealer = sealer
        self._accepts_plain = accepts_plain
        if not sealer.is_active:
            for verb in _DIRECT:
                setattr(self, verb, getattr(store, verb))

    def __getattr__(self, name: str) -> Any:
        if name == "engine":
            raise AttributeError(name)
        return getattr(self.engine, name)

    def twin(self) -> Store:
        twin = SealedStore(self.engine.twin(), self._sealer, self._accepts_plain)
        return cast("Store", twin)

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
        texts = [self._text_of(draft) for draft in drafts]
        wanted = [
            position
            for position, (draft, text) in enumerate(zip(drafts, texts, strict=True))
            if draft.spec.sealed or self._sealer.is_wanted(text)
        ]
        named = [at for at in wanted if drafts[at].on_conflict != "replace"]
        ids: dict[int, int] = {}
        if named:
            types = [drafts[at].type for at in named]
            reserved = await self.engine.reserve(types, now=now)
            ids = dict(zip(named, reserved, strict=True))
        made = list(drafts)
        for at in wanted:
            made[at] = self._sealed_draft(drafts[at], texts[at], ids.get(at))
        return made

    def _text_of(self, draft: Draft) -> bytes:
        """Return the data of a draft as JSON; that of a dead letter may be sealed."""
        spec = draft.spec
        if spec.sealed != SEALED:
            return encoded(spec.data)
        value = msgspec.json.decode(encoded(spec.data))
        place = data_of(draft, limit=self._sealer.max_data)
        try:
            return encode_json(self._sealer.open_as_named(value, place))
        except PayloadRefused as exc:
            raise PayloadRefused(f"no job was added: its data is {exc}") from None

    def _sealed_draft(self, draft: Draft, text: bytes, job_id: int | None) -> Draft:
        place = data_of(draft, limit=self._sealer.max_data)
        binding = binding_to_key(draft.unique or "")
        if job_id is not None:
            binding = binding_to_job(job_id)
        least = protection_of(draft.spec) or ""
        data = self._sealer.seal(text, binding, place, least)
        return replace(draft, id=job_id, spec=replace(draft.spec, data=data, sealed=1))

    async def schedule(
        self, schedule: Schedule, *, expected: Schedule | None = None
    ) -> bool:
        stored = None
        if expected is not None:
            known = await self.engine.schedules(schedule.name)
            stored = next(
                (x for x in known if self._shown_schedule(x) == expected), None
            )
            if stored is None:
                return False
        return await self.engine.schedule(
            self._sealed_schedule(schedule), expected=stored
        )

    def _sealed_schedule(self, schedule: Schedule) -> Schedule:
        draft, data = schedule.draft, schedule.draft.spec.data
        if isinstance(data, Sealed):
            # Changed by somebody who cannot open it: it stays as it is.
            spec = replace(draft.spec, data=data.envelope)
            return replace(schedule, draft=replace(draft, spec=spec))
        text = encoded(data)
        if not self._sealer.is_wanted(text):
            return schedule
        place = data_of(draft, limit=self._sealer.max_data)
        made = self._sealer.seal(text, binding_to_schedule(schedule.name), place)
        spec = replace(draft.spec, data=made, sealed=SEALED)
        return replace(schedule, draft=replace(draft, spec=spec))

    async def schedules(self, name: str | None = None) -> list[Schedule]:
        return [self._shown_schedule(one) for one in await self.engine.schedules(name)]

    def _shown_schedule(self, schedule: Schedule) -> Schedule:
        draft, spec = schedule.draft, schedule.draft.spec
        if spec.sealed != SEALED:
            return schedule
        binding = binding_to_schedule(schedule.name)
        place = data_of(draft)._replace(
            belongs=binding.__eq__, limit=self._sealer.max_data
        )
        data = self._sealer.tried(spec.data, place)
        is_open = not isinstance(data, Sealed)
        # An open one is as it was given: it is compared with what code declares.
        spec = replace(spec, data=data, sealed=0 if is_open else SEALED)
        return replace(schedule, draft=replace(draft, spec=spec))

    # -- running ---------------------------------------------------------------

    async def claim(self, request: ClaimRequest, *, now: int | None = None) -> Claimed:
        return self._started(await self.engine.claim(request, now=now))

    async def stand_by(self, request: ClaimRequest, *, timeout: float) -> Claimed:
        return self._started(await self.engine.stand_by(request, timeout=timeout))

    async def settle(
        self, outcomes: Sequence[Outcome], *, now: int | None = None
    ) -> list[Result]:
        return await self.engine.settle(list(map(self._ended, outcomes)), now=now)

    async def cycle(
        self,
        outcomes: Sequence[Outcome],
        request: ClaimRequest,
        *,
        now: int | None = None,
    ) -> tuple[list[Result], Claimed]:
        ended = list(map(self._ended, outcomes))
        results, claimed = await self.engine.cycle(ended, request, now=now)
        return results, self._started(claimed)

    def _started(self, claimed: Claimed) -> Claimed:
        return replace(claimed, jobs=list(map(self._to_run, claimed.jobs)))

    def _to_run(self, job: Job) -> Job:
        if job.spec.sealed or self._accepts_plain:
            return self._shown(job)
        data = Sealed(job.spec.data, _UNPROTECTED)
        return replace(job, spec=replace(job.spec, data=data, sealed=SEALED))

    def _ended(self, outcome: Outcome) -> Outcome:
        job = outcome.job
        if not job.spec.sealed:
            return outcome
        return replace(outcome, ending=self._sealed_ending(job, outcome.ending))

    def _sealed_ending(self, job: Job, ending: Ending) -> Ending:
        if isinstance(ending, Completed) and ending.result is not None:
            ending = replace(ending, result=self._seal(job, "result", ending.result))
        reached = ending.progress
        if reached is not msgspec.UNSET and reached.data is not None:
            data = self._seal(job, "progress", reached.data)
            ending = replace(ending, progress=Reached(reached.percent, data))
        return ending

    def _seal(self, job: Job, kind: str, value: JSON) -> Raw:
        """Return a value of a sealed job other than its data."""
        binding, place = binding_to_job(job.id), place_in(job.id, kind)
        least = protection_of(job.spec) or ""
        return self._sealer.seal(encoded(value), binding, place, least)

    async def _sealed_jobs(self, job_ids: Iterable[int]) -> dict[int, Job]:
        """Return those of the jobs that are sealed, by id, as they are stored."""
        found = await self.engine.get(list(dict.fromkeys(job_ids)))
        return {job.id: job for job in found if job is not None and job.spec.sealed}

    # -- progress, steps and signals -------------------------------------------

    async def progress(
        self, updates: Sequence[Progress], *, now: int | None = None
    ) -> list[Result]:
        with_data = [one.job_id for one in updates if one.data is not None]
        jobs = await self._sealed_jobs(with_data) if with_data else {}
        made = [
            replace(one, data=self._seal(jobs[one.job_id], "progress", one.data))
            if one.data is not None and one.job_id in jobs
            else one
            for one in updates
        ]
        return await self.engine.progress(made, now=now)

    async def steps(self, job_id: int) -> JobSteps:
        found = await self.engine.steps(job_id)
        values = [
            *(step.result for step in found.steps),
            *(signal.data for signal in found.signals),
        ]
        # Without keys only those are looked at that may be sealed.
        if not values or not (
            self._sealer.is_active or any(map(Envelope.read, values))
        ):
            return found
        if not await self._sealed_jobs([job_id]):
            return found
        return replace(
            found,
            steps=tuple(self._shown_step(job_id, step) for step in found.steps),
            signals=tuple(
                replace(one, data=self._open(job_id, f"signal:{one.name}", one.data))
                for one in found.signals
            ),
        )

    def _shown_step(self, job_id: int, step: Step) -> Step:
        is_empty = step.kind == "sleep" or step.timed_out or step.ended_at is None
        if step.kind != "step" and is_empty:
            return step
        kind = f"{'step' if step.kind == 'step' else 'signal'}:{step.name}"
        return replace(step, result=self._open(job_id, kind, step.result))

    async def record_step(
        self, job: Job, name: str, result: Raw, *, duration: int, now: int | None = None
    ) -> Result:
        if job.spec.sealed:
            result = self._seal(job, f"step:{name}", result)
        return await self.engine.record_step(
            job, name, result, duration=duration, now=now
        )

    async def receive(
        self, job: Job, signal: str, number: int, *, now: int | None = None
    ) -> Step | Result | None:
        found = await self.engine.receive(job, signal, number, now=now)
        if not job.spec.sealed or found is None or isinstance(found, str):
            return found
        return self._shown_step(job.id, found)

    async def signal(
        self,
        job_id: int,
        signal: Signal,
        *,
        created_at: int | None = None,
        now: int | None = None,
    ) -> Reply:
        for job in (await self._sealed_jobs([job_id])).values():
            data = self._seal(job, f"signal:{signal.name}", signal.data)
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
            self._sealed_change(one, jobs[one.job_id])
            if _touches_data(one) and one.job_id in jobs
            else one
            for one in changes
        ]
        return await self.engine.update(made, now=now)

    def _sealed_change(self, change: Change, job: Job) -> Change:
        data, least = change.data, protection_of(job.spec)
        if data is msgspec.UNSET:
            envelope = Envelope.read(job.spec.data) if job.spec.sealed else None
            if envelope is None or not envelope.binding.startswith("schedule="):
                return change
            # Bound to a tag, which may go: from now on to the job itself.
            data = self._shown(job).data
            if isinstance(data, Sealed):
                raise PayloadRefused(f"the data of job {job.id} is {data.why}")
        text = encoded(data)
        if not self._sealer.is_wanted(text) and not least:
            return change
        place = data_of(job, job.id, self._sealer.max_data)
        made = self._sealer.seal(text, binding_to_job(job.id), place, least or "")
        return replace(change, data=made, sealed=SEALED)

    # -- reading ---------------------------------------------------------------

    async def get(self, job_ids: Sequence[int]) -> list[Job | None]:
        found = await self.engine.get(job_ids)
        return [job and self._shown(job) for job in found]

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
        if not any(job.spec.sealed for job in page.jobs):
            return page
        return replace(page, jobs=list(map(self._shown, page.jobs)))

    def _shown(self, job: Job) -> Job:
        """Return a job with its payloads opened, or with what stands for them."""
        spec = job.spec
        if spec.sealed != SEALED:
            return job
        place = data_of(job, job.id, self._sealer.max_data)
        return replace(
            job,
            spec=opened_spec(spec, self._sealer.tried(spec.data, place)),
            progress_data=self._open_some(job.id, "progress", job.progress_data),
            history=tuple(self._shown_attempt(job.id, one) for one in job.history),
        )

    def _shown_attempt(self, job_id: int, attempt: Attempt) -> Attempt:
        result = self._open_some(job_id, "result", attempt.result)
        reached = attempt.progress
        if reached is not None:
            data = self._open_some(job_id, "progress", reached.data)
            reached = Reached(reached.percent, data)
        return replace(attempt, result=result, progress=reached)

    def _open(self, job_id: int, kind: str, value: JSON) -> JSON:
        return self._sealer.tried(value, place_in(job_id, kind))

    def _open_some(self, job_id: int, kind: str, value: JSON) -> JSON:
        return None if value is None else self._open(job_id, kind, value)

    # -- events ----------------------------------------------------------------

    @asynccontextmanager
    async def watch(
        self, job_ids: Sequence[int] | None = None, *, buffer: int = 1000
    ) -> AsyncIterator[Events]:
        async with self.engine.watch(job_ids, buffer=buffer) as events:
            yield _OpenedEvents(self, events)

    def shown_event(self, event: Event) -> Event:
        """Return an event with the payloads in its detail opened."""
        detail = dict(event.detail)
        for name, kind in (("data", "progress"), ("result", "result")):
            if Envelope.read(detail.get(name)):
                detail[name] = self._open(event.job_id, kind, detail[name])
        match detail.get("progress"):
            case [percent, value] if Envelope.read(value):
                detail["progress"] = [
                    percent,
                    self._open(event.job_id, "progress", value),
                ]
        return replace(event, detail=detail) if detail != event.detail else event


class _OpenedEvents:
    """Events, with the payloads in their details opened."""

    def __init__(self, store: SealedStore, events: Events) -> None:
        self._store = store
        self._events = aiter(events)

    def __aiter__(self) -> _OpenedEvents:
        return self

    async def __anext__(self) -> Event:
        return self._store.shown_event(await anext(self._events))


def encoded(value: JSON) -> bytes:
    """Return a payload as JSON, which it may be already."""
    return bytes(value) if isinstance(value, msgspec.Raw) else encode_json(value)


def _touches_data(change: Change) -> bool:
    return change.data is not msgspec.UNSET or change.tags is not msgspec.UNSET
