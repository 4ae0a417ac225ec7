"""
Payloads: JSON and the limits on it, checked here before any I/O.

Nothing is ever pickled or evaluated.  Integers of any size and all of Unicode
survive; NaN and infinities have no JSON form and are refused, not changed to null.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec

from kue.model.errors import BadPayload

#: Any JSON value.  A recursive alias would not help: users pass what they have.
JSON = Any

MAX_DEPTH = 64
#: Bytes of job data, unless the settings say otherwise.
MAX_DATA = 256 * 1024
#: Bytes of a result or of progress data.
MAX_RESULT = 64 * 1024

_encoder = msgspec.json.Encoder(decimal_format="string")
_SCALARS = (str, int, bool, type(None))


def value_of(text: str) -> JSON:
    """Return *text* decoded as JSON, or itself if it is not JSON."""
    try:
        return msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return text


def encode(value: JSON, *, field: str = "data", limit: int = MAX_DATA) -> msgspec.Raw:
    """
    Return *value* as JSON.

    Dataclasses, msgspec structs, datetimes, UUIDs, enums and sets become the JSON that
    msgspec makes of them.

    Raises:
        BadPayload: It has no JSON form, nests deeper than 64 or exceeds *limit* bytes;
            the message names the field.
    """
    _check(value, field, MAX_DEPTH)
    try:
        encoded = _encoder.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as exc:
        raise BadPayload(field, f"cannot be written as JSON: {exc}") from exc
    if len(encoded) > limit:
        raise BadPayload(
            field,
            f"is {len(encoded):,} bytes of JSON, and the limit is {limit:,}; "
            "keep large things elsewhere and put a reference into the job",
        )
    return msgspec.Raw(encoded)


def decode(text: bytes | msgspec.Raw) -> JSON:
    """Read JSON that :func:`encode` wrote."""
    return msgspec.json.decode(text)


def _check(value: JSON, field: str, depth: int) -> None:
    if isinstance(value, float):
        if not math.isfinite(value):
            raise BadPayload(field, f"is {value}, which JSON cannot express")
    elif depth == 0:
        raise BadPayload(field, f"nests deeper than {MAX_DEPTH} levels")
    elif isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise BadPayload(field, f"has the key {key!r}; JSON keys are text")
            if not isinstance(item, _SCALARS):
                _check(item, f"{field}.{key}", depth - 1)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            if not isinstance(item, _SCALARS):
                _check(item, f"{field}[{index}]", depth - 1)
    elif isinstance(value, msgspec.Raw):
        # Stored as it is, on one line of the record: a line break would end it early.
        if b"\n" in bytes(value):
            raise BadPayload(field, "is JSON with line breaks; give the value itself")
    elif not isinstance(value, _SCALARS):
        _check_object(value, field, depth)


def _check_object(value: object, field: str, depth: int) -> None:
    try:
        plain = msgspec.to_builtins(value)
    except (TypeError, ValueError, RecursionError) as exc:
        raise BadPayload(field, f"cannot be written as JSON: {exc}") from exc
    if not isinstance(plain, _SCALARS):
        _check(plain, field, depth)
