"""Headers of a message: case-insensitive names, each with one or more values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Union

#: Headers as a caller may pass them; a name with several values has a list of them.
Given = Union["Headers", Mapping[str, str | Iterable[str]], Iterable[tuple[str, str]]]


class Headers:
    """
    Names and values, in the order in which each name was first added.

    ``headers["Action"]`` is the first value of a name, `all` has all of them.
    """

    __slots__ = ("_values",)

    def __init__(self, given: Given = ()) -> None:
        #: The name in lower case → the name as it was written, and the values.
        self._values: dict[str, tuple[str, list[str]]] = {}
        pairs = given.items() if isinstance(given, Headers | Mapping) else given
        for name, value in pairs:
            for each in (value,) if isinstance(value, str) else value:
                self.add(name, each)

    def add(self, name: str, value: str) -> None:
        """Add a value to the values of *name*."""
        _check(name, value)
        self._values.setdefault(name.lower(), (name, []))[1].append(value)

    def __setitem__(self, name: str, value: str) -> None:
        _check(name, value)
        self._values[name.lower()] = (name, [value])

    def __delitem__(self, name: str) -> None:
        del self._values[name.lower()]

    def __getitem__(self, name: str) -> str:
        return self._values[name.lower()][1][0]

    def get(self, name: str, default: str | None = None) -> str | None:
        """Return the first value of *name*."""
        found = self._values.get(name.lower())
        return default if found is None else found[1][0]

    def all(self, name: str) -> list[str]:
        """Return every value of *name*, in the order they were added."""
        found = self._values.get(name.lower())
        return [] if found is None else list(found[1])

    def items(self) -> Iterator[tuple[str, str]]:
        """Iterate over names and values; a name comes once per value."""
        for name, values in self._values.values():
            for value in values:
                yield name, value

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.lower() in self._values

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self._values.values())

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Headers):
            return NotImplemented
        return self._by_key() == other._by_key()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Headers({list(self.items())!r})"

    def _by_key(self) -> dict[str, list[str]]:
        return {key: values for key, (_, values) in self._values.items()}


def _check(name: object, value: object) -> None:
    if not isinstance(name, str) or not name:
        raise TypeError(f"the name of a header must be text, not {name!r}")
    if not isinstance(value, str):
        raise TypeError(f"header {name} must be text, not {value!r}")
