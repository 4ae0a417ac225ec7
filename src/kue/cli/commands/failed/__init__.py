"""``kue failed``: list, retry and remove failed jobs (dead letters)."""

from __future__ import annotations

from kue.cli.commands.failed.list import list_
from kue.cli.commands.failed.remove import flush, forget, prune
from kue.cli.commands.failed.retry import retry
from kue.cli.context import noun

__all__ = ["failed"]


@noun(list_, retry, forget, flush, prune)
def failed() -> None:
    """
    List, retry or remove failed jobs.

    A job is failed when its attempts are used up, or when it must not be retried.

    \b
      kue failed list --by-error
      kue failed retry --all --error timeout
      kue failed prune --older-than 7d
    """
