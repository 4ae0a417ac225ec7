"""Delivery checks: in every measurement, each job must run exactly once."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class Undelivered(Exception):
    """Jobs were lost, repeated or left behind; the figures mean nothing."""


def check_once(added: Iterable[int], ran: Iterable[int], who: str) -> None:
    """Raise `Undelivered` unless every job of *added* ran, and each exactly once."""
    wanted, got = sorted(added), sorted(ran)
    if wanted != got:
        lost, strange = set(wanted) - set(got), set(got) - set(wanted)
        raise Undelivered(
            f"{who}: {len(wanted)} jobs were added and {len(got)} ran; "
            f"{len(lost)} never did, {len(got) - len(set(got))} ran more than once, "
            f"{len(strange)} were never added"
        )


def check_count(found: int, wanted: int, what: str) -> None:
    """Raise `Undelivered` unless *found* is as *wanted*."""
    if found != wanted:
        raise Undelivered(f"{what}: {found} instead of {wanted}")
