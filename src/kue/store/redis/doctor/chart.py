"""One job under examination: what was seen of it, and its record, taken apart."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kue.model.errors import KueError
from kue.model.job import FINAL, Job, Run, priority_of
from kue.model.names import quote, unquote
from kue.store.redis.doctor.keyspace import is_number
from kue.store.redis.doctor.trouble import Trouble
from kue.store.redis.record import read_claimed

if TYPE_CHECKING:
    from kue.store.redis.doctor.facts import Facts
    from kue.store.redis.doctor.layout import Layout
    from kue.store.redis.doctor.shard import Command
    from kue.store.redis.keys import Keys

#: What scripts can read of a record.
_HEADER = re.compile(rb"\*?-?\d+\t\d+\t([^\t\n]+)[^\n]*\n")
_OPTION = re.compile(rb"\t([a-z_]+)=([^\t]*)")
#: Options that only scripts read; what a job has too was checked with it.
_NUMBERS = frozenset({"retention", "delay", "at"})
FINAL_PLACES = frozenset(state.value for state in FINAL)
#: Structures of jobs that a worker may take sooner or later.
LINE = ("waiting", "held", "delayed")


class Unreadable(Exception):
    """A record is none; the message says why."""


@dataclass(frozen=True)
class Chart:
    """A job whose record can be read."""

    facts: Facts
    layout: Layout
    job: Job
    #: The type as it is written in keys.
    type: str
    #: What its header has scripts act on, as written.
    options: dict[str, str]
    #: Where it is among the structures of its own type that mean a state.
    places: dict[str, str]

    @property
    def job_id(self) -> int:
        return self.job.id

    @property
    def keys(self) -> Keys:
        return self.layout.keys_of(self.job_id)

    @property
    def sequence(self) -> int:
        return self.layout.sequence_of(self.job_id)

    @property
    def line_score(self) -> int:
        """Its score in line."""
        return self.job.priority * 2**41 + self.sequence

    @property
    def last_final(self) -> tuple[str, int] | None:
        """The final state that its story ends with, and when."""
        if not self.job.history:
            return None
        last = self.job.history[-1]
        return (last.outcome, last.at) if last.outcome in FINAL_PLACES else None

    @property
    def due(self) -> int:
        """When it may run, as far as its record says, Unix ms; 0 for at once."""
        if self.job.history:
            last = self.job.history[-1]
            return last.at + last.delay if last.delay else 0
        if "at" in self.options:
            return int(self.options["at"])
        delay = self.job.spec.delay
        return self.job.created_at + delay if delay else 0

    def key(self, structure: str) -> str:
        return self.keys.of_type(self.job.type, structure)

    def trouble(
        self,
        code: str,
        message: str,
        repair: str = "",
        commands: tuple[Command, ...] = (),
    ) -> Trouble:
        """Return a trouble of this job; *message* goes on after "job 7"."""
        text = f"job {self.job_id} {message}"
        return Trouble(code, text, self.job_id, repair, commands)


def open_chart(facts: Facts, layout: Layout) -> Chart:
    """
    Read a job's record.

    Raises:
        Unreadable: It is none.
    """
    record = facts.record or b""
    job = read_record(facts.job_id, record)
    job_type = quote(job.type)
    places = {
        place: where
        for (owner, place), where in facts.places.items()
        if owner == job_type and place != "parked"
    }
    return Chart(facts, layout, job, job_type, _options_of(record), places)


def _options_of(record: bytes) -> dict[str, str]:
    header, _, _ = record.partition(b"\n")
    if not header.startswith(b"*"):
        return {}
    found = _OPTION.findall(header)
    options = {name.decode(): value.decode() for name, value in found}
    for name in _NUMBERS & options.keys():
        if not is_number(options[name]):
            raise Unreadable(f"its option {name} is {options[name]!r}")
    return options


def read_record(job_id: int, record: bytes) -> Job:
    """
    Decode a whole record: header, body and story.

    Raises:
        Unreadable: It is none.
    """
    match = _HEADER.match(record)
    if match is None:
        raise Unreadable(f"it begins with {record[:40]!r}, which is no header")
    try:
        job = read_claimed(job_id, "", record)
        priority_of(job.priority)
        if quote(unquote(match[1].decode())) != match[1].decode():
            raise Unreadable(f"its type is written as {match[1]!r}")
        for attempt in job.history:
            if attempt.token:
                # Read only when asked for, and then it is too late to complain.
                Run.read(attempt.token)
    except (ValueError, RecursionError, KueError) as exc:
        raise Unreadable(str(exc)) from exc
    return job
