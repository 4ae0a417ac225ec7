"""
Rules about flows: the index of members on each shard, and what it counts.

`FlowIndex` compares the counters with the members, as `ErrorCounts` does for errors.
How removed members ended is not known otherwise: those counters are believed.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kue.store.redis.doctor.bitset import Bitset
from kue.store.redis.doctor.job_facts import JobFacts
from kue.store.redis.doctor.job_record import FINAL_PLACES, JobRecord
from kue.store.redis.doctor.repairs import mark_lost
from kue.store.redis.doctor.rule import RedisFinding, Rule, Violation
from kue.store.redis.doctor.shard_access import text_of
from kue.store.redis.keys import PLACES
from kue.store.values import Finding

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from kue.store.redis.doctor.shard_access import (
        Inspection,
        RedisCommand,
        Shard,
        Subject,
    )

#: Members read in one reply.
_COUNT = 200
#: How often members are counted again because some have moved in the meantime.
_TRIES = 3


def _indexed(facts: JobFacts) -> Iterator[Violation]:
    own = facts.job.flow if isinstance(facts, JobRecord) else None
    where = "is not of that flow" if isinstance(facts, JobRecord) else "is gone"
    for flow, is_member in facts.flows.items():
        if is_member and flow != own:
            problem = f"{where}, but is among the members of the flow of job {flow}"
            out = ("ZREM", _members(facts, flow), facts.job_id)
            yield Violation(problem, "take it out", (out,))


def _unindexed(job: JobRecord) -> Iterator[Violation]:
    flow = job.job.flow
    if flow is not None and job.flows.get(flow) is False:
        problem = f"is of the flow of job {flow}, but not among its members"
        put = ("ZADD", _members(job, flow), job.job_id, job.job_id)
        yield Violation(problem, "add it", (put,))


def _marked_lost(job: JobRecord) -> Iterator[Violation]:
    if "lost" in job.marks:
        problem = "exists, but is marked as removed"
        yield Violation(problem, "unmark it", (mark_lost(job, 0),))


def _members(facts: JobFacts, flow: int) -> str:
    return facts.keys.of_shard(f"members:{flow}")


#: About a job in exactly one state.
FLOW_RULES = (
    Rule[JobRecord]("stray-entry", PLACES, _indexed),
    Rule[JobRecord]("missing-entry", PLACES, _unindexed),
    Rule[JobRecord]("count-drift", PLACES, _marked_lost),
)
#: About a job without a record.
GONE_FLOW_RULES = (Rule[JobFacts]("stray-entry", ("gone",), _indexed),)


class FlowIndex:
    """The index of one flow on one shard."""

    def __init__(self, shard: Shard, flow: int) -> None:
        self.shard = shard
        self.flow = flow
        self.subject: Subject = ("flow", flow)

    async def check(self) -> list[RedisFinding]:
        """Count the members; this proves nothing while they come, go or end."""
        [inspection] = await self.shard.inspect([self.subject])
        if not inspection.facts:
            return []
        if found := await self._check_home(inspection):
            return [found]
        for _ in range(_TRIES):
            before, counted = inspection.digest, await self._count()
            [inspection] = await self.shard.inspect([self.subject])
            if inspection.digest == before:
                return self._compare(inspection, counted)
        return []

    async def _check_home(self, inspection: Inspection) -> RedisFinding | None:
        """Return what is wrong between the index and the job of the flow."""
        keys, shard = self.shard.keys, self.shard
        status, link = map(text_of, inspection.facts[:2])
        has_members = inspection.facts[2] != b"0"
        is_known = f"at:{shard.number}".encode() in inspection.facts[3::2]
        is_known = is_known or not has_members
        mark: RedisCommand = ("HSET", self._key, f"at:{shard.number}", "")
        if status == "elsewhere":
            home = shard.home_of(self.flow)
            subject = ("flow home", self.flow, shard.number)
            [other] = await home.inspect([subject])
            status, at, drop = map(text_of, other.facts)
            is_known = at == "1" or link == "1"
            entry = f"root:{self.flow}:{shard.number}"
            mark = ("HSET", keys.of_shard("outbox"), entry, "")
            if not status and (drop == "1" or link == "1"):
                return None
        name = f"the flow of job {self.flow}"
        if not status:
            problem = f"{name} has members, but that job is gone"
            out = ("UNLINK", self._key, keys.of_shard(f"members:{self.flow}"))
            return self._found(problem, "forget them", inspection, out)
        if not is_known:
            problem = f"{name} has members that it does not know of"
            return self._found(problem, "have it know of them", inspection, mark)
        return None

    async def _count(self) -> Counter[str]:
        """Return how many members are in which state."""
        counted: Counter[str] = Counter()
        async for ids in self._ids():
            [found] = await self.shard.inspect([("places", *ids)])
            counted.update(map(text_of, found.facts))
        return counted

    async def _ids(self) -> AsyncIterator[list[bytes]]:
        """Yield members, some at a time, each once."""
        members, cursor = self.shard.keys.of_shard(f"members:{self.flow}"), -1
        seen = Bitset()
        while cursor:
            scan: RedisCommand = ("ZSCAN", members, max(cursor, 0), "COUNT", _COUNT)
            [(after, found)] = await self.shard.read([scan])
            cursor = int(after)
            # A scan may return a job twice; what is not a job is a finding of its own.
            ids = [member for member in found[::2] if member.isdigit()]
            yield [one for one in ids if seen.add(self.shard.sequence_of(int(one)))]

    def _compare(
        self, inspection: Inspection, counted: Counter[str]
    ) -> list[RedisFinding]:
        fields = list(map(text_of, inspection.facts[3:]))
        written = dict(zip(fields[::2], fields[1::2], strict=True))
        right = {
            end: counted[end] + int(written.get(f"gone_{end}") or 0)
            for end in sorted(FINAL_PLACES)
        }
        wrong = {
            end: number
            for end, number in right.items()
            if written.get(end, "0") != str(number)
        }
        if not wrong:
            return []
        pairs = [word for pair in wrong.items() for word in pair]
        problem = f"the members of the flow of job {self.flow} are not counted as they "
        command = ("HSET", self._key, *pairs)
        return [self._found(f"{problem}ended", "count again", inspection, command)]

    def _found(
        self, problem: str, repair: str, inspection: Inspection, *commands: RedisCommand
    ) -> RedisFinding:
        finding = Finding("flow-drift", problem, None, repair)
        return RedisFinding(finding, commands, inspection)

    @property
    def _key(self) -> str:
        return self.shard.keys.of_shard(f"flow:{self.flow}")
