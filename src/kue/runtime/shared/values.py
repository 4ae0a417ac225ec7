"""Validation and encoding of what shared maps and counters hold."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Literal

import msgspec

from kue.model.duration import milliseconds
from kue.model.names import check_name
from kue.model.payload import JSON, decode, encode
from kue.runtime.shared.contract import AsyncMap

if TYPE_CHECKING:
    from kue.model.duration import Duration

_SMALLEST, _LARGEST = -(2**63), 2**63 - 1

#: When to put a value: the last means that it replaces a certain one.
Condition = Literal["any", "absent", "present", "same"]

_encoder = msgspec.json.Encoder(order="sorted")


class EncodedMap(AsyncMap, ABC):
    """A map whose values are stored as canonical JSON: equal ones have equal text."""

    async def get(self, key: str) -> JSON:
        return thaw(await self._get(_check_key(key)))

    async def put(self, key: str, value: JSON, *, ttl: Duration | None = None) -> None:
        await self._put_value("any", key, value, ttl)

    async def put_if_absent(
        self, key: str, value: JSON, *, ttl: Duration | None = None
    ) -> JSON:
        return thaw(await self._put_value("absent", key, value, ttl))

    async def replace(
        self, key: str, value: JSON, *, ttl: Duration | None = None
    ) -> JSON:
        return thaw(await self._put_value("present", key, value, ttl))

    async def replace_if_present(
        self, key: str, old: JSON, new: JSON, *, ttl: Duration | None = None
    ) -> bool:
        text = _freeze(old)
        return await self._put_value("same", key, new, ttl, text) == text

    async def remove(self, key: str) -> JSON:
        return thaw(await self._remove(_check_key(key), b""))

    async def remove_if_present(self, key: str, value: JSON) -> bool:
        text = _freeze(value)
        return await self._remove(_check_key(key), text) == text

    async def values(self) -> list[JSON]:
        return list((await self.entries()).values())

    async def _put_value(
        self,
        where: Condition,
        key: str,
        value: JSON,
        ttl: Duration | None,
        old: bytes = b"",
    ) -> bytes | None:
        text, ms = _freeze(value), _check_ttl(ttl)
        return await self._put(where, _check_key(key), text, ms, old)

    @abstractmethod
    async def _get(self, key: str) -> bytes | None:
        """Return the text of the value, None for none."""

    @abstractmethod
    async def _put(
        self, where: Condition, key: str, text: bytes, ms: int, old: bytes
    ) -> bytes | None:
        """Put *text*, for *ms* if that is not 0; return what was there before."""

    @abstractmethod
    async def _remove(self, key: str, old: bytes) -> bytes | None:
        """Remove the value, unless it differs from *old*; return what was there."""


def thaw(text: bytes | None) -> JSON:
    """Return a new copy of the value, None for none."""
    return None if text is None else decode(text)


def _freeze(value: JSON) -> bytes:
    if value is None:
        raise TypeError("a value must not be None; remove the key instead")
    return _encoder.encode(decode(encode(value, field="value")))


def _check_key(key: object) -> str:
    return check_name(key, what="a key")


def _check_ttl(ttl: Duration | None) -> int:
    """Return a time to live in milliseconds, 0 for none."""
    if ttl is None:
        return 0
    ms = milliseconds(ttl, field="ttl")
    if ms < 1:
        raise ValueError(f"ttl must be at least 1 ms, not {ttl!r}")
    return ms


def check_number(number: object) -> int:
    """Return *number* if it is valid for a counter."""
    if not isinstance(number, int) or isinstance(number, bool):
        raise TypeError(f"a counter counts in whole numbers, not {number!r}")
    if not _SMALLEST <= number <= _LARGEST:
        raise too_large(str(number))
    return number


def too_large(what: str) -> OverflowError:
    return OverflowError(f"a counter has 64 bits, and {what} does not fit")
