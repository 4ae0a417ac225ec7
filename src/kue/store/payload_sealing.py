"""Payload sealing: values of a store, with their payloads sealed or opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
from kue.store.codec import encode_json

if TYPE_CHECKING:
    from msgspec import Raw

    from kue.model.events import Event
    from kue.model.job import Attempt, Draft, Ending, Job
    from kue.model.payload import JSON
    from kue.model.schedule import Schedule
    from kue.model.settings import Settings
    from kue.model.steps import Step
    from kue.model.stream import Chunk, SentChunks
    from kue.store.values import Change, Outcome

_UNPROTECTED = (
    "neither signed nor encrypted, and this queue runs only jobs that are; set "
    "accept_plain ($KUE_ACCEPT_PLAIN) while some are left"
)


class PayloadSealing:
    """What is sealed of the values of a store, and how it is opened; no I/O."""

    def __init__(self, sealer: Sealer) -> None:
        self.sealer = sealer

    @classmethod
    def of(cls, settings: Settings) -> PayloadSealing:
        """Return what *settings* demand; may raise `ConfigError`."""
        sealer = Sealer(
            settings.payload_keys,
            settings.payload_protection,
            compress_over=settings.compress_over,
            max_data=settings.max_data,
            accepts_plain=settings.accept_plain,
        )
        return cls(sealer)

    # -- on the way to the engine ------------------------------------------------

    def text_of(self, draft: Draft) -> bytes:
        """Return the data of a draft as JSON; that of a dead letter may be sealed."""
        spec = draft.spec
        if spec.sealed != SEALED:
            return encoded(spec.data)
        value = msgspec.json.decode(encoded(spec.data))
        place = data_of(draft, limit=self.sealer.max_data)
        try:
            return encode_json(self.sealer.open_as_named(value, place))
        except PayloadRefused as exc:
            raise PayloadRefused(f"no job was added: its data is {exc}") from None

    def sealed_draft(self, draft: Draft, text: bytes, job_id: int | None) -> Draft:
        place = data_of(draft, limit=self.sealer.max_data)
        binding = binding_to_key(draft.unique or "")
        if job_id is not None:
            binding = binding_to_job(job_id)
        least = protection_of(draft.spec) or ""
        data = self.sealer.seal(text, binding, place, least)
        return replace(draft, id=job_id, spec=replace(draft.spec, data=data, sealed=1))

    def sealed_change(self, change: Change, job: Job) -> Change:
        data, least = change.data, protection_of(job.spec)
        if data is msgspec.UNSET:
            envelope = Envelope.read(job.spec.data) if job.spec.sealed else None
            if envelope is None or not envelope.binding.startswith("schedule="):
                return change
            # Bound to a tag, which may go: from now on to the job itself.
            data = self.shown(job).data
            if isinstance(data, Sealed):
                raise PayloadRefused(f"the data of job {job.id} is {data.why}")
        text = encoded(data)
        if not self.sealer.is_wanted(text) and not least:
            return change
        place = data_of(job, job.id, self.sealer.max_data)
        made = self.sealer.seal(text, binding_to_job(job.id), place, least or "")
        return replace(change, data=made, sealed=SEALED)

    def sealed_schedule(self, schedule: Schedule, stored: Schedule | None) -> Schedule:
        """Return a schedule at least as strongly protected as the one it replaces."""
        draft, data = schedule.draft, schedule.draft.spec.data
        if isinstance(data, Sealed):
            # Changed by somebody who cannot open it: it stays as it is.
            spec = replace(draft.spec, data=data.envelope)
            return replace(schedule, draft=replace(draft, spec=spec))
        text = encoded(data)
        least = (protection_of(stored.draft.spec) if stored else None) or ""
        if not self.sealer.is_wanted(text) and not least:
            return schedule
        place = data_of(draft, limit=self.sealer.max_data)
        binding = binding_to_schedule(schedule.name)
        made = self.sealer.seal(text, binding, place, least)
        spec = replace(draft.spec, data=made, sealed=SEALED)
        return replace(schedule, draft=replace(draft, spec=spec))

    def shown_schedule(self, schedule: Schedule) -> Schedule:
        draft, spec = schedule.draft, schedule.draft.spec
        if spec.sealed != SEALED:
            return schedule
        binding = binding_to_schedule(schedule.name)
        place = data_of(draft)._replace(
            belongs=binding.__eq__, limit=self.sealer.max_data
        )
        data = self.sealer.tried(spec.data, place)
        is_open = not isinstance(data, Sealed)
        # An open one is as it was given: it is compared with what code declares.
        spec = replace(spec, data=data, sealed=0 if is_open else SEALED)
        return replace(schedule, draft=replace(draft, spec=spec))

    def to_run(self, job: Job) -> Job:
        if job.spec.sealed or self.sealer.accepts_plain:
            return self.shown(job)
        data = Sealed(job.spec.data, _UNPROTECTED)
        return replace(job, spec=replace(job.spec, data=data, sealed=SEALED))

    def ended(self, outcome: Outcome) -> Outcome:
        job = outcome.job
        if not job.spec.sealed:
            return outcome
        return replace(outcome, ending=self.sealed_ending(job, outcome.ending))

    def sealed_ending(self, job: Job, ending: Ending) -> Ending:
        if isinstance(ending, Completed) and ending.result is not None:
            ending = replace(ending, result=self.seal(job, "result", ending.result))
        reached = ending.progress
        if reached is not msgspec.UNSET and reached.data is not None:
            data = self.seal(job, "progress", reached.data)
            ending = replace(ending, progress=Reached(reached.percent, data))
        return ending

    def sealed_chunks(self, sent: SentChunks) -> SentChunks:
        if not sent.job.spec.sealed:
            return sent
        values = [
            self.seal(sent.job, f"chunk:{index}", value)
            for index, value in enumerate(sent.values, sent.start)
        ]
        return sent._replace(values=values)

    def seal(self, job: Job, kind: str, value: JSON) -> Raw:
        """Return a value of a sealed job other than its data."""
        binding, place = binding_to_job(job.id), place_in(job.id, kind)
        least = protection_of(job.spec) or ""
        return self.sealer.seal(encoded(value), binding, place, least)

    def shown(self, job: Job) -> Job:
        """Return a job with its payloads opened, or with what stands for them."""
        spec = job.spec
        if not spec.sealed and not self.sealer.accepts_plain:
            return replace(job, history=tuple(map(_without_result, job.history)))
        if spec.sealed != SEALED:
            return job
        place = data_of(job, job.id, self.sealer.max_data)
        return replace(
            job,
            spec=opened_spec(spec, self.sealer.tried(spec.data, place)),
            progress_data=self.opened_if_any(job.id, "progress", job.progress_data),
            history=tuple(self.shown_attempt(job.id, one) for one in job.history),
        )

    def shown_attempt(self, job_id: int, attempt: Attempt) -> Attempt:
        result = self.opened_if_any(job_id, "result", attempt.result)
        reached = attempt.progress
        if reached is not None:
            data = self.opened_if_any(job_id, "progress", reached.data)
            reached = Reached(reached.percent, data)
        return replace(attempt, result=result, progress=reached)

    def shown_step(self, job_id: int, step: Step) -> Step:
        is_empty = step.kind == "sleep" or step.timed_out or step.ended_at is None
        if step.kind != "step" and is_empty:
            return step
        kind = f"{'step' if step.kind == 'step' else 'signal'}:{step.name}"
        return replace(step, result=self.opened(job_id, kind, step.result))

    def shown_chunk(self, job_id: int, chunk: Chunk) -> Chunk:
        value = self.opened(job_id, f"chunk:{chunk.index}", chunk.value)
        return replace(chunk, value=value)

    def plain_chunk(self, chunk: Chunk) -> Chunk:
        """Return a chunk of a job that is not sealed, or what stands for it."""
        if self.sealer.accepts_plain:
            return chunk
        return replace(chunk, value=Sealed(chunk.value, _UNPROTECTED))

    def shown_event(self, event: Event) -> Event:
        """Return an event with the payloads in its detail opened."""
        detail = dict(event.detail)
        if Envelope.read(detail.get("data")):
            detail["data"] = self.opened(event.job_id, "progress", detail["data"])
        if self._is_opened(detail.get("result")):
            detail["result"] = self.opened(event.job_id, "result", detail["result"])
        match detail.get("progress"):
            case [percent, value] if Envelope.read(value):
                detail["progress"] = [
                    percent,
                    self.opened(event.job_id, "progress", value),
                ]
        if values := detail.get("values"):
            detail["values"] = [
                self.opened(event.job_id, f"chunk:{index}", value)
                if self._is_opened(value)
                else value
                for index, value in enumerate(values, detail["start"])
            ]
        return replace(event, detail=detail) if detail != event.detail else event

    def _is_opened(self, value: JSON) -> bool:
        """Return whether a value that is only sent is opened, or else refused."""
        if self.sealer.accepts_plain:
            return Envelope.read(value) is not None
        return value is not None

    def opened(self, job_id: int, kind: str, value: JSON) -> JSON:
        return self.sealer.tried(value, place_in(job_id, kind))

    def opened_if_any(self, job_id: int, kind: str, value: JSON) -> JSON:
        return None if value is None else self.opened(job_id, kind, value)


def _without_result(attempt: Attempt) -> Attempt:
    """Refuse a result that anybody may have written."""
    if attempt.result is None:
        return attempt
    return replace(attempt, result=Sealed(attempt.result, _UNPROTECTED))


def encoded(value: JSON) -> bytes:
    """Return a payload as JSON, which it may be already."""
    return bytes(value) if isinstance(value, msgspec.Raw) else encode_json(value)
