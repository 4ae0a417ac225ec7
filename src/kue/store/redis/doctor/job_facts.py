"""Facts about jobs: what `doctor_inspect.lua` returns, gathered from all shards."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from kue.store.redis.doctor.key_parsing import is_number
from kue.store.redis.doctor.shard_access import MAX_SUBJECTS, Inspection, text_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

    from kue.store.redis.doctor.shard_access import RedisCommand, Shard, Subject
    from kue.store.redis.keys import Keys

#: Score or value of a job in structures, by type (as written in keys) and structure.
ByStructure = dict[tuple[str, str], str]

#: A record of so many bytes takes as long as another job.
_LARGE = 16_384
#: What the job's own shard knows of a dependency.
_OWN = frozenset({"awaited", "left"})
#: Structures of jobs that are hashes; all others are sorted sets.
HASHES = frozenset({"active", "tries", "progress"})


class Dependency(NamedTuple):
    """How a job and a parent, which it may wait for, refer to each other."""

    parent: int
    #: Which of these are so; see ``lib/doctor_facts.lua``.
    #:
    #: - awaited: the job lists the parent
    #: - left: the job no longer waits, and maintenance is to have the parent forget it
    #: - lost: the parent is gone, and had not succeeded
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
    #: Of the parent's shard, when that is another one and was read.
    inspection: Inspection | None = None

    def has(self, *marks: str) -> bool:
        """Return whether any of *marks* is so."""
        return not self.marks.isdisjoint(marks)

    @property
    def is_unread(self) -> bool:
        """Whether the parent's shard must be read."""
        return not self.has("known", "link", "unlink")


class LimitFacts(NamedTuple):
    """How a named limit counts a job."""

    #: Its score among the jobs that the limit holds; empty if it is not.
    held: str
    is_running: bool
    #: Whether the limit lists the key.
    is_listed: bool
    #: "concurrency", "rate" or "none".
    rule: str
    #: Whether its type has a time at which the rate lets one start.
    opens: bool

    @classmethod
    def read(cls, text: str) -> LimitFacts:
        held, running, listed, rule, opens = text.split(" ")
        return cls(
            "" if held == "-" else held,
            running == "1",
            listed == "1",
            rule,
            opens == "1",
        )


class JobFacts(msgspec.Struct):
    """The facts about one job at one moment."""

    job_id: int
    inspection: Inspection
    #: None when there is none.
    record: bytes | None = None
    #: Score, or run, in structures that mean a state (and ``parked``).
    found_in: ByStructure = {}
    #: Entries in tries, progress, ttl, expires and retain_<state>.
    entries: ByStructure = {}
    #: Score among the held jobs of a group, by type and group.
    held: ByStructure = {}
    #: By name and key: of its own limits, and of those where it was found.
    limits: dict[str, LimitFacts] = {}
    #: By flow: whether its index has the job.
    flows: dict[int, bool] = {}
    #: Which of log, steps, stream, after, then, finally and left there are.
    parts: set[str] = set()
    #: Which of these are so, and their values; see ``lib/doctor_facts.lua``.
    #:
    #: - unread: the record's key has another Redis type
    #: - live, parent: it is marked as existing, as a parent
    #: - rest: how it ended, while maintenance still notifies its dependants
    #: - left: maintenance has to go through ``:left``; hold: it may wait for itself
    #: - lost: it is marked as removed without success; unborn: there never was one
    #: - has_flow: it has a flow here
    #: - many: it waits for so many that only those are here that were asked for
    #: - cancelling: the request to cancel its run
    #: - leased: the worker that runs it has a lease
    #: - running: how many jobs of its group run, as written
    #: - per_key: its type has a limit for each group
    #: - fair, ageing: its type is fair; how long is worth a step of priority, ms
    #: - unique: the entry of its unique key; holds: the holder's header has that key
    marks: dict[str, str] = {}
    #: The job that holds its unique key, and where that is, as of a parent.
    holder: int | None = None
    holder_standing: str = ""
    #: The held job of its group that gets the next slot, and its score.
    next_held: tuple[int, str] | None = None
    dependencies: list[Dependency] = []
    #: What it waits for and cannot be a job.
    odd_parents: list[bytes] = []

    @property
    def now(self) -> int:
        return self.inspection.now

    @property
    def shard(self) -> Shard:
        return self.inspection.shard

    @property
    def keys(self) -> Keys:
        return self.shard.keys

    @property
    def title(self) -> str:
        return f"job {self.job_id} "

    def remove_from(self, job_type: str, structure: str) -> RedisCommand:
        """Return what removes the job from a structure of a type."""
        verb = "HDEL" if structure in HASHES else "ZREM"
        return (verb, self.keys.of_shard(f"{job_type}:{structure}"), self.job_id)


@dataclass
class JobHints:
    """Where else to look for a job than its own record says."""

    #: Types, "type:held:group", ":name:held:key" of a limit, or "::flow".
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


async def read_jobs(
    shard: Shard, hints: Mapping[int, JobHints]
) -> AsyncIterator[JobFacts]:
    """Yield the facts about jobs, in as many calls as it takes."""
    for subjects in _parts(hints):
        part = [parse_facts(one) for one in await shard.inspect(subjects)]
        await _read_parents(shard, part)
        for facts in part:
            yield facts


def _parts(hints: Mapping[int, JobHints]) -> Iterator[list[Subject]]:
    part: list[Subject] = []
    weight = 0
    for job_id, hint in hints.items():
        part.append(job_subject(job_id, hint))
        weight += hint.weight
        if weight >= MAX_SUBJECTS:
            yield part
            part, weight = [], 0
    if part:
        yield part


async def _read_parents(shard: Shard, found: Sequence[JobFacts]) -> None:
    """Complete dependencies on parents of other shards, one call to each."""
    asked: dict[Shard, list[tuple[JobFacts, int]]] = {}
    for facts in found:
        for index, dependency in enumerate(facts.dependencies):
            if dependency.is_unread:
                home = shard.home_of(dependency.parent)
                asked.setdefault(home, []).append((facts, index))
    if not asked:
        return
    for home, places in asked.items():
        answers = await home.inspect(
            [
                ("dependency", facts.dependencies[index].parent, facts.job_id)
                for facts, index in places
            ]
        )
        for (facts, index), answer in zip(places, answers, strict=True):
            parent, marks, *_ = facts.dependencies[index]
            new = parse_dependency(parent, answer.facts[0])
            facts.dependencies[index] = new._replace(
                marks=new.marks | (marks & _OWN), inspection=answer
            )
    # The other shards were read later: that counts only if the job still waits as it
    # did.
    unread = [one for one in found if any(two.inspection for two in one.dependencies)]
    again = await shard.inspect([facts.inspection.subject for facts in unread])
    for facts, now in zip(unread, again, strict=True):
        if now.digest != facts.inspection.digest:
            facts.dependencies = [
                Dependency(one.parent, one.marks & _OWN) if one.inspection else one
                for one in facts.dependencies
            ]


def job_subject(job_id: int, hint: JobHints) -> Subject:
    """Return what to inspect for a job; the same every time, as is the digest."""
    places, parents = sorted(hint.places), sorted(hint.parents)
    return ("job", job_id, len(places), *places, *parents)


def parse_facts(inspection: Inspection) -> JobFacts:
    """Read the facts about a job: kind, where, value; and so on."""
    facts = JobFacts(int(inspection.subject[1]), inspection)
    structures = {b"in": facts.found_in, b"has": facts.entries, b"held": facts.held}
    flat = iter(inspection.facts)
    for kind, where, value in zip(flat, flat, flat, strict=True):
        if kind == b"record":
            facts.record = value
        elif kind in structures:
            job_type, _, structure = text_of(where).partition(":")
            structure = structure.removeprefix("held:")
            structures[kind][job_type, structure] = text_of(value)
        elif kind == b"limit":
            facts.limits[text_of(where)] = LimitFacts.read(text_of(value))
        elif kind == b"member":
            facts.flows[int(where)] = value == b"1"
        elif kind == b"part":
            facts.parts.add(where.decode())
        elif kind == b"dependency" and is_number(text_of(where)):
            facts.dependencies.append(parse_dependency(int(where), value))
        elif kind == b"dependency":
            facts.odd_parents.append(where)
        elif kind == b"holder":
            facts.holder = int(where) if where else None
            facts.holder_standing = value.decode()
        elif kind != b"next":
            facts.marks[kind.decode()] = text_of(value)
        elif is_number(text_of(where)):
            facts.next_held = (int(where), text_of(value))
    return facts


def parse_dependency(parent: int, value: bytes) -> Dependency:
    """Read "mark mark …: standing"."""
    marks, _, standing = value.decode().partition(":")
    return Dependency(parent, frozenset(marks.split()), standing)
