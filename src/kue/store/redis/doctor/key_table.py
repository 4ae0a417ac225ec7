"""Keys of a shard, recognised by their names: see the table in `keys.py`."""

from __future__ import annotations

from typing import NamedTuple

from kue.model.names import quote, unquote
from kue.store.redis.keys import JOB_KEYS, SHARD_KEYS, TYPE_KEYS

#: Kept for a while only: these keys have a time to live.
_EXPIRING = frozenset({"stats", "hours", "producers", "claims"})
#: Keys that end with a number, and their Redis types.
_NUMBERED = {"live": "string", **dict.fromkeys(_EXPIRING, "hash")}


class KnownKey(NamedTuple):
    """One key of the table."""

    #: The key without tag and colon.
    text: str
    #: The Redis type it must have.
    redis_type: str
    #: shard | record | part | type | held | live | stats | hours | producers | claims
    kind: str
    #: The structure (``waiting``, ``log``, ``workers``) or the group.
    name: str = ""
    #: The job type, as written in keys.
    job_type: str = ""
    #: The job, or the number of a bitmap, minute or hour.
    number: int = 0

    @property
    def may_expire(self) -> bool:
        return self.kind in _EXPIRING


def parse_key(text: str) -> KnownKey | None:
    """Return which key *text*, without its tag, is; None if it is not in the table."""
    parts = text.split(":")
    if len(parts) == 1:
        found = SHARD_KEYS.get(text)
        return None if found is None else KnownKey(text, found, "shard", text)
    if is_number(parts[1]) and len(parts) <= 3:
        return _numbered(text, parts)
    if len(parts) > 3 or not _is_quoted(parts[0]):
        return None
    if len(parts) == 2 and parts[1] in TYPE_KEYS:
        return KnownKey(text, TYPE_KEYS[parts[1]], "type", parts[1], parts[0])
    if len(parts) == 3 and parts[1] == "held" and _is_quoted(parts[2]):
        return KnownKey(text, "zset", "held", parts[2], parts[0])
    return None


def is_number(text: str) -> bool:
    """Return whether *text* is a number as Kue writes them."""
    return text.isascii() and text.isdigit() and (text == "0" or text[0] != "0")


def glob(tag: str) -> str:
    """Return the pattern that matches only *tag*, whatever characters it has."""
    return "".join(f"\\{char}" if char in "\\*?[]^-" else char for char in tag)


def _numbered(text: str, parts: list[str]) -> KnownKey | None:
    number = int(parts[1])
    if len(parts) == 2 and parts[0] == "job":
        return KnownKey(text, "string", "record", number=number)
    if len(parts) == 2 and parts[0] in _NUMBERED:
        return KnownKey(text, _NUMBERED[parts[0]], parts[0], number=number)
    if len(parts) == 3 and parts[0] == "job" and parts[2] in JOB_KEYS:
        return KnownKey(text, JOB_KEYS[parts[2]], "part", parts[2], number=number)
    return None


def _is_quoted(text: str) -> bool:
    """Return whether *text* is a name as `quote` writes it, and not empty."""
    return bool(text) and quote(unquote(text)) == text
