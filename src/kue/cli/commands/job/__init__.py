"""``kue job``: add, list, show and change jobs."""

from __future__ import annotations

import click

from kue.cli.commands.job.add import add
from kue.cli.commands.job.change import cancel, move, remove, retry
from kue.cli.commands.job.edit import edit
from kue.cli.commands.job.list import list_
from kue.cli.commands.job.log import log
from kue.cli.commands.job.show import show
from kue.cli.commands.job.wait import wait
from kue.cli.context import url_option
from kue.cli.output.terminal import NounGroup, help_if_alone

__all__ = ["job"]


@click.group(cls=NounGroup)
@url_option
@click.pass_context
def job(context: click.Context) -> None:
    """
    Add, list, show and change jobs.

    \b
      kue job add email '{"to": "ann"}' --priority high
      kue job list --state failed
      kue job show 7
      kue job retry 7

    Where a command takes ids, - reads them from standard input, one per line:

    \b
      kue job list --text ann | kue job cancel -
    """
    help_if_alone(context)


for command in (add, show, list_, log, wait, retry, cancel, remove, move, edit):
    job.add_command(command)
