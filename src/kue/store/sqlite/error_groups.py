"""Error groups: failed jobs counted by type and error fingerprint."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from kue.model.fingerprint import LENGTH, first_line
from kue.store.values import ErrorGroup, Errors

if TYPE_CHECKING:
    import sqlite3

    from kue.model.job import Error

_MARK = '"fingerprint":"'
#: The fingerprint at the end of a failed job's story, or an empty text.
FINGERPRINT = f"""
iif(state = 'failed' AND substr(story, -{len(_MARK) + LENGTH + 2}, {len(_MARK)})
    = '{_MARK}', substr(story, -{LENGTH + 2}, {LENGTH}), '')
"""

_ADD = """
INSERT INTO errors VALUES (:type, :fingerprint, :n, :at, :at, :job_id, :kind, :message)
ON CONFLICT DO UPDATE SET n = n + excluded.n, last_at = excluded.last_at,
    job_id = excluded.job_id, kind = excluded.kind, message = excluded.message
"""
_TAKE = "UPDATE errors SET n = n - ? WHERE type = ? AND fingerprint = ?"
_FORGET = "DELETE FROM errors WHERE type = ? AND fingerprint = ? AND n <= 0"
_MOST = """
SELECT fingerprint, type, kind, message, n, first_at, last_at, job_id FROM errors
WHERE ?1 IS NULL OR type = ?1 ORDER BY n DESC, type, fingerprint LIMIT ?2
"""
_TOTAL = "SELECT count(*) FROM errors WHERE ?1 IS NULL OR type = ?1"

_Key = tuple[str, str]


class ErrorGroupChanges:
    """Errors of jobs that failed during a transaction, or are no longer failed."""

    def __init__(self) -> None:
        self._added: dict[_Key, dict[str, Any]] = {}
        self._removed: Counter[_Key] = Counter()

    def add(
        self, type: str, fingerprint: str, job_id: int, error: Error, at: int
    ) -> None:
        """Note that a job failed."""
        known = self._added.get((type, fingerprint))
        self._added[type, fingerprint] = {
            "type": type,
            "fingerprint": fingerprint,
            "n": 1 if known is None else known["n"] + 1,
            "at": at,
            "job_id": job_id,
            "kind": error.kind,
            "message": first_line(error.message),
        }

    def remove(self, type: str, fingerprint: str) -> None:
        """Note that a job is no longer failed; an empty fingerprint has no effect."""
        if fingerprint:
            self._removed[type, fingerprint] += 1

    def write(self, db: sqlite3.Connection) -> None:
        """Write what was noted since the last write."""
        if self._added:
            db.executemany(_ADD, list(self._added.values()))
            self._added.clear()
        if self._removed:
            db.executemany(_TAKE, [(n, *key) for key, n in self._removed.items()])
            db.executemany(_FORGET, list(self._removed))
            self._removed.clear()


def most(db: sqlite3.Connection, type: str | None = None, *, limit: int = 50) -> Errors:
    """Return the most frequent errors, and how many there are."""
    names = ErrorGroup.__struct_fields__
    groups = [
        ErrorGroup(**dict(zip(names, row, strict=True)))
        for row in db.execute(_MOST, (type, limit))
    ]
    return Errors(groups, db.execute(_TOTAL, (type,)).fetchone()[0])
