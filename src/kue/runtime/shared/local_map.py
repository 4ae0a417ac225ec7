"""
Local maps: shared by the verticles of one runtime, without await.

Several threads may use a value at once, so it is either immutable or copied, both when
it is put and when it is read.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import threading
import uuid
from collections.abc import Hashable, Iterator, MutableMapping
from typing import Any

from kue.model.payload import MAX_DEPTH


class Shareable:
    """
    Marks a class whose objects may be used from any thread, and so are not copied.

    It is for objects that never change, or are thread-safe.
    """


_IMMUTABLE = (
    str,
    bytes,
    int,
    float,
    complex,
    datetime.date,
    datetime.time,
    datetime.timedelta,
    decimal.Decimal,
    enum.Enum,
    uuid.UUID,
    Shareable,
)


class LocalMap(MutableMapping[Hashable, Any]):
    """A dict that threads share; None is neither a key nor a value."""

    def __init__(self) -> None:
        self._values: dict[Hashable, Any] = {}
        self._lock = threading.Lock()

    def __getitem__(self, key: Hashable) -> Any:
        return copied(self._values[key])

    def __setitem__(self, key: Hashable, value: Any) -> None:
        entry = _checked(key, value)
        with self._lock:
            self._values[key] = entry

    def __delitem__(self, key: Hashable) -> None:
        with self._lock:
            del self._values[key]

    def __iter__(self) -> Iterator[Hashable]:
        """Iterate over the current keys, whatever other threads change."""
        return iter(tuple(self._values))

    def __len__(self) -> int:
        return len(self._values)

    def put_if_absent(self, key: Hashable, value: Any) -> Any:
        """Put *value* if there is none; return the one there, None if it was put."""
        entry = _checked(key, value)
        with self._lock:
            current = self._values.get(key)
            if current is None:
                self._values[key] = entry
        return copied(current)

    def remove(self, key: Hashable) -> Any:
        """Remove and return the value; None if there is none."""
        return self.pop(key, None)

    def remove_if_present(self, key: Hashable, value: Any) -> bool:
        """Remove the value if it equals *value*; return whether it did."""
        with self._lock:
            is_equal = key in self._values and bool(self._values[key] == value)
            if is_equal:
                del self._values[key]
            return is_equal

    def replace(self, key: Hashable, value: Any) -> Any:
        """Replace the current value, if there is one, and return that; else None."""
        entry = _checked(key, value)
        with self._lock:
            current = self._values.get(key)
            if current is not None:
                self._values[key] = entry
        return current

    def replace_if_present(self, key: Hashable, old: Any, new: Any) -> bool:
        """Replace *old* by *new*, if it is the value; return whether it was."""
        entry = _checked(key, new)
        with self._lock:
            is_equal = key in self._values and bool(self._values[key] == old)
            if is_equal:
                self._values[key] = entry
            return is_equal

    # Those of MutableMapping take two steps, between which others may interfere.

    def setdefault(self, key: Hashable, default: Any = None) -> Any:
        current = self.put_if_absent(key, default)
        return copied(default) if current is None else current

    def pop(self, key: Hashable, *default: Any) -> Any:
        with self._lock:
            return self._values.pop(key, *default)

    def popitem(self) -> tuple[Hashable, Any]:
        with self._lock:
            return self._values.popitem()

    def clear(self) -> None:
        with self._lock:
            self._values.clear()


def copied(value: Any, depth: int = MAX_DEPTH) -> Any:
    """Return *value*, or a copy if it is mutable."""
    if value is None or isinstance(value, _IMMUTABLE):
        return value
    if depth == 0:
        raise ValueError(f"a value must not nest deeper than {MAX_DEPTH} levels")
    match value:
        case dict():
            return {
                copied(key, depth - 1): copied(item, depth - 1)
                for key, item in value.items()
            }
        case list() | tuple() | set() | frozenset():
            return type(value)(copied(item, depth - 1) for item in value)
        case bytearray():
            return bytearray(value)
    raise TypeError(
        f"{type(value).__name__} can neither be shared nor copied; "
        "derive it from Shareable if it never changes"
    )


def _checked(key: Hashable, value: Any) -> Any:
    if key is None or value is None:
        raise TypeError("a local map takes no None, neither as key nor as value")
    copied(key)
    return copied(value)
