"""
Damaged data: errors from reading malformed values, as `StoreCorrupt`.

Engines read values that anyone with access to the file or the server can have changed.
Instead of guarding every read, each engine translates errors in one place: SQLite
around each transaction, Redis around each verb.
"""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, TypeVar

from kue.model.errors import KueError, StoreCorrupt
from kue.store.contract import Store
from kue.store.validation import InvalidCall

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

S = TypeVar("S", bound=type[Store])

#: Errors of Python and msgspec for a value of the wrong type, form or size.
_MALFORMED = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)
#: These verbs translate errors themselves.
_UNGUARDED = frozenset({"open", "close"})


def is_damage(exc: BaseException) -> bool:
    """Return whether *exc*, raised while an engine worked, means a malformed value."""
    return isinstance(exc, _MALFORMED) and not isinstance(exc, KueError | InvalidCall)


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


def guards_replies(store: S) -> S:
    """Decorate a store: its verbs raise `StoreCorrupt` for malformed replies."""
    for name, verb in inspect.getmembers(Store, inspect.iscoroutinefunction):
        if name not in _UNGUARDED:
            setattr(store, name, _guarded(getattr(store, name, verb)))
    return store


def _guarded(verb: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    @functools.wraps(verb)
    async def guarded(self: Store, *args: Any, **given: Any) -> Any:
        try:
            return await verb(self, *args, **given)
        except _MALFORMED as exc:
            if is_damage(exc):
                raise corrupt(self.name, exc) from exc
            raise

    return guarded
