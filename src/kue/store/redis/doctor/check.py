"""Check of a whole store: survey, second look at suspects, repair."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kue.store.redis.doctor.job_facts import JobInspector
from kue.store.redis.doctor.job_rules import check_job
from kue.store.redis.doctor.rule import CheckResult
from kue.store.redis.doctor.survey import Survey
from kue.store.values import Finding, Report

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from kue.store.contract import OnProgress
    from kue.store.redis.doctor.job_facts import JobFacts, JobHints
    from kue.store.redis.doctor.rule import RedisFinding, Suspect
    from kue.store.redis.doctor.shard import Shard, ShardMap

#: Keys read in one reply of a scan, and where all of them belong to others.
_KEYS, _MANY_KEYS = 1000, 10_000
#: How often a suspect is checked in addition to once per finding: it may change.
_MORE_CHECKS = 8
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


class JobSuspect:
    """A job that may be damaged."""

    def __init__(self, inspector: JobInspector, job_id: int, hint: JobHints) -> None:
        self.shard = inspector.shard
        self._inspector = inspector
        self._hints = {job_id: hint}

    async def check(self) -> CheckResult:
        [facts] = await self._inspector.read(self._hints)
        return _result_of(facts)


class RedisCheck:
    """Checks a store, one shard after another."""

    def __init__(
        self, shards: Sequence[Shard], homes: ShardMap, progress: CheckProgress
    ) -> None:
        self._shards = shards
        self._progress = progress
        self._surveys = [
            Survey(
                JobInspector(shards, shard.number, homes),
                homes,
                progress.advance,
                lambda job_id: self._surveys[homes.shard_of(job_id)],
            )
            for shard in shards
        ]

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
            # Repairs of jobs may change all sums; those are not findings.
            counts = survey.error_counts()
            if not findings:
                counts = await survey.wrong_error_counts()
            for one in counts:
                wrong += await self._report(one, await one.check(), repair=repair)
        return findings or wrong

    async def _damaged(self) -> AsyncIterator[tuple[Suspect, CheckResult]]:
        """Yield what is damaged: keys first, which may be about to expire."""
        for survey in self._surveys:
            rest: list[tuple[Suspect, CheckResult]] = []
            suspects = {suspect.subject: suspect for suspect in survey.entries}
            for suspect in suspects.values():
                result = await suspect.check()
                if result.findings and suspect.subject[0] == "keys":
                    yield suspect, result
                elif result.findings:
                    rest.append((suspect, result))
            inspector = survey.inspector
            for facts in await inspector.read(survey.jobs):
                result = _result_of(facts)
                if result.findings:
                    hint = survey.jobs[facts.job_id]
                    yield JobSuspect(inspector, facts.job_id, hint), result
            for item in rest:
                yield item

    async def _report(
        self, suspect: Suspect, result: CheckResult, *, repair: bool
    ) -> list[Finding]:
        """Repair what can be repaired, if asked to, and report what was found."""
        found = left = result.findings
        if repair:
            left = await self._repair(suspect, result)
        names = {finding.name for finding in found}
        still = {finding.name for finding in left}
        # What appears only after a repair, and cannot be repaired, is found as well.
        found = found + [finding for finding in left if finding.name not in names]
        return [
            Finding(
                one.code,
                _cut(one.message),
                one.job_id,
                one.repair,
                one.name not in still,
            )
            for one in found
        ]

    async def _repair(
        self, suspect: Suspect, result: CheckResult
    ) -> list[RedisFinding]:
        """Repair one thing after another; return what is left."""
        refused: set[tuple[str, str]] = set()
        for _ in range(len(result.findings) + _MORE_CHECKS):
            for finding in result.findings:
                if finding.commands and finding.name not in refused:
                    break
            else:
                break
            if await self._carry_out(suspect, result, finding) == "refused":
                refused.add(finding.name)
            result = await suspect.check()
        return result.findings

    async def _carry_out(
        self, suspect: Suspect, result: CheckResult, finding: RedisFinding
    ) -> str:
        shard, subject, digest = suspect.shard, result.subject, result.digest
        if finding.precondition is not None:
            number, subject, digest = finding.precondition
            shard = self._shards[number]
        return await shard.repair(subject, digest, finding.commands)


def _result_of(facts: JobFacts) -> CheckResult:
    return CheckResult(facts.subject, facts.digest, check_job(facts))


def _cut(text: str) -> str:
    """Keep a message readable: it may quote a megabyte."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _order(finding: Finding) -> tuple[bool, int, str, str]:
    job_id = finding.job_id
    return job_id is None, job_id or 0, finding.code, finding.message
