"""Keys of a shard, recognised by their names: see the table in `keys.py`."""

from __future__ import annotations

from typing import NamedTuple

from kue.model.names import quote, unquote
from kue.store.redis.keys import JOB_KEYS, SHARD_KEYS, TYPE_KEYS

#: Kept for a while only: these keys have a time to live.
_HOURLY = frozenset({"stats", "hours", "producers", "claims"})
_EXPIRING = _HOURLY | {"limit rate"}
#: Keys that end with a number, and their Redis types.
_NUMBERED = {
    "live": "string",
    "lost": "string",
    "flow": "hash",
    "members": "zset",
    **dict.fromkeys(_HOURLY, "hash"),
}


class KnownKey(NamedTuple):
    """One key of the table."""

    #: The key without tag and colon.
    text: str
    #: The Redis type it must have.
    redis_type: str
    #: shard | record | part | type | held | live | lost | flow | members | stats |
    #: hours | producers | claims | limit keys | limit held | limit running | limit rate
    kind: str
    #: The structure (``waiting``, ``log``, ``workers``), the group or the limit.
    name: str = ""
    #: The job type, as written in keys.
    job_type: str = ""
    #: The job, also that of a flow, or the number of a bitmap, minute or hour.
    number: int = 0

    @property
    def may_expire(self) -> bool:
        return self.kind in _EXPIRING


def parse_key(text: str) -> KnownKey | None:
    """Return which key *text*, without its tag, is; None if it is not in the table."""
    match text.split(":"):
        case ["job", number] if is_number(number):
            return KnownKey(text, "string", "record", number=int(number))
        case ["job", number, part] if is_number(number) and part in JOB_KEYS:
            return KnownKey(text, JOB_KEYS[part], "part", part, number=int(number))
        case [kind, number] if is_number(number) and kind in _NUMBERED:
            return KnownKey(text, _NUMBERED[kind], kind, number=int(number))
        case [name] if name in SHARD_KEYS:
            return shard_key(name)
        case [job_type, name] if name in TYPE_KEYS and _is_quoted(job_type):
            return KnownKey(text, TYPE_KEYS[name], "type", name, job_type)
        case ["", name, "keys"] if _is_quoted(name):
            return KnownKey(text, "set", "limit keys", name)
        case ["", name, ("held" | "running") as what, key] if _is_quoted(name):
            return KnownKey(text, "zset", f"limit {what}", f"{name}:{key}")
        case ["", name, "rate", key] if _is_quoted(name):
            return KnownKey(text, "string", "limit rate", f"{name}:{key}")
        case [job_type, "held", group] if _is_quoted(job_type) and _is_quoted(group):
            return KnownKey(text, "zset", "held", group, job_type)
    return None


def shard_key(name: str) -> KnownKey:
    """Return a key of the whole shard."""
    return KnownKey(name, SHARD_KEYS[name], "shard", name)


def is_number(text: str) -> bool:
    """Return whether *text* is a number as Kue writes them."""
    return text.isascii() and text.isdigit() and (text == "0" or text[0] != "0")


def glob(tag: str) -> str:
    """Return the pattern that matches only *tag*, whatever characters it has."""
    return "".join(f"\\{char}" if char in "\\*?[]^-" else char for char in tag)


def _is_quoted(text: str) -> bool:
    """Return whether *text* is a name as `quote` writes it, and not empty."""
    return bool(text) and quote(unquote(text)) == text
