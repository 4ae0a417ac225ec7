"""
The store of a process that has none: every verb is refused.

A child process that runs a job is told of no store.  Without this one, a queue that it
makes would take its default, a file beside it, and jobs added there would run nowhere.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NoReturn

from kue.model.errors import StoreRefused

if TYPE_CHECKING:
    from collections.abc import Callable

#: What such a process finds in KUE_URL.
URL = "nowhere://"


def is_here() -> bool:
    """Return whether this process runs a job for a worker that keeps the store."""
    return os.environ.get("KUE_URL") == URL


class NullStore:
    """Looks like a store, and can be closed like one."""

    name = URL

    async def close(self) -> None:
        """Nothing is open."""

    def __getattr__(self, verb: str) -> Callable[..., NoReturn]:
        return _refuse


def _refuse(*args: object, **given: object) -> NoReturn:
    raise StoreRefused(
        "a task with execution='process' runs where there is no way to the queue; "
        "return what is to be done, and let a task that runs elsewhere do it"
    )
