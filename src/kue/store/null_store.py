"""
Null store, for a process without access to the queue: every verb raises.

A child process that runs a job is given no store.  Without this one, a queue created in
it would use the default, a local file, and no worker would run the jobs added there.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NoReturn

from kue.model.errors import StoreRefused

if TYPE_CHECKING:
    from collections.abc import Callable

#: The value of KUE_URL in such a process.
URL = "nowhere://"


def is_job_process() -> bool:
    """Return whether this is a child process in which a worker runs jobs."""
    return os.environ.get("KUE_URL") == URL


class NullStore:
    """A store without verbs, that can only be closed."""

    name = URL

    async def close(self) -> None:
        """Do nothing: nothing is open."""

    def __getattr__(self, verb: str) -> Callable[..., NoReturn]:
        return _refuse


def _refuse(*args: object, **given: object) -> NoReturn:
    raise StoreRefused(
        "a task with execution='process' has no access to the queue; "
        "return what is to be done, and let a task with another execution do it"
    )
