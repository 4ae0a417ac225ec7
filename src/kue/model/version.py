"""The version of this package, read on first use because that is slow."""

from __future__ import annotations

from functools import cache


@cache
def version() -> str:
    """Return the installed version."""
    # This import alone took half of the time of `import kue`.
    from importlib.metadata import version as installed

    return installed("kue")
