"""Order of the waiting jobs of a type: which ranks, or scores, they can have."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kue.store.values import Limits

#: Ranks of one priority: 11 bits of priority and 41 of a sequence, in a Redis score.
LEVEL = 2**41
_DAY_MS = 86_400_000


class WaitingOrder(NamedTuple):
    """By priority and age, unless the type is fair or has ageing: see `Limits`."""

    fair: bool = False
    ageing: int | None = None

    @classmethod
    def of(cls, limits: Limits) -> WaitingOrder:
        return cls(limits.fair, limits.ageing)

    @property
    def is_given(self) -> bool:
        """Whether a rank is given when a job begins to wait, and not before."""
        return self.fair or self.ageing is not None

    def right_rank(
        self, rank: int, *, priority: int, created_at: int, sequence: int
    ) -> int:
        """Return *rank* if a job can have it, else one that it can have."""
        if self.ageing is not None:
            since = rank // 1000 - priority * self.ageing
            # The clock may have been set back since it was created.
            is_time = created_at - _DAY_MS <= since < 2**41
            right = 1000 * (created_at + priority * self.ageing)
            return rank if is_time else right
        if self.fair and rank // LEVEL == priority:
            return rank
        return priority * LEVEL + sequence
