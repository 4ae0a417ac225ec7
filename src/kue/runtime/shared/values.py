"""Keys and values of shared maps."""

from __future__ import annotations

import msgspec

from kue.names import check_name
from kue.payload import JSON, decode, encode

_encoder = msgspec.json.Encoder(order="sorted")


def check_key(key: object) -> str:
    """
    Return *key* if it can be one.

    Raises:
        TypeError: It is not text.
        ValueError: It is empty, longer than 200 bytes, or has control characters.
    """
    return check_name(key, what="a key")


def freeze(value: JSON) -> bytes:
    """
    Return *value* as the one JSON text that equal values have.

    Raises:
        TypeError: It is None.
        BadPayload: It is not JSON, or too much of it.
    """
    if value is None:
        raise TypeError("a value must not be None; remove the key instead")
    return _encoder.encode(decode(encode(value, field="value")))


def thaw(text: bytes | None) -> JSON:
    """Return a value of the reader's own, None for none."""
    return None if text is None else decode(text)
