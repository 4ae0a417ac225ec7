"""What follows from a verb, whatever verb it was."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kue.store.sqlite import gates, links

if TYPE_CHECKING:
    from kue.store.sqlite.turn import Turn


def follow(turn: Turn) -> None:
    """
    Tell dependants, hand on freed slots, and write down what was noted.

    In this order: dependants that are cancelled free slots and are counted themselves.
    """
    links.tell_dependants(turn)
    gates.refill(turn)
    turn.write()
