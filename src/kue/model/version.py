"""The version of this package; read when it is asked for, because that takes long."""

from __future__ import annotations

from functools import cache


@cache
def version() -> str:
    """Return the version that is installed."""
    # It alone was half of the time that `import kue` took.
    from importlib.metadata import version as installed

    return installed("kue")
