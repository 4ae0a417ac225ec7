"""Rules of a check: the code of each, what it looks at, and what finds violations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

from kue.store.values import Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from kue.store.redis.doctor.job_facts import JobFacts
    from kue.store.redis.doctor.job_record import JobRecord
    from kue.store.redis.doctor.shard_access import Inspection, RedisCommand
    from kue.store.redis.doctor.structure_rules import Entry


class Violation(NamedTuple):
    """What is wrong, and what repairs it."""

    problem: str
    #: What the commands do, in words; empty when a person must decide.
    repair: str = ""
    commands: tuple[RedisCommand, ...] = ()
    #: What the repair rests on, and where it goes; None for what was checked.
    inspection: Inspection | None = None


class RedisFinding(NamedTuple):
    """A violated rule: what is reported, and what repairs it."""

    finding: Finding
    commands: tuple[RedisCommand, ...]
    inspection: Inspection

    @property
    def name(self) -> tuple[str, str]:
        """The same finding has the same name when it is found again."""
        return self.finding.code, self.finding.message


#: What rules are about: it has an id, a title that messages begin with, an inspection.
_T = TypeVar("_T", "JobFacts", "JobRecord", "Entry")


class Rule(NamedTuple, Generic[_T]):
    """One rule."""

    code: str
    #: The structures that it looks at: of an entry, or of a job.
    looks_at: Collection[str]
    #: Finds what is wrong, with the repair, which rests on the same facts.
    find: Callable[[_T], Iterator[Violation]]


def apply_rules(
    rules: Iterable[Rule[_T]], checked: _T, structure: str
) -> Iterator[RedisFinding]:
    """Yield what violates the rules that look at *structure*, rule by rule."""
    for rule in rules:
        if structure in rule.looks_at:
            for problem, repair, commands, inspection in rule.find(checked):
                message = checked.title + problem
                finding = Finding(rule.code, message, checked.job_id, repair)
                yield RedisFinding(finding, commands, inspection or checked.inspection)


class Suspect(Protocol):
    """Something to check again: before it is reported, and after it is repaired."""

    async def check(self) -> list[RedisFinding]: ...


def listed(things: Iterable[str], between: str = "and") -> str:
    """Return "a", "a and b", "a, b and c"."""
    *rest, last = things
    return f"{', '.join(rest)} {between} {last}" if rest else last
