"""Side effects of a verb: notified dependants, freed slots, counts and events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kue.store.sqlite import dependencies
from kue.store.sqlite.verbs import limits

if TYPE_CHECKING:
    from kue.store.sqlite.transaction import Transaction


def apply_side_effects(tx: Transaction) -> None:
    """
    Notify dependants, reuse freed slots, and write what was noted.

    In this order: dependants that are cancelled free slots and are counted themselves.
    """
    dependencies.notify_dependants(tx)
    limits.refill(tx)
    tx.write()
