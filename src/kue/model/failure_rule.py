"""Failure rules: what is done about jobs of a type that failed for good."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kue.model.alert_options import checked_url
from kue.model.alerts import RESERVED
from kue.model.names import check_path_name

if TYPE_CHECKING:
    from collections.abc import Mapping


class FailureRule(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is done about jobs that failed for good: those of one type, or all."""

    #: Whether a program has failure hooks for the type.
    hooks: bool = False
    #: The type of the jobs that they are forwarded to; empty for none.
    dead_letter: str = ""
    #: What the program declares as that; `dead_letter` may have been set since.
    declared: str = ""
    #: Where failures are reported to; empty for nowhere.
    webhook: str = ""

    @property
    def is_asked(self) -> bool:
        """Whether a program declares something."""
        return self.hooks or bool(self.declared)

    @property
    def is_empty(self) -> bool:
        return self == FailureRule()


def rule_of(
    rules: Mapping[str | None, FailureRule], type: str, queue: str | None = None
) -> FailureRule:
    """
    Return what applies to jobs of *type* that waited in *queue*, if that is another.

    Its own rule comes first, then that of the queue, then that for all types (None).
    """
    own, common = rules.get(type, FailureRule()), rules.get(None, FailureRule())
    there = rules.get(queue, FailureRule())
    target = own.dead_letter or there.dead_letter or common.dead_letter
    return FailureRule(
        hooks=own.hooks,
        # A dead letter that fails stays where it is.
        dead_letter="" if target in (type, queue) else target,
        webhook=own.webhook or there.webhook or common.webhook,
    )


def check_rule(type: str | None, rule: FailureRule | None) -> None:
    """
    Raise `ValueError` for a rule that makes no sense.

    Nothing is forwarded to a type of Kue's own, nor from one.
    """
    if type is not None:
        _check_type(type, "type")
    if rule is None:
        return
    if rule.dead_letter:
        _check_type(rule.dead_letter, "dead letter type")
        if rule.dead_letter == type:
            raise ValueError(
                f"jobs of type {type!r} cannot be their own dead letters; name "
                "another type"
            )
    if rule.webhook:
        checked_url(rule.webhook)


def _check_type(type: str, what: str) -> None:
    check_path_name(type, what=what)
    if type.startswith(RESERVED):
        raise ValueError(f"{what} {type!r} is one of Kue's own; name another")
