"""
Slots of a worker, and how types share them.

Without a common limit every type has its own slots and types do not compete.  With one,
types that want more than there is get a share by weight, and slots that some leave are
for the others; in strict order a type gets the slots that types before it leave.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(slots=True, eq=False)
class SlotClaimant:
    """A type that claims slots."""

    #: The most it may hold.
    slots: int
    weight: int = 1
    #: Slots it holds: runs, and claims in flight.
    held: int = 0
    #: Whether the store may have work for it.
    may_have_work: bool = True
    #: In strict order, those with lower numbers come first.
    rank: int = 0

    @property
    def free(self) -> int:
        return self.slots - self.held


class SlotBudget:
    """
    Slots that several types share, and a limit for the number of runs in all.

    *total* and *runs* are None for no limit.  *may_grow*: types may be added later.
    """

    def __init__(
        self,
        claimants: Sequence[SlotClaimant],
        *,
        total: int | None = None,
        runs: int | None = None,
        strict: bool = False,
        may_grow: bool = False,
    ) -> None:
        self._claimants = list(claimants)
        self._total = total or 0
        self._runs = runs
        self._strict = strict
        wanted = sum(claimant.slots for claimant in claimants)
        #: Whether types compete for slots.
        self.is_tight = total is not None and (may_grow or wanted > total)

    def add(self, claimant: SlotClaimant) -> None:
        """Let one more type share the slots, in the order of the ranks."""
        bisect.insort(self._claimants, claimant, key=lambda one: one.rank)

    def take(self, claimant: SlotClaimant, most: int) -> int:
        """Take up to *most* slots for a claim; return how many."""
        room = min(most, self._room(claimant) if self.is_tight else claimant.free)
        if self._runs is not None:
            room = min(room, self._runs)
            self._runs -= room
        claimant.held += room
        return room

    def give_back(self, claimant: SlotClaimant, slots: int) -> None:
        """Free slots that were taken for a claim which got fewer jobs."""
        claimant.held -= slots
        if self._runs is not None:
            self._runs += slots

    def _room(self, claimant: SlotClaimant) -> int:
        left = self._total - sum(other.held for other in self._claimants)
        if left <= 0:
            return 0
        rivals = [
            other
            for other in self._claimants
            if other.may_have_work and other.free and other is not claimant
        ]
        reserved = sum(self._reserved(other, claimant, rivals) for other in rivals)
        share = 0 if self._strict else self._share(claimant, rivals) - claimant.held
        return max(0, min(claimant.free, left, max(left - reserved, share)))

    def _reserved(
        self,
        other: SlotClaimant,
        claimant: SlotClaimant,
        rivals: Sequence[SlotClaimant],
    ) -> int:
        """Return how many of the free slots are reserved for *other*."""
        if self._strict:
            order = self._claimants
            return other.free if order.index(other) < order.index(claimant) else 0
        rest = [*(rival for rival in rivals if rival is not other), claimant]
        return max(0, min(other.slots, self._share(other, rest)) - other.held)

    def _share(self, claimant: SlotClaimant, rivals: Sequence[SlotClaimant]) -> int:
        weights = claimant.weight + sum(rival.weight for rival in rivals)
        # At least one: a type with a low weight is slow, never starved.
        return max(1, self._total * claimant.weight // weights)
