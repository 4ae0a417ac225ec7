"""Validation and encoding of keys, values and counters of shared data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kue.model.duration import milliseconds
from kue.model.names import check_name
from kue.model.payload import JSON, decode, encode

if TYPE_CHECKING:
    from kue.model.duration import Duration

_SMALLEST, _LARGEST = -(2**63), 2**63 - 1

_encoder = msgspec.json.Encoder(order="sorted")


def check_key(key: object) -> str:
    """
    Return *key* if it is valid.

    Raises:
        TypeError: It is not text.
        ValueError: It is empty, longer than 200 bytes, or has control characters.
    """
    return check_name(key, what="a key")


def freeze(value: JSON) -> bytes:
    """
    Return *value* as canonical JSON: equal values have the same text.

    Raises:
        TypeError: It is None.
        BadPayload: It is not JSON, or too large.
    """
    if value is None:
        raise TypeError("a value must not be None; remove the key instead")
    return _encoder.encode(decode(encode(value, field="value")))


def thaw(text: bytes | None) -> JSON:
    """Return a new copy of the value, None for none."""
    return None if text is None else decode(text)


def check_ttl(ttl: Duration | None) -> int:
    """
    Return a time to live in milliseconds, 0 for none.

    Raises:
        ValueError: It is shorter than a millisecond.
    """
    if ttl is None:
        return 0
    ms = milliseconds(ttl, field="ttl")
    if ms < 1:
        raise ValueError(f"ttl must be at least 1 ms, not {ttl!r}")
    return ms


def check_number(number: object) -> int:
    """
    Return *number* if it is valid for a counter.

    Raises:
        TypeError: It is not an integer.
        OverflowError: It has more than 64 bits.
    """
    if not isinstance(number, int) or isinstance(number, bool):
        raise TypeError(f"a counter counts in whole numbers, not {number!r}")
    if not _SMALLEST <= number <= _LARGEST:
        raise too_large(str(number))
    return number


def too_large(what: str) -> OverflowError:
    return OverflowError(f"a counter has 64 bits, and {what} does not fit")
