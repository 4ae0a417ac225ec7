"""Looking at jobs closely, whatever shards those live on that they wait for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from kue.store.redis.doctor.case import Case, Look
from kue.store.redis.doctor.diagnosis import diagnose
from kue.store.redis.doctor.facts import Tie, job_subject, read_facts, read_tie

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kue.store.redis.doctor.facts import Facts
    from kue.store.redis.doctor.layout import Layout
    from kue.store.redis.doctor.shard import Seen, Shard, Subject

#: Jobs looked at in one call: a few milliseconds of Redis.
MAX_LOOKS = 100
#: A record of so many bytes takes as long as another job.
_LARGE = 16_384


@dataclass
class Sighting:
    """Where a job was met, besides where its own record says that it is."""

    #: Types, or "type:held:group".
    places: set[str] = field(default_factory=set)
    #: Jobs that it may wait for.
    parents: set[int] = field(default_factory=set)
    #: Bytes of its record, as far as known.
    size: int = 0

    @property
    def weight(self) -> int:
        """How much there is to look at: many parents, a large record."""
        return 1 + len(self.parents) // 3 + self.size // _LARGE

    def merge(self, other: Sighting) -> None:
        self.places |= other.places
        self.parents |= other.parents
        self.size = max(self.size, other.size)


class Examiner:
    """Looks at jobs of one shard."""

    def __init__(self, shards: Sequence[Shard], number: int, layout: Layout) -> None:
        self.shard = shards[number]
        self._shards = shards
        self._layout = layout

    async def look(self, sightings: Mapping[int, Sighting]) -> dict[int, Look]:
        """Look at jobs, in as many calls as it takes."""
        looks: dict[int, Look] = {}
        for part in _parts(sightings):
            subjects = {
                job_id: job_subject(job_id, seen.places, seen.parents)
                for job_id, seen in part.items()
            }
            for facts in await self._facts(subjects):
                troubles = diagnose(facts, self._layout)
                subject = subjects[facts.job_id]
                looks[facts.job_id] = Look(subject, facts.digest, troubles)
        return looks

    async def _facts(self, subjects: dict[int, Subject]) -> list[Facts]:
        found = await self._inspect(subjects)
        asked = [facts for facts in found if any(map(_is_unknown, facts.ties))]
        if not asked:
            return found
        await self._ask_elsewhere(asked)
        # Another shard was asked later: what it says counts only if the job still
        # waits as it did.
        again = {facts.job_id: subjects[facts.job_id] for facts in asked}
        digests = {facts.job_id: facts.digest for facts in await self._inspect(again)}
        for facts in asked:
            if digests[facts.job_id] != facts.digest:
                facts.ties = [
                    _forgotten(tie) if tie.digest else tie for tie in facts.ties
                ]
        return found

    async def _inspect(self, subjects: dict[int, Subject]) -> list[Facts]:
        seen = await self.shard.inspect(list(subjects.values()))
        return [
            read_facts(job_id, one) for job_id, one in zip(subjects, seen, strict=True)
        ]

    async def _ask_elsewhere(self, asked: list[Facts]) -> None:
        """Complete ties to parents on other shards, a call to each."""
        questions: dict[int, list[tuple[Facts, int]]] = {}
        for facts in asked:
            for index, tie in enumerate(facts.ties):
                if _is_unknown(tie):
                    home = self._layout.shard_of(tie.parent)
                    questions.setdefault(home, []).append((facts, index))
        for home, places in questions.items():
            subjects: list[Subject] = [
                ("tie", facts.ties[index].parent, facts.job_id)
                for facts, index in places
            ]
            answers = await self._shards[home].inspect(subjects)
            for (facts, index), seen in zip(places, answers, strict=True):
                facts.ties[index] = _completed(facts.ties[index], seen)


class JobCase(Case):
    """A suspicious job."""

    def __init__(self, examiner: Examiner, job_id: int, sighting: Sighting) -> None:
        self.shard = examiner.shard
        self.job_id = job_id
        self.sighting = sighting
        self._examiner = examiner

    async def look(self) -> Look:
        looks = await self._examiner.look({self.job_id: self.sighting})
        return looks[self.job_id]


def _is_unknown(tie: Tie) -> bool:
    """Tell whether the parent's shard must be asked."""
    is_pending = tie.is_link_pending or tie.is_unlink_pending
    return not tie.is_known and not is_pending


def _completed(tie: Tie, seen: Seen) -> Tie:
    told = read_tie(tie.parent, seen.facts[0].decode())
    return msgspec.structs.replace(told, awaited=tie.awaited, digest=seen.digest)


def _forgotten(tie: Tie) -> Tie:
    return Tie(tie.parent, awaited=tie.awaited)


def _parts(sightings: Mapping[int, Sighting]) -> Iterator[dict[int, Sighting]]:
    part: dict[int, Sighting] = {}
    weight = 0
    for job_id, sighting in sightings.items():
        part[job_id] = sighting
        weight += sighting.weight
        if weight >= MAX_LOOKS:
            yield part
            part, weight = {}, 0
    if part:
        yield part
