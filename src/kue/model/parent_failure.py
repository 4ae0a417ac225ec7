"""What the end of a job does to those that wait for it: `on_parent_failure`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from kue.model.job import OnParentFailure

#: It goes on waiting, waits for one job less, is cancelled, or waits for none at all.
Effect: TypeAlias = Literal["wait", "less", "cancel", "release"]

#: How a parent ended that was removed without having succeeded; other endings are named
#: after states.
REMOVED = "removed"
#: Why a job was cancelled that runs only when one that it waits for fails.
NONE_FAILED = "none of the jobs it waited for failed"

_OF_FAILURE: dict[OnParentFailure, Effect] = {
    "block": "wait",
    "cancel": "cancel",
    "run": "less",
    "only": "release",
}
_POLICIES = tuple(_OF_FAILURE)


def check_policy(policy: object) -> None:
    """Raise `ValueError` unless *policy* is a value of `on_parent_failure`."""
    if policy not in _POLICIES:
        raise ValueError(
            f"on_parent_failure is 'block', 'cancel', 'run' or 'only', not {policy!r}"
        )


def effect_of(how: str, policy: OnParentFailure) -> Effect:
    """Return what a parent in state *how* (or `REMOVED`) does to a job."""
    if how == "complete":
        return "less"
    if how == "failed":
        return _OF_FAILURE.get(policy, "wait")
    if how in ("cancelled", REMOVED):
        return "cancel" if policy in ("block", "cancel") else "less"
    return "wait"


def reason_of(parent: int, how: str) -> str:
    """Return why a job was cancelled that waited for *parent*."""
    ended = how if how == "failed" else f"was {how}"
    return f"job {parent}, which it waited for, {ended}"
