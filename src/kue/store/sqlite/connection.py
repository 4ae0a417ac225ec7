"""SQLite connections: opening a file, and translating SQLite's errors."""

from __future__ import annotations

import random
import sqlite3
import threading
import time
from typing import TYPE_CHECKING

from kue.model.errors import (
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreRefused,
    StoreUnavailable,
)
from kue.store.corruption_errors import corrupt
from kue.store.sqlite import schema

if TYPE_CHECKING:
    from kue.store.sqlite.file_url import FileLocation

#: Pages kept in memory by a connection, in KiB: the hot ends of a few million jobs.
CACHE_KIB = 32 * 1024
#: A write-ahead log that grew beyond this is truncated to it, in bytes.
LOG_LIMIT = 64 * 1024 * 1024
#: Prepared statements kept by a connection; Kue has fewer.
STATEMENTS = 256

_abandoned: list[sqlite3.Connection] = []
#: Threads of this process that wait for a lock.
_waiting: set[int] = set()

_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
#: A value that no statement expects, such as text that is not JSON.
_VALUES = frozenset(
    {
        sqlite3.SQLITE_CONSTRAINT,
        sqlite3.SQLITE_ERROR,
        sqlite3.SQLITE_MISMATCH,
        sqlite3.SQLITE_RANGE,
        sqlite3.SQLITE_TOOBIG,
    }
)
_FORBIDDEN = frozenset(
    {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH}
)


def connect(location: FileLocation, *, budget: float) -> sqlite3.Connection:
    """
    Open the file, and create or migrate its tables.

    Args:
        budget: Seconds to wait for other processes that lock the file, now and in
            every statement of a reader.

    Raises:
        ConfigError, StoreRefused: The path or the file is not suitable.
        sqlite3.Error: Anything else; see `translated`.
    """
    schema.check_engine()
    location.check()
    location.create()
    db = sqlite3.connect(
        location.path or ":memory:",
        timeout=budget,
        isolation_level=None,
        cached_statements=STATEMENTS,
    )
    try:
        _set_up(db, location, budget)
    except BaseException:
        db.close()
        raise
    return db


def close(
    db: sqlite3.Connection, location: FileLocation, file: tuple[int, int] | None
) -> None:
    """
    Close a connection to *file*, unless that was replaced.

    Closing would then delete the log by its name, which may now be the new file's.
    """
    if file == location.identity():
        db.close()
    else:
        _abandoned.append(db)


def begin(db: sqlite3.Connection, budget: float) -> None:
    """
    Begin a write transaction, waiting up to *budget* seconds for other processes.

    SQLite's own backoff grows to 100 ms between tries, so that a process which writes
    all the time would starve the others; short random pauses share the file fairly.
    Threads of this process that wait together try as often as one of them would: each
    try takes the interpreter from the thread that they wait for.
    """
    _execute(db, "BEGIN IMMEDIATE", budget, pauses=(0.0003, 0.002))


def _execute(
    db: sqlite3.Connection, sql: str, budget: float, pauses: tuple[float, float]
) -> sqlite3.Cursor:
    """Run a statement again, after a random pause, while the file is locked."""
    deadline = time.monotonic() + budget
    thread = threading.get_ident()
    try:
        while True:
            try:
                return db.execute(sql)
            except sqlite3.OperationalError as exc:
                if _code(exc) not in _BUSY or time.monotonic() >= deadline:
                    raise
            _waiting.add(thread)
            time.sleep(random.uniform(*pauses) * len(_waiting))
    finally:
        _waiting.discard(thread)


def translated(exc: sqlite3.Error, name: str) -> StoreError:
    """Return *exc* as a `StoreError`, with advice."""
    code = _code(exc)
    if code in _BUSY:
        return StoreUnavailable(
            f"{name} was locked by another process for too long; find that process "
            "(a backup, an open sqlite3 shell) and try again"
        )
    if is_full(exc):
        return full(name)
    if code in _DAMAGED:
        return StoreCorrupt(
            f"{name} is damaged or is not a database ({exc}); move it away with its "
            "-wal file, restore a backup, or save what is left with: "
            "sqlite3 <file> .recover"
        )
    if code in _FORBIDDEN:
        return StoreRefused(
            f"{name} cannot be written ({exc}); check the owner of the file, its -wal "
            "and its folder, and that the disk is not mounted read-only"
        )
    if is_damaged_value(exc):
        return corrupt(name, exc)
    failed = StoreUnavailable(f"{name}: {exc}")
    # Of a failed write to the disk it is not known how much got there.
    failed.is_unknown = True
    return failed


def is_full(exc: Exception) -> bool:
    """Return whether the disk was full."""
    # The index of the log is mapped: no room for it is an I/O error to SQLite.
    return isinstance(exc, sqlite3.Error) and (
        _code(exc) == sqlite3.SQLITE_FULL
        or getattr(exc, "sqlite_errorcode", 0) == sqlite3.SQLITE_IOERR_SHMSIZE
    )


def full(name: str) -> StoreFull:
    """Return the error of a full disk."""
    return StoreFull(
        f"{name}: the disk is full; no new jobs are accepted, existing ones go on; "
        "free some space and try again"
    )


def is_damaged_value(exc: Exception) -> bool:
    """Return whether a statement failed because of a malformed value."""
    # Python's own errors, such as for text that is not Unicode, have no code.
    return isinstance(exc, sqlite3.Error) and (not _code(exc) or _code(exc) in _VALUES)


def _set_up(db: sqlite3.Connection, location: FileLocation, budget: float) -> None:
    db.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
    db.execute("PRAGMA temp_store = MEMORY")
    schema.check_owner(db, location.name)
    if location.path is not None:
        _write_ahead(db, location, budget)
    if not schema.is_current(db):
        begin(db, budget)
        # Another process may have created the tables while this one waited.
        if not schema.is_current(db):
            schema.migrate(db, location.name)
        db.execute("COMMIT")


def _write_ahead(db: sqlite3.Connection, location: FileLocation, budget: float) -> None:
    """Use a write-ahead log: readers and the writer do not block each other."""
    # Two processes create the same file at once: SQLite does not wait here.
    mode = _execute(db, "PRAGMA journal_mode = WAL", budget, pauses=(0.001, 0.005))
    if mode.fetchone()[0] != "wal":
        raise StoreRefused(
            f"{location.name} cannot use a write-ahead log in this file system; "
            "put the file on a local disk"
        )
    db.execute("PRAGMA synchronous = NORMAL")
    db.execute(f"PRAGMA journal_size_limit = {LOG_LIMIT}")


def _code(exc: sqlite3.Error) -> int:
    # The low byte is the kind of error; the rest is its detail.
    return int(getattr(exc, "sqlite_errorcode", 0)) & 0xFF
