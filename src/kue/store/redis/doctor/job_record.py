"""A job under check whose record can be read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, get_args

import msgspec

from kue.model.errors import KueError
from kue.model.job import FINAL, Job, OnParentFailure, Run, priority_of
from kue.model.names import quote, unquote
from kue.store.redis.doctor.job_facts import HASHES, JobFacts
from kue.store.redis.doctor.key_parsing import is_number
from kue.store.redis.doctor.value_rules import is_time
from kue.store.redis.record import read_claimed
from kue.store.waiting_order import LEVEL, WaitingOrder

if TYPE_CHECKING:
    from kue.store.redis.doctor.shard_access import RedisCommand

#: What scripts can read of a record.
_HEADER = re.compile(rb"\*?-?\d+\t\d+\t([^\t\n]+)[^\n]*\n")
_OPTION = re.compile(rb"\t([a-z_]+)=([^\t]*)")
#: A header without options: only the state of such a job can be wrong.
_PLAIN = re.compile(rb"(-?\d+)\t\d+\t([^\t\n]+)\n")
_RANK = re.compile(r"-?\d{1,16}")
#: Options that only scripts read; the others are checked when the job is decoded.
_NUMBERS = frozenset({"retention", "delay", "at"})
FINAL_PLACES = frozenset(state.value for state in FINAL)
#: Structures of jobs that will be claimed sooner or later.
QUEUED = ("waiting", "held", "delayed")
_ORDERED_BY_TIME = frozenset({"delayed", *FINAL_PLACES})


class UnreadableRecord(Exception):
    """A record cannot be decoded; the message says why."""


class JobRecord(JobFacts, kw_only=True):
    """The facts about a job, and its record, decoded."""

    job: Job
    #: The type as it is written in keys.
    type: str
    #: The options of its header, which scripts act on, as written.
    options: dict[str, str]
    #: Score, or run, in the structures of its own type that mean a state.
    places: dict[str, str]

    @property
    def place(self) -> str:
        """The structure it is in; to be read only once that is sure."""
        [place] = self.places
        return place

    @property
    def score(self) -> str:
        """Its score there, or its run."""
        return self.places[self.place]

    @property
    def waiting_score(self) -> int:
        """The score that it has, or should have, while it waits."""
        ageing = self.marks.get("ageing")
        order = WaitingOrder("fair" in self.marks, int(ageing) if ageing else None)
        score = self.places.get("waiting", self.places.get("held", "")) or "0"
        return order.right_rank(
            int(score) if _RANK.fullmatch(score) else 0,
            priority=self.job.priority,
            created_at=self.job.created_at,
            sequence=self.shard.sequence_of(self.job_id),
        )

    @property
    def last_final(self) -> tuple[str, int] | None:
        """The final state that its history ends with, and when."""
        if not self.job.history:
            return None
        last = self.job.history[-1]
        return (last.outcome, last.at) if last.outcome in FINAL_PLACES else None

    @property
    def due(self) -> int:
        """When it may run according to its record, Unix ms; 0 for at once."""
        if self.job.history:
            last = self.job.history[-1]
            return last.at + last.delay if last.delay else 0
        if "at" in self.options:
            return int(self.options["at"])
        delay = self.job.spec.delay
        return self.job.created_at + delay if delay else 0

    def key(self, structure: str) -> str:
        return self.keys.of_shard(f"{self.type}:{structure}")

    def put_in(self, structure: str, value: int | str) -> RedisCommand:
        """Return what puts the job into a structure of its type."""
        if structure in HASHES:
            return ("HSET", self.key(structure), self.job_id, value)
        return ("ZADD", self.key(structure), value, self.job_id)


def read_job_record(facts: JobFacts) -> JobRecord:
    """
    Read a job's record.

    Raises:
        UnreadableRecord: It cannot be decoded.
    """
    record = facts.record or b""
    job = decode_record(facts.job_id, record)
    job_type = quote(job.type)
    places = {
        place: score
        for (owner, place), score in facts.found_in.items()
        if owner == job_type and place != "parked"
    }
    return JobRecord(
        **msgspec.structs.asdict(facts),
        job=job,
        type=job_type,
        options=_options_of(record),
        places=places,
    )


def _options_of(record: bytes) -> dict[str, str]:
    header, _, _ = record.partition(b"\n")
    if not header.startswith(b"*"):
        return {}
    found = _OPTION.findall(header)
    options = {name.decode(): value.decode() for name, value in found}
    for name in _NUMBERS & options.keys():
        if not is_number(options[name]):
            raise UnreadableRecord(f"its option {name} is {options[name]!r}")
    if (policy := options.get("failure", "block")) not in get_args(OnParentFailure):
        raise UnreadableRecord(f"its option failure is {policy!r}")
    return options


def decode_record(job_id: int, record: bytes) -> Job:
    """
    Decode a whole record: header, body and history.

    Raises:
        UnreadableRecord: It cannot be decoded.
    """
    match = _HEADER.match(record)
    if match is None:
        raise UnreadableRecord(f"it begins with {record[:40]!r}, which is not a header")
    try:
        job = read_claimed(job_id, "", record)
        priority_of(job.priority)
        if quote(unquote(match[1].decode())) != match[1].decode():
            raise UnreadableRecord(f"its type is written as {match[1]!r}")
        for attempt in job.history:
            if attempt.token:
                # Decoded lazily elsewhere, where an error would come too late.
                Run.read(attempt.token)
    except (ValueError, RecursionError, KueError) as exc:
        raise UnreadableRecord(str(exc)) from exc
    return job


def is_sound(
    job_id: int,
    sequence: int,
    job_type: bytes,
    place: str,
    score: float,
    record: bytes | None,
) -> bool:
    """
    Return whether a job in *place* needs no inspection: true of most jobs.

    Then its record can be read, and has this type and this score.  Whether the job is
    in another place too, and marked as existing, is for the caller to compare.
    """
    match = _PLAIN.match(record) if record else None
    if match is None or match[2] != job_type or record is None:
        return False
    if place == "waiting":
        # Not of a fair type, or one with ageing: their jobs are inspected.
        is_ordered = score == int(match[1]) * LEVEL + sequence
    else:
        is_ordered = place in _ORDERED_BY_TIME and is_time(score)
    try:
        return is_ordered and decode_record(job_id, record) is not None
    except UnreadableRecord:
        return False


def parents_of(job_id: int, record: bytes | None) -> set[int]:
    """Return the jobs that a job waits for according to its record."""
    try:
        return set(decode_record(job_id, record or b"").spec.after)
    except UnreadableRecord:
        return set()
