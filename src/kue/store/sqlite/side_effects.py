"""What follows from a verb, whatever verb it was."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kue.store.sqlite import dependencies
from kue.store.sqlite.verbs import limits

if TYPE_CHECKING:
    from kue.store.sqlite.transaction import Transaction


def follow(turn: Transaction) -> None:
    """
    Tell dependants, hand on freed slots, and write down what was noted.

    In this order: dependants that are cancelled free slots and are counted themselves.
    """
    dependencies.tell_dependants(turn)
    limits.refill(turn)
    turn.write()
