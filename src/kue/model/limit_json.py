"""A named limit as JSON: the view that the REST API and the command line share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kue.model.view_struct import View

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kue.model.named_limits import LimitRule, StoredLimit


class Use(Protocol):
    """How one key of a limit is used: `kue.store.values.LimitUse`."""

    @property
    def key(self) -> str: ...
    @property
    def running(self) -> int: ...
    @property
    def waiting(self) -> int: ...
    @property
    def opens_at(self) -> int | None: ...


class RuleView(View, frozen=True, kw_only=True):
    """What a limit allows: either a concurrency or a rate."""

    #: In words.
    words: str
    #: How many run at once.
    concurrency: int | None
    #: How many start in any *per* ms.
    rate: int | None
    per: int
    #: How many may start at once, with the rate as the average.
    burst: int | None


class LimitKeyView(View, frozen=True, kw_only=True):
    """How one key of a limit is used; the key of a limit without keys is empty."""

    key: str
    running: int
    #: Jobs that are held back.
    waiting: int
    #: When its rate lets the next job start, Unix ms; null for a concurrency.
    opens_at: int | None


class LimitView(View, frozen=True, kw_only=True):
    """A limit that jobs share by name, and how it is used."""

    name: str
    #: The rule in force.
    rule: RuleView
    #: The rule that programs declare; null if it was set at run time only.
    declared: RuleView | None
    #: Whether the rule in force is another one than the declared one.
    is_changed: bool
    running: int
    #: Jobs that are held back.
    waiting: int


class LimitDetail(LimitView, frozen=True, kw_only=True):
    """A limit that jobs share by name, with its keys."""

    #: Those with running or held jobs, the most wanted first.
    keys: list[LimitKeyView]


def limit_view(name: str, limit: StoredLimit, uses: Sequence[Use]) -> LimitView:
    """Return a limit as in lists."""
    declared = limit.declared
    return LimitView(
        name=name,
        rule=rule_view(limit.rule),
        declared=None if declared is None else rule_view(declared),
        is_changed=declared is not None and declared != limit.rule,
        running=sum(use.running for use in uses),
        waiting=sum(use.waiting for use in uses),
    )


def limit_detail(name: str, limit: StoredLimit, uses: Sequence[Use]) -> LimitDetail:
    """Return a limit with its keys."""
    keys = [LimitKeyView.of(use) for use in uses]
    return LimitDetail.of(limit_view(name, limit, uses), keys=keys)


def rule_view(rule: LimitRule) -> RuleView:
    """Return a rule, also in words."""
    return RuleView.of(rule)
