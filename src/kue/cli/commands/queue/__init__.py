"""``kue queue``: list, pause, limit and clear types of jobs."""

from __future__ import annotations

import click

from kue.cli.commands.queue.clear import clear
from kue.cli.commands.queue.limit import limit
from kue.cli.commands.queue.list import list_
from kue.cli.commands.queue.pause import pause, resume
from kue.cli.commands.queue.stats import stats
from kue.cli.context import url_option
from kue.cli.output.terminal import NounGroup, help_if_alone

__all__ = ["queue"]


@click.group(cls=NounGroup)
@url_option
@click.pass_context
def queue(context: click.Context) -> None:
    """
    List, pause, limit or clear types of jobs.

    \b
      kue queue list
      kue queue pause email --reason "mail server moves" --until 2h
      kue queue stats email --minutes 30
    """
    help_if_alone(context)


for command in (list_, pause, resume, limit, clear, stats):
    queue.add_command(command)
