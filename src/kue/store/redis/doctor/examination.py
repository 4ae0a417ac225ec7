"""One check of a whole store: survey, second look, repair."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kue.store.redis.doctor.jobs import Examiner, JobCase
from kue.store.redis.doctor.rounds import Rounds
from kue.store.redis.doctor.survey import Survey
from kue.store.values import Finding, Report

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from kue.store.redis.doctor.case import Case, Look
    from kue.store.redis.doctor.layout import Layout
    from kue.store.redis.doctor.shard import Shard
    from kue.store.redis.doctor.steps import Steps
    from kue.store.redis.doctor.trouble import Trouble

#: Keys asked for in one reply of a scan, and where all of them are other people's.
_KEYS, _MANY_KEYS = 1000, 10_000
#: Looks at one case beyond one for each trouble: it may change under our hands.
_MORE_ROUNDS = 8
_LONGEST = 2000


class Examination:
    """Checks a store, a shard after another."""

    def __init__(self, shards: Sequence[Shard], layout: Layout, steps: Steps) -> None:
        self._shards = shards
        self._layout = layout
        self._steps = steps
        self._surveys = [
            Survey(Examiner(shards, shard.number, layout), layout, steps.advance)
            for shard in shards
        ]

    async def run(self, nodes: Sequence[int], pattern: str, *, repair: bool) -> Report:
        """
        Check everything; *nodes* are shards, one of each server that holds any.

        *pattern* matches the keys of all shards.
        """
        sizes = [await self._shards[node].read([("DBSIZE",)]) for node in nodes]
        # Nearly all keys are jobs, and are met again in the structure of their state.
        self._steps.begin(2 * sum(size for [size] in sizes))
        for survey in self._surveys:
            await survey.begin()
        for node in nodes:
            await self._find_keys(self._shards[node], pattern)
        for survey in self._surveys:
            await Rounds(survey, self._survey_of).walk()
        for survey in self._surveys:
            await survey.look()
        findings = await self._conclude(repair=repair)
        self._steps.finish()
        count = sum(len(survey.recorded) for survey in self._surveys)
        return Report(count, tuple(sorted(findings, key=_order)))

    def _survey_of(self, job_id: int) -> Survey:
        return self._surveys[self._layout.shard_of(job_id)]

    async def _find_keys(self, node: Shard, pattern: str) -> None:
        """Hand every key of a server to the survey of its shard."""
        tags = {
            survey.shard.keys.root.encode(): survey.take_keys
            for survey in self._surveys
        }
        cursor, count = -1, _KEYS
        while cursor:
            [(after, names)] = await node.read(
                [("SCAN", max(cursor, 0), "MATCH", pattern, "COUNT", count)]
            )
            cursor = int(after)
            self._steps.advance(count)
            count = _KEYS if names else _MANY_KEYS
            found: dict[bytes, list[bytes]] = {}
            for name in names:
                tag, _, text = name.partition(b"}:")
                found.setdefault(tag + b"}", []).append(text)
            for tag in found.keys() & tags.keys():
                for start in range(0, len(found[tag]), _KEYS):
                    await tags[tag](found[tag][start : start + _KEYS])

    async def _conclude(self, *, repair: bool) -> list[Finding]:
        """Look at every suspicion again; what is wrong now is a finding."""
        troubled = [item async for item in self._troubled()]
        findings: list[Finding] = []
        for case, look in troubled:
            left = look.troubles
            if repair:
                left = await self._mend(case, look)
            findings += _findings(look.troubles, left)
        # While jobs are in doubt, so are sums of them.
        if all(finding.repaired for finding in findings):
            drift = await self._count_errors(repair=repair, anew=bool(findings))
            # What mending jobs did to the sums is no finding of its own.
            findings = findings or drift
        return findings

    async def _count_errors(self, *, repair: bool, anew: bool) -> list[Finding]:
        """Look at errors that seem miscounted; at all, once jobs were mended."""
        findings: list[Finding] = []
        for survey in self._surveys:
            cases = survey.error_cases() if anew else await survey.miscounted()
            for case in cases:
                look = await case.look()
                left = await self._mend(case, look) if repair else look.troubles
                findings += _findings(look.troubles, left)
        return findings

    async def _troubled(self) -> AsyncIterator[tuple[Case, Look]]:
        """Yield what something ails: keys first, which may be about to go."""
        for survey in self._surveys:
            cases = {case.subject: case for case in survey.cases}
            rest: list[tuple[Case, Look]] = []
            for case in cases.values():
                look = await case.look()
                if not look.troubles:
                    continue
                if case.subject[0] == "keys":
                    yield case, look
                else:
                    rest.append((case, look))
            looks = await survey.examiner.look(survey.jobs)
            for job_id, look in looks.items():
                if look.troubles:
                    sighting = survey.jobs[job_id]
                    yield JobCase(survey.examiner, job_id, sighting), look
            for item in rest:
                yield item

    async def _mend(self, case: Case, look: Look) -> list[Trouble]:
        """Mend what can be, one thing after another; return what is left."""
        refused: set[tuple[str, str]] = set()
        for _ in range(len(look.troubles) + _MORE_ROUNDS):
            trouble = _curable(look.troubles, refused)
            if trouble is None:
                break
            if await self._carry_out(case, look, trouble) == "refused":
                refused.add(_name(trouble))
            look = await case.look()
        return look.troubles

    async def _carry_out(self, case: Case, look: Look, trouble: Trouble) -> str:
        guard = trouble.guard
        if guard is None:
            return await case.shard.mend(look.subject, look.digest, trouble.commands)
        shard = self._shards[guard.shard]
        return await shard.mend(guard.subject, guard.digest, trouble.commands)


def _curable(troubles: list[Trouble], refused: set[tuple[str, str]]) -> Trouble | None:
    for trouble in troubles:
        if trouble.commands and _name(trouble) not in refused:
            return trouble
    return None


def _findings(found: list[Trouble], left: list[Trouble]) -> list[Finding]:
    """Return findings: mended is what is no longer there."""
    still = {_name(trouble) for trouble in left}
    names = {_name(trouble) for trouble in found}
    # What only a repair brought to light, and could not mend, is found as well.
    new = [trouble for trouble in left if _name(trouble) not in names]
    return [
        Finding(
            trouble.code,
            _cut(trouble.message),
            trouble.job_id,
            trouble.repair,
            _name(trouble) not in still,
        )
        for trouble in (*found, *new)
    ]


def _cut(text: str) -> str:
    """Keep a message readable: what it quotes may be a megabyte."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _name(trouble: Trouble) -> tuple[str, str]:
    return trouble.code, trouble.message


def _order(finding: Finding) -> tuple[bool, int, str, str]:
    job_id = finding.job_id
    return job_id is None, job_id or 0, finding.code, finding.message
