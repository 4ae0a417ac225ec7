"""Doctor, findings: what a check finds, and how it is repaired."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from kue.store.sqlite.verb_transaction import Transaction

#: What is known of the damage, by name; see `SqliteFinding.values`.
Values = Mapping[str, Any]
#: A statement that takes values by name, or a function.
Act = str | Callable[["Transaction", Values], None]


class Repair(NamedTuple):
    """How to repair one kind of damage; each checks again before it writes."""

    #: What it does, in a few words.
    text: str
    act: Act

    def apply(self, tx: Transaction, values: Values) -> None:
        if isinstance(self.act, str):
            tx.db.execute(self.act, values)
        else:
            self.act(tx, values)


class SqliteFinding(NamedTuple):
    """A violated invariant."""

    code: str
    message: str
    #: None when a person must decide.
    repair: Repair | None = None
    #: The values of the repair, and the job concerned as *job_id*.
    values: Values = {}
