"""Whether the queue's URL allows an event bus over several processes."""

from __future__ import annotations

from urllib.parse import urlsplit

#: Why there is no cluster, for users of SQLite.
NEEDS_REDIS = (
    "the event bus of several processes meets in Redis; with SQLite each process has "
    "its own bus, which other processes cannot inspect"
)
_SCHEMES = ("redis", "rediss", "unix")


def can_cluster(url: str) -> bool:
    """Return whether processes whose queue is at *url* share a bus."""
    return urlsplit(url).scheme.partition("+")[0] in _SCHEMES
