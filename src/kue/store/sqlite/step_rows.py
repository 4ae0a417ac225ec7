"""Rows of the steps of a job: see `kue.store.step_record` for what they hold."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from kue.model.job import State
from kue.store.sqlite.verb_transaction import Transaction, as_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kue.store.sqlite.rows import StateRow

_GET = "SELECT value FROM steps WHERE job_id = ? AND field = ?"
_SET = "REPLACE INTO steps (job_id, field, value) VALUES (?, ?, ?)"
_REMOVE = "DELETE FROM steps WHERE job_id = ? AND field = ?"
_MARK = "UPDATE jobs SET has_steps = 1 WHERE id = ? AND has_steps = 0"
_UNMARK = "UPDATE jobs SET has_steps = 0 WHERE id = ?"
_FORGET = "DELETE FROM steps WHERE job_id IN (SELECT value FROM json_each(?))"

_COUNTS = re.compile(r"(\d+):(\d+):(\d+)")
_WAIT = re.compile(r"wait:(\d+):(.*)")
#: The value of a sleep or wait: until when, and once it ended when and by which signal.
_ENTRY = re.compile(r"\d+\t\d+\t(\d+)(?:\t(\d+)\t(\d*))?")


class SignalCounts(NamedTuple):
    """How many signals of a name were sent and received, and which wait is open."""

    sent: int = 0
    received: int = 0
    wait: int = 0


class StepRows:
    """The steps of one job, by field."""

    def __init__(self, tx: Transaction, job_id: int) -> None:
        self._tx = tx
        self._job_id = job_id

    def get(self, field: str) -> str:
        """Return a value; empty if there is none."""
        value: str | None = self._tx.one(_GET, self._job_id, field)
        return value or ""

    def set(self, field: str, value: object) -> None:
        self._tx.run(_SET, self._job_id, field, str(value))
        self._tx.run(_MARK, self._job_id)

    def remove(self, field: str) -> None:
        self._tx.run(_REMOVE, self._job_id, field)

    def number(self, field: str) -> int:
        """Return a counter; one that is damaged counts from 0."""
        value = self.get(field)
        return int(value) if value.isdecimal() else 0

    def add_step(self, field: str, value: object) -> None:
        """Add a step, sleep or wait; *value* is what follows its number and time."""
        number = self.number("steps") + 1
        self.set("steps", number)
        self.set(field, f"{number}\t{self._tx.now}\t{value}")
        self.set("last", field)

    def counts(self, name: str) -> SignalCounts:
        """Return the counts of a signal; *name* is quoted."""
        match = _COUNTS.fullmatch(self.get(f"signals:{name}"))
        return SignalCounts(*map(int, match.groups())) if match else SignalCounts()

    def set_counts(self, name: str, counts: SignalCounts) -> None:
        self.set(f"signals:{name}", ":".join(map(str, counts)))


def entry_of(value: str) -> tuple[int, bool, int | None] | None:
    """Return until when a wait lasts, whether it ended, and with which signal."""
    match = _ENTRY.fullmatch(value)
    if match is None:
        return None
    until, ended, signal = match.groups()
    return int(until), ended is not None, int(signal) if signal else None


def suspend(tx: Transaction, row: StateRow, field: str, delay: int) -> int:
    """
    Begin the sleep or wait that a run was suspended for, unless it has begun.

    Returns how long the job is delayed: not at all if the signal is there.
    """
    rows = StepRows(tx, row.id)
    entry = entry_of(rows.get(field))
    due = tx.now + delay if entry is None else entry[0]
    if entry is None:
        rows.add_step(field, due)
    if wait := _WAIT.fullmatch(field):
        counts = rows.counts(wait[2])
        if counts.sent > counts.received:
            return 0
        rows.set_counts(wait[2], counts._replace(wait=int(wait[1])))
    return max(0, due - tx.now)


def restart(tx: Transaction, row: StateRow) -> None:
    """
    Forget the steps of an ended job that starts again.

    All of them if it was complete, else only a wait that did not get its signal, which
    then begins again.
    """
    if row.state == State.COMPLETE:
        forget(tx, [row.id])
        tx.run(_UNMARK, row.id)
        return
    rows = StepRows(tx, row.id)
    last = rows.get("last")
    entry = entry_of(rows.get(last))
    if last.startswith("wait:") and (entry is None or entry[2] is None):
        rows.remove(last)
        rows.remove("last")


def forget(tx: Transaction, ids: Iterable[int]) -> None:
    """Delete the steps of jobs."""
    tx.run(_FORGET, as_json(list(ids)))
