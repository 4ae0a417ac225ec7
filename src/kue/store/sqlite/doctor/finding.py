"""Doctor, findings: what a check finds, and how it is repaired."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from kue.store.sqlite.transaction import Transaction

#: Repairs something if it is still necessary: each checks again before it writes.
Repair = Callable[["Transaction"], None]


class SqliteFinding(NamedTuple):
    """A violated invariant."""

    code: str
    message: str
    job_id: int | None = None
    #: What the repair does, in a few words; empty when a person must decide.
    repair: str = ""
    apply: Repair | None = None


def statement(sql: str, *values: Any) -> Repair:
    """Return a repair of one statement, whose condition checks again."""

    def run(tx: Transaction) -> None:
        tx.run(sql, *values)

    return run
