"""
Names of types, keys and tags: what is allowed, and how they are written in a key.

A type is any text of 1 to 200 bytes without control characters, but for ``.`` and
``..``; so is the name of a worker or of a schedule.  In keys and headers
the characters that structure those are percent-encoded, so that no name, however it
is chosen, can be taken for a structure or for another name.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Annotated, TypeAlias

import msgspec

MAX_BYTES = 200
#: A name in JSON; `check_name` checks the rest.
Name: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_BYTES)]
#: Names that mean the folder itself, and the one above.
DOTS = frozenset({".", ".."})

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
#: Beyond what structures keys ({}:), headers (tab, newline) and tokens, the quote and
#: the backslash: a worker's name stands unescaped inside a JSON line.
_RESERVED = re.compile(r'[%{}:"\\\x00-\x1f\x7f]')
_ENCODED = re.compile(r"%([0-9A-F]{2})")


def check_name(value: object, *, what: str) -> str:
    """
    Return *value* if it can be the name of *what*.

    Raises:
        TypeError: It is not text.
        ValueError: It is empty, too long or has control characters.
    """
    if not isinstance(value, str):
        raise TypeError(f"{what} must be text, not {value!r}")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise ValueError(f"{what} {value!r} is not valid Unicode") from None
    if not 1 <= size <= MAX_BYTES:
        raise ValueError(
            f"{what} must have 1 to {MAX_BYTES} bytes, but {value[:40]!r} has {size}"
        )
    if _CONTROL.search(value):
        raise ValueError(f"{what} {value!r} must not contain control characters")
    return value


def check_path_name(value: object, *, what: str) -> str:
    """
    Return *value* if it can be the name of *what*, which is part of a URL's path.

    Raises:
        TypeError, ValueError: As `check_name`; or it is ``.`` or ``..``, which every
            browser and proxy takes for a step in the path, however it is encoded.
    """
    name = check_name(value, what=what)
    if name in DOTS:
        raise ValueError(f"{what} must not be {name!r}: in a URL it means a folder")
    return name


@lru_cache(maxsize=4096)
def quote(name: str) -> str:
    """Encode *name* for a key, a header or a token."""
    return _RESERVED.sub(lambda match: f"%{ord(match[0]):02X}", name)


@lru_cache(maxsize=4096)
def unquote(text: str) -> str:
    """Decode what :func:`quote` encoded."""
    return _ENCODED.sub(lambda match: chr(int(match[1], 16)), text)
