"""Clusters: how the nodes of an event bus find and reach each other."""

from __future__ import annotations

from urllib.parse import urlsplit

#: What whoever has no Redis is told.
NEEDS_REDIS = (
    "the event bus of several processes meets in Redis; with SQLite each process has a "
    "bus of its own, at which nobody else can look"
)
_FORMS = ("redis", "rediss", "unix")


def can_meet(url: str) -> bool:
    """Tell whether processes whose queue is at *url* share a bus."""
    return urlsplit(url).scheme.partition("+")[0] in _FORMS
