"""Dead letters: failed jobs that were forwarded to another type, and their way back."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from kue.model.draft import draft
from kue.model.job import OPENED, UNKNOWN_ERROR, Draft, Error, Job, JobTerms
from kue.model.payload import JSON
from kue.model.sealed_payload import Sealed

#: A dead letter has the data of the job, which may be as long as is allowed, and more.
MAX_LETTER = 1 << 30


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """The data of a dead letter: the job that failed, and why."""

    #: The id of the job that failed.
    job_id: int
    #: The queue that it waited in.
    type: str
    #: Its task.
    name: str = ""
    data: JSON
    error: Error
    attempts: int
    failed_at: int
    created_at: int
    #: How the job was added: its options, but for type and data.
    options: dict[str, Any] = {}

    @classmethod
    def of(cls, job: Job) -> DeadLetter:
        """Return the letter of a job that failed."""
        error = job.error or UNKNOWN_ERROR
        terms = msgspec.to_builtins(_draft_of(job))
        spec = terms.pop("spec")
        spec.pop("data", None)
        del terms["type"]
        return cls(
            job_id=job.id,
            type=job.type,
            name=job.name,
            # One that cannot be opened is forwarded as it is, to be opened later.
            data=job.data.envelope if isinstance(job.data, Sealed) else job.data,
            # The job itself has the stack, for as long as it is kept.
            error=Error(error.kind, error.message),
            attempts=job.attempts,
            failed_at=job.ended_at or 0,
            created_at=job.created_at,
            options={**terms, "spec": spec} if spec else terms,
        )

    @classmethod
    def read(cls, data: JSON) -> DeadLetter | None:
        """Return the letter that is the *data* of a job; None if it is not one."""
        try:
            return msgspec.convert(data, cls)
        except msgspec.ValidationError:
            return None

    def forwarded(self, type: str, *, unique: str, seconds: float) -> Draft:
        """Return the job that is added for it; *unique* is its key for *seconds*."""
        made = draft(
            type,
            msgspec.to_builtins(self),
            max_data=MAX_LETTER,
            unique=unique,
            unique_for=seconds,
            parent=self.job_id,
        )
        # As strongly protected as the job, whose data it has.
        sealed = self.options.get("spec", {}).get("sealed", 0)
        if sealed < OPENED:
            return made
        return replace(made, spec=replace(made.spec, sealed=sealed))

    def replayed(self) -> Draft:
        """
        Return the job as it was first added, to be added again; it waits for nothing.

        Raises:
            ValueError: The options are not those of a job.
        """
        terms = dict(self.options)
        spec = {**terms.pop("spec", {}), "data": self.data}
        made = msgspec.convert({**terms, "type": self.type, "spec": spec}, Draft)
        encoded = msgspec.Raw(msgspec.json.encode(self.data))
        return replace(made, spec=replace(made.spec, data=encoded))


def _draft_of(job: Job) -> Draft:
    """Return a draft of the same job, due at once and without a past."""
    terms = {name: getattr(job, name) for name in JobTerms.__struct_fields__}
    terms["spec"] = replace(
        job.spec, delay=0, at=None, after=(), address_id=None, retry_until=None
    )
    return Draft(**terms)
