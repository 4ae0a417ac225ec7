"""What a key under a shard's tag is, by its name alone: the table of `keys.py`."""

from __future__ import annotations

from typing import NamedTuple

from kue.model.names import quote, unquote
from kue.store.redis.keys import JOB_KEYS, SHARD_KEYS, TYPE_KEYS

#: Kept for a while only, and meant to go by itself.
_MEANT_TO_EXPIRE = frozenset({"stats", "hours", "producers", "claims"})
#: What stands behind the tag with a number behind it, and its Redis type.
_NUMBERED = {"live": "string", **dict.fromkeys(_MEANT_TO_EXPIRE, "hash")}


class Key(NamedTuple):
    """One key of the table."""

    #: As it stands behind the tag and its colon.
    text: str
    #: The Redis type it must have.
    redis_type: str
    #: shard | record | part | type | held | live | stats | hours | producers | claims
    kind: str
    #: The structure (``waiting``, ``log``, ``workers``) or the group.
    name: str = ""
    #: The type as it is written in keys.
    job_type: str = ""
    #: The job, or the number of a bitmap, minute or hour.
    number: int = 0

    @property
    def may_expire(self) -> bool:
        return self.kind in _MEANT_TO_EXPIRE


def read_key(text: str) -> Key | None:
    """Return what *text*, a key without its tag, is; None if the table knows none."""
    parts = text.split(":")
    if len(parts) == 1:
        found = SHARD_KEYS.get(text)
        return None if found is None else Key(text, found, "shard", text)
    if is_number(parts[1]) and len(parts) <= 3:
        return _numbered(text, parts)
    if len(parts) > 3 or not _is_quoted(parts[0]):
        return None
    if len(parts) == 2 and parts[1] in TYPE_KEYS:
        return Key(text, TYPE_KEYS[parts[1]], "type", parts[1], parts[0])
    if len(parts) == 3 and parts[1] == "held" and _is_quoted(parts[2]):
        return Key(text, "zset", "held", parts[2], parts[0])
    return None


def is_number(text: str) -> bool:
    """Tell whether *text* is a number as Kue writes them."""
    return text.isascii() and text.isdigit() and (text == "0" or text[0] != "0")


def glob(tag: str) -> str:
    """Return the pattern that matches *tag* itself, whatever is in it."""
    return "".join(f"\\{char}" if char in "\\*?[]^-" else char for char in tag)


def _numbered(text: str, parts: list[str]) -> Key | None:
    number = int(parts[1])
    if len(parts) == 2 and parts[0] == "job":
        return Key(text, "string", "record", number=number)
    if len(parts) == 2 and parts[0] in _NUMBERED:
        return Key(text, _NUMBERED[parts[0]], parts[0], number=number)
    if len(parts) == 3 and parts[0] == "job" and parts[2] in JOB_KEYS:
        return Key(text, JOB_KEYS[parts[2]], "part", parts[2], number=number)
    return None


def _is_quoted(text: str) -> bool:
    """Tell whether *text* is a name as `quote` writes it, and not an empty one."""
    return bool(text) and quote(unquote(text)) == text
