"""
Maps for the verticles of one runtime, without await.

Two threads may hold what is in them, so a value is either one that never changes or is
copied, on its way in and on its way out.
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
    Says that objects of a class may be used from any thread, and so are not copied.

    It is for those that never change, or see to it themselves that threads agree.
    """


_UNCHANGING = (
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
    """A dict that threads share; what is not in it may be compared with None."""

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
        """Iterate over the keys there are now, whatever others do meanwhile."""
        return iter(tuple(self._values))

    def __len__(self) -> int:
        return len(self._values)

    def put_if_absent(self, key: Hashable, value: Any) -> Any:
        """Put *value* where nothing is; return what is there, None if it was put."""
        entry = _checked(key, value)
        with self._lock:
            there = self._values.get(key)
            if there is None:
                self._values[key] = entry
        return copied(there)

    def remove(self, key: Hashable) -> Any:
        """Remove and return what is there; None if nothing is."""
        with self._lock:
            return self._values.pop(key, None)

    def remove_if_present(self, key: Hashable, value: Any) -> bool:
        """Remove what is there if it equals *value*; tell whether it did."""
        with self._lock:
            is_it = key in self._values and bool(self._values[key] == value)
            if is_it:
                del self._values[key]
            return is_it

    def replace(self, key: Hashable, value: Any) -> Any:
        """Put *value* in the place of what is there, and return that; else None."""
        entry = _checked(key, value)
        with self._lock:
            there = self._values.get(key)
            if there is not None:
                self._values[key] = entry
        return there

    def replace_if_present(self, key: Hashable, old: Any, new: Any) -> bool:
        """Put *new* in the place of *old*, if that is there; tell whether it was."""
        entry = _checked(key, new)
        with self._lock:
            is_it = key in self._values and bool(self._values[key] == old)
            if is_it:
                self._values[key] = entry
            return is_it

    # MutableMapping's own do it in two steps, between which others may come.

    def setdefault(self, key: Hashable, default: Any = None) -> Any:
        there = self.put_if_absent(key, default)
        return copied(default) if there is None else there

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
    """
    Return *value*, or a copy if it could change.

    Raises:
        TypeError: It can neither be shared nor copied.
        ValueError: It nests too deep.
    """
    if value is None or isinstance(value, _UNCHANGING):
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
        "let it derive from Shareable if it never changes"
    )


def _checked(key: Hashable, value: Any) -> Any:
    if key is None or value is None:
        raise TypeError("a local map takes no None, neither as key nor as value")
    copied(key)
    return copied(value)
