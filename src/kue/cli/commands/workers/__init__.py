"""``kue workers``: list, pause and stop workers."""

from __future__ import annotations

import click

from kue.cli.commands.workers.list import show
from kue.cli.commands.workers.orders import stacks, stop
from kue.cli.commands.workers.pause import pause, resume
from kue.cli.context import json_option, url_option
from kue.cli.output.terminal import NounGroup

__all__ = ["workers"]


@click.group(cls=NounGroup)
@click.option("--watch", is_flag=True, help="Refresh every second, until Ctrl-C.")
@json_option(help="Write one JSON object per line, one for each worker.")
@url_option
@click.pass_context
def workers(context: click.Context, watch: bool, as_json: bool) -> None:
    """
    List the workers that the queue knows.

    A dead worker has not renewed its lease: its jobs are reclaimed, and after a while
    it is removed from the list.  "lag" is how late its event loop is, "blocked" how
    often a handler blocked the loop, and where it did last.  Columns in a pipe: name,
    host, pid, alive (yes, paused, no), since, running, done, types, memory, lag,
    blocked.

    \b
      kue workers
      kue workers --watch
      kue workers pause web-1
      kue workers stop web-1
      kue workers stacks web-1
    """
    if context.invoked_subcommand is not None:
        return
    try:
        context.invoke(show, watch=watch, as_json=as_json)
    except KeyboardInterrupt:
        # The normal way to stop --watch.
        if not watch:
            raise


for command in (pause, resume, stop, stacks):
    workers.add_command(command)
