"""A run of the benchmarks is a list of steps; the bar moves by one after each."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

T = TypeVar("T")


class Step(NamedTuple):
    """Something that is measured or prepared, and how to say so."""

    label: str
    run: Callable[[], Awaitable[None]]


def in_turn(contenders: Sequence[T], round_number: int) -> Sequence[T]:
    """Let another begin each round: whoever is first finds the machine rested."""
    return contenders if round_number % 2 == 0 else contenders[::-1]
