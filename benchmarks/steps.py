"""Steps of a benchmark run; the progress bar advances after each."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

T = TypeVar("T")


class Step(NamedTuple):
    """A measurement or preparation, with its label."""

    label: str
    run: Callable[[], Awaitable[None]]


def in_turn(contenders: Sequence[T], round_number: int) -> Sequence[T]:
    """Alternate the order from round to round: the first finds an idle machine."""
    return contenders if round_number % 2 == 0 else contenders[::-1]
