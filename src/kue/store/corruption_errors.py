"""
Damaged data: errors from reading malformed values, as `StoreCorrupt`.

Engines read values that anyone with access to the file or the server can have changed.
Instead of guarding every read, each engine translates errors in one place: SQLite
around each transaction, Redis around each verb.
"""

from __future__ import annotations

from kue.model.errors import KueError, StoreCorrupt
from kue.store.validation import InvalidCall

#: Errors of Python and msgspec for a value of the wrong type, form or size.
MALFORMED = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)


def is_damage(exc: BaseException) -> bool:
    """Return whether *exc*, raised while an engine worked, means a malformed value."""
    return isinstance(exc, MALFORMED) and not isinstance(exc, KueError | InvalidCall)


def corrupt(name: str, exc: BaseException) -> StoreCorrupt:
    """Return the error to raise instead of *exc*."""
    # Bytes that are not text are escaped: otherwise printing the message would raise.
    reason = ascii(str(exc)) if isinstance(exc, UnicodeError) else str(exc)
    what = f"{type(exc).__name__}: {reason:.200}"
    error = StoreCorrupt(
        f"{name} has a value that cannot be read ({what}); "
        "find it with kue doctor; if that finds nothing, this is a bug in Kue"
    )
    error.__cause__ = exc
    return error
