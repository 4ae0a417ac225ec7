"""What a check finds, and how it is mended."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from kue.store.sqlite.transaction import Transaction

#: Mends something if it still needs it; each looks again before it writes.
Mend = Callable[["Transaction"], None]


class SqliteFinding(NamedTuple):
    """Something that must not be."""

    code: str
    message: str
    job_id: int | None = None
    #: What mending does, in a few words; empty when a person must decide.
    repair: str = ""
    mend: Mend | None = None


def statement(sql: str, *values: Any) -> Mend:
    """Return a mend that is one statement, whose condition looks again."""

    def run(turn: Transaction) -> None:
        turn.run(sql, *values)

    return run
