"""Rules of a check: the code of each, what it looks at, and what finds violations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from kue.store.redis.doctor.shard import RedisCommand, Subject

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from kue.store.redis.doctor.shard import Shard


class Precondition(NamedTuple):
    """What must be unchanged, and on which shard, when a repair is carried out."""

    shard: int
    subject: Subject
    digest: bytes


class Violation(NamedTuple):
    """What is wrong, and what repairs it."""

    problem: str
    #: What the commands do, in words; empty when a person must decide.
    repair: str = ""
    commands: tuple[RedisCommand, ...] = ()
    #: Where the commands go; None for the subject that was inspected.
    precondition: Precondition | None = None


class RedisFinding(msgspec.Struct, frozen=True):
    """A violated rule, as it is reported."""

    code: str
    message: str
    job_id: int | None = None
    repair: str = ""
    commands: tuple[RedisCommand, ...] = ()
    precondition: Precondition | None = None

    @property
    def name(self) -> tuple[str, str]:
        """The same finding has the same name when it is found again."""
        return self.code, self.message


class Checked(Protocol):
    """What rules are about: a job, or an entry of a structure."""

    @property
    def job_id(self) -> int | None: ...

    @property
    def title(self) -> str:
        """What messages begin with."""


_T = TypeVar("_T", bound=Checked)


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
            for problem, repair, commands, precondition in rule.find(checked):
                yield RedisFinding(
                    rule.code,
                    checked.title + problem,
                    checked.job_id,
                    repair,
                    commands,
                    precondition,
                )


class CheckResult(NamedTuple):
    """A subject, the digest of its facts, and what is wrong with it."""

    subject: Subject
    digest: bytes
    findings: list[RedisFinding]


class Suspect(Protocol):
    """Something to check again: before it is reported, and after it is repaired."""

    shard: Shard

    async def check(self) -> CheckResult: ...


def listed(things: Iterable[str], between: str = "and") -> str:
    """Return "a", "a and b", "a, b and c"."""
    *rest, last = things
    return f"{', '.join(rest)} {between} {last}" if rest else last
