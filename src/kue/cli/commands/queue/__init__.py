"""``kue queue``: list, pause, limit and clear types of jobs."""

from __future__ import annotations

from kue.cli.commands.queue.change import clear, limit, pause, resume
from kue.cli.commands.queue.list import list_, stats
from kue.cli.context import noun


@noun(list_, pause, resume, limit, clear, stats)
def queue() -> None:
    """
    List, pause, limit or clear types of jobs.

    \b
      kue queue list
      kue queue pause email --reason "mail server moves" --until 2h
      kue queue stats email --minutes 30
    """
