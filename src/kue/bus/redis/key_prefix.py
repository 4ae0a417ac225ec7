"""The key prefix of an event bus cluster."""

from __future__ import annotations

from kue.model.names import check_name, quote


def root_of(prefix: str) -> str:
    """Return the hash tag of the cluster under *prefix*."""
    check_name(prefix, what="prefix")
    return f"{{{quote(prefix)}:bus}}"
