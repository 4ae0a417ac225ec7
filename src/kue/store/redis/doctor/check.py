"""Check of a whole store: survey, second look at suspects, repair."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from kue.store.redis.doctor import repairs
from kue.store.redis.doctor.job_facts import JobHints, read_jobs
from kue.store.redis.doctor.job_rules import check_job
from kue.store.redis.doctor.shard_scan import Survey
from kue.store.values import Finding, Report

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from kue.store.contract import OnProgress
    from kue.store.redis.doctor.rule import RedisFinding, Suspect
    from kue.store.redis.doctor.shard_access import Shard

#: Keys read in one reply of a scan, and where all of them belong to others.
_KEYS, _MANY_KEYS = 1000, 10_000
_LONGEST = 2000
#: How often progress is reported, at most.
_REPORTS = 200


class CheckProgress:
    """Counts steps towards a total that is an estimate."""

    def __init__(self, on_progress: OnProgress | None) -> None:
        self._on_progress = on_progress
        self._total = 0
        self._done = 0
        self._reported = 0

    def begin(self, total: int) -> None:
        self._total = total
        self._report()

    def advance(self, steps: int) -> None:
        # Jobs may be added: it must not look done before it is.
        self._done = min(self._done + steps, self._total)
        if (self._done - self._reported) * _REPORTS >= self._total:
            self._report()

    def finish(self) -> None:
        self._done = self._total
        self._report()

    def _report(self) -> None:
        self._reported = self._done
        if self._on_progress is not None:
            self._on_progress(self._done, self._total)


class JobSuspect(NamedTuple):
    """A job that may be damaged."""

    shard: Shard
    job_id: int
    hints: JobHints

    async def check(self) -> list[RedisFinding]:
        hints = {self.job_id: self.hints}
        [found] = [check_job(facts) async for facts in read_jobs(self.shard, hints)]
        return found


class RedisCheck:
    """Checks a store, one shard after another."""

    def __init__(self, shards: Sequence[Shard], progress: CheckProgress) -> None:
        self._shards = shards
        self._progress = progress
        self._surveys: list[Survey] = []
        for shard in shards:
            self._surveys.append(Survey(shard, self._surveys, progress.advance))

    async def run(self, nodes: Sequence[int], pattern: str, *, repair: bool) -> Report:
        """
        Check everything; *nodes* are shards, one of each server that holds any.

        *pattern* matches the keys of all shards.
        """
        sizes = [await self._shards[node].read([("DBSIZE",)]) for node in nodes]
        # Nearly all keys are jobs, which are read again in the structures they are in.
        self._progress.begin(2 * sum(size for [size] in sizes))
        for survey in self._surveys:
            await survey.begin()
        for node in nodes:
            await self._find_keys(self._shards[node], pattern)
        for survey in self._surveys:
            await survey.run()
        for survey in self._surveys:
            await survey.flush()
        for survey in self._surveys:
            await survey.inspect_many()
        findings = await self._conclude(repair=repair)
        self._progress.finish()
        count = sum(len(survey.recorded) for survey in self._surveys)
        return Report(count, tuple(sorted(findings, key=_order)))

    async def _find_keys(self, node: Shard, pattern: str) -> None:
        """Pass every key of a server to the survey of its shard."""
        surveys = {survey.shard.keys.root.encode(): survey for survey in self._surveys}
        cursor, count = -1, _KEYS
        while cursor:
            [(after, names)] = await node.read(
                [("SCAN", max(cursor, 0), "MATCH", pattern, "COUNT", count)]
            )
            cursor = int(after)
            self._progress.advance(count)
            count = _KEYS if names else _MANY_KEYS
            found: dict[bytes, list[bytes]] = {}
            for name in names:
                tag, _, text = name.partition(b"}:")
                found.setdefault(tag + b"}", []).append(text)
            for tag in found.keys() & surveys.keys():
                for start in range(0, len(found[tag]), _KEYS):
                    await surveys[tag].take_keys(found[tag][start : start + _KEYS])

    async def _conclude(self, *, repair: bool) -> list[Finding]:
        """Check every suspect again; what is wrong now is a finding."""
        damaged = [item async for item in self._damaged()]
        findings: list[Finding] = []
        for suspect, result in damaged:
            findings += await self._report(suspect, result, repair=repair)
        # While jobs are in doubt, so are sums over them.
        if not all(finding.repaired for finding in findings):
            return findings
        wrong: list[Finding] = []
        for survey in self._surveys:
            sums: list[Suspect] = [*await survey.error_counts(), *survey.flow_indexes()]
            for counts in sums:
                found = await counts.check()
                wrong += await self._report(counts, found, repair=repair)
        # Repairs of jobs may change all sums; those are not findings.
        return findings or wrong

    async def _damaged(self) -> AsyncIterator[tuple[Suspect, list[RedisFinding]]]:
        """Yield what is damaged: keys first, which may be about to expire."""
        for survey in self._surveys:
            rest: list[tuple[Suspect, list[RedisFinding]]] = []
            entries = {entry.subject: entry for entry in survey.entries}
            for subject, entry in entries.items():
                found = await entry.check()
                if found and subject[0] == "keys":
                    yield entry, found
                elif found:
                    rest.append((entry, found))
            async for facts in read_jobs(survey.shard, survey.jobs):
                found, job_id = check_job(facts), facts.job_id
                if found:
                    yield JobSuspect(survey.shard, job_id, survey.jobs[job_id]), found
            for item in rest:
                yield item

    async def _report(
        self, suspect: Suspect, found: list[RedisFinding], *, repair: bool
    ) -> list[Finding]:
        """Repair what can be repaired, if asked to, and report what was found."""
        left = await repairs.repair(suspect, found) if repair else found
        names = {one.name for one in found}
        still = {one.name for one in left}
        # What appears only after a repair, and cannot be repaired, is found as well.
        found = found + [one for one in left if one.name not in names]
        return [
            msgspec.structs.replace(
                one.finding,
                message=_cut(one.finding.message),
                repaired=one.name not in still,
            )
            for one in found
        ]


def _cut(text: str) -> str:
    """Keep a message readable: it may quote a megabyte."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _order(finding: Finding) -> tuple[bool, int, str, str]:
    job_id = finding.job_id
    return job_id is None, job_id or 0, finding.code, finding.message
