"""Facts about jobs: what `inspect.lua` returns of them, gathered from all shards."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from kue.store.redis.doctor.key_table import is_number
from kue.store.redis.doctor.shard import ShardMap, Subject

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kue.store.redis.doctor.shard import Inspection, Shard
    from kue.store.redis.keys import Keys

#: Score or value of a job in structures, by type (as written in keys) and structure.
ByStructure = dict[tuple[str, str], str]

#: Jobs inspected in one call: a few milliseconds of Redis.
MAX_JOBS = 100
#: A record of so many bytes takes as long as another job.
_LARGE = 16_384
#: What the job's own shard knows of a dependency.
_OWN = frozenset({"awaited"})


class Dependency(NamedTuple):
    """How a job and a parent, which it may wait for, refer to each other."""

    parent: int
    #: Which of these are so; see ``lib/facts.lua``.
    #:
    #: - awaited: the job lists the parent
    #: - then, finally: the parent lists the job among those that wait for success, or
    #:   for any end; only: the parent lists no other job
    #: - rest, end: maintenance is still to notify those on the parent's lists, or
    #:   just this job, which lives on another shard
    #: - link, unlink: maintenance is to notify the parent, which lives on another
    #:   shard, that the job waits for it, or waits no longer
    #: - known: the parent lives here, or its shard was read
    marks: frozenset[str] = frozenset()
    #: Where the parent is; empty when it is gone, "nowhere" when it is in no state.
    standing: str = ""
    #: Of these facts, when they were read from the parent's shard.
    digest: bytes = b""

    def has(self, *marks: str) -> bool:
        """Return whether any of *marks* is so."""
        return not self.marks.isdisjoint(marks)


class UniqueHolder(NamedTuple):
    """The job that holds a unique key."""

    job_id: int | None
    #: Where it is; empty when it is gone, "nowhere" when it is in no state.
    standing: str
    #: Its own header has the key.
    has_key: bool


class JobFacts(msgspec.Struct):
    """The facts about one job at one moment."""

    job_id: int
    homes: ShardMap
    subject: Subject
    digest: bytes
    now: int
    #: None when there is none.
    record: bytes | None = None
    #: The record's key has another Redis type.
    has_wrong_type: bool = False
    is_live: bool = False
    #: Score, or run, in structures that mean a state (and ``parked``).
    places: ByStructure = {}
    #: Entries in tries, progress, ttl, expires and retain_<state>.
    entries: ByStructure = {}
    #: Score among the held jobs of a group, by type and group.
    held: ByStructure = {}
    #: Which of log, after, then and finally there are.
    parts: set[str] = set()
    is_parent: bool = False
    #: How it ended, while maintenance still notifies its dependants.
    rest: str = ""
    #: The request to cancel its run.
    cancelling: str | None = None
    #: The worker that runs it has a lease.
    is_leased: bool = False
    #: How many jobs of its group run, as written.
    running: str | None = None
    #: The held job of its group that gets the next slot, and its score.
    next_held: tuple[int, str] | None = None
    #: Its type has a limit for each group.
    is_group_limited: bool = False
    unique: str | None = None
    holder: UniqueHolder | None = None
    dependencies: list[Dependency] = []
    #: What it waits for and cannot be a job.
    odd_parents: list[bytes] = []

    @property
    def keys(self) -> Keys:
        return self.homes.keys_of(self.job_id)

    @property
    def title(self) -> str:
        return f"job {self.job_id} "


@dataclass
class JobHints:
    """Where else to look for a job than its own record says."""

    #: Types, or "type:held:group".
    places: set[str] = field(default_factory=set)
    #: Jobs that it may wait for.
    parents: set[int] = field(default_factory=set)
    #: Bytes of its record, as far as known.
    size: int = 0

    @property
    def weight(self) -> int:
        """How much there is to inspect: many parents, a large record."""
        return 1 + len(self.parents) // 3 + self.size // _LARGE

    def merge(self, other: JobHints) -> None:
        self.places |= other.places
        self.parents |= other.parents
        self.size = max(self.size, other.size)


class JobInspector:
    """Reads the facts about jobs of one shard."""

    def __init__(self, shards: Sequence[Shard], number: int, homes: ShardMap) -> None:
        self.shard = shards[number]
        self._shards = shards
        self._homes = homes

    async def read(self, hints: Mapping[int, JobHints]) -> list[JobFacts]:
        """Return the facts about jobs, in as many calls as it takes."""
        found: list[JobFacts] = []
        for part in _parts(hints):
            subjects = [job_subject(job_id, hint) for job_id, hint in part.items()]
            found += await self._read_part(subjects)
        return found

    async def _read_part(self, subjects: list[Subject]) -> list[JobFacts]:
        found = await self._inspect(subjects)
        unread = [facts for facts in found if any(map(_is_unread, facts.dependencies))]
        if not unread:
            return found
        await self._read_parents(unread)
        # The other shards were read later: that counts only if the job still waits
        # as it did.
        again = await self._inspect([facts.subject for facts in unread])
        for facts, now in zip(unread, again, strict=True):
            if now.digest != facts.digest:
                facts.dependencies = [
                    Dependency(one.parent, one.marks & _OWN) if one.digest else one
                    for one in facts.dependencies
                ]
        return found

    async def _inspect(self, subjects: list[Subject]) -> list[JobFacts]:
        inspections = await self.shard.inspect(subjects)
        return [
            parse_facts(subject, inspection, self._homes)
            for subject, inspection in zip(subjects, inspections, strict=True)
        ]

    async def _read_parents(self, unread: list[JobFacts]) -> None:
        """Complete dependencies on parents of other shards, one call to each."""
        places: dict[int, list[tuple[JobFacts, int]]] = {}
        for facts in unread:
            for index, dependency in enumerate(facts.dependencies):
                if _is_unread(dependency):
                    home = self._homes.shard_of(dependency.parent)
                    places.setdefault(home, []).append((facts, index))
        for home, asked in places.items():
            subjects: list[Subject] = [
                ("dependency", facts.dependencies[index].parent, facts.job_id)
                for facts, index in asked
            ]
            answers = await self._shards[home].inspect(subjects)
            for (facts, index), answer in zip(asked, answers, strict=True):
                old = facts.dependencies[index]
                new = parse_dependency(old.parent, answer.facts[0].decode())
                marks = new.marks | (old.marks & _OWN)
                facts.dependencies[index] = new._replace(
                    marks=marks, digest=answer.digest
                )


def _is_unread(dependency: Dependency) -> bool:
    """Return whether the parent's shard must be read."""
    return not dependency.has("known", "link", "unlink")


def _parts(hints: Mapping[int, JobHints]) -> Iterator[dict[int, JobHints]]:
    part: dict[int, JobHints] = {}
    weight = 0
    for job_id, hint in hints.items():
        part[job_id] = hint
        weight += hint.weight
        if weight >= MAX_JOBS:
            yield part
            part, weight = {}, 0
    if part:
        yield part


def job_subject(job_id: int, hint: JobHints) -> Subject:
    """Return what to inspect for a job; the same every time, as is the digest."""
    places, parents = sorted(hint.places), sorted(hint.parents)
    return ("job", job_id, len(places), *places, *parents)


def parse_facts(subject: Subject, inspection: Inspection, homes: ShardMap) -> JobFacts:
    """Read the facts about a job."""
    job_id = int(subject[1])
    facts = JobFacts(job_id, homes, subject, inspection.digest, inspection.now)
    holder = UniqueHolder(None, "", False)
    for index in range(0, len(inspection.facts), 3):
        kind, where, value = inspection.facts[index : index + 3]
        if kind == b"record":
            facts.record = value
        elif kind == b"dependency" and not is_number(_text(where)):
            facts.odd_parents.append(where)
        elif kind == b"holder":
            number = int(where) if where else None
            holder = UniqueHolder(number, value.decode(), holder.has_key)
        elif kind == b"holds":
            holder = holder._replace(has_key=True)
        else:
            _add_fact(facts, kind.decode(), _text(where), _text(value))
    if facts.unique is not None:
        facts.holder = holder
    return facts


def parse_dependency(parent: int, text: str) -> Dependency:
    """Read "mark mark …: standing"."""
    marks, _, standing = text.partition(":")
    return Dependency(parent, frozenset(marks.split()), standing)


#: Facts that are stored as they are, and facts that are true when they are there.
_TEXTS = frozenset({"rest", "cancelling", "running", "unique"})
_FLAGS = {
    "unread": "has_wrong_type",
    "live": "is_live",
    "parent": "is_parent",
    "leased": "is_leased",
    "per_key": "is_group_limited",
}


def _add_fact(facts: JobFacts, kind: str, where: str, value: str) -> None:
    job_type, _, structure = where.partition(":")
    if kind in _TEXTS:
        setattr(facts, kind, value)
    elif kind in _FLAGS:
        setattr(facts, _FLAGS[kind], True)
    elif kind == "in":
        facts.places[job_type, structure] = value
    elif kind == "has":
        facts.entries[job_type, structure] = value
    elif kind == "held":
        facts.held[job_type, structure.removeprefix("held:")] = value
    elif kind == "part":
        facts.parts.add(where)
    elif kind == "dependency":
        facts.dependencies.append(parse_dependency(int(where), value))
    elif kind == "next" and is_number(where):
        facts.next_held = (int(where), value)


def _text(value: bytes) -> str:
    # Damage need not be text, and must be shown all the same.
    return value.decode("utf-8", "backslashreplace")
