"""``kue bus``: the event bus of all processes."""

from __future__ import annotations

import click

from kue.cli.commands.bus.listen import listen
from kue.cli.commands.bus.nodes import addresses, nodes
from kue.cli.commands.bus.send import request, send
from kue.cli.context import url_option
from kue.cli.output.terminal import NounGroup, help_if_alone

__all__ = ["bus"]


@click.group(cls=NounGroup)
@url_option
@click.pass_context
def bus(context: click.Context) -> None:
    """
    Look at the event bus, and send, ask and listen there.

    The bus is that of the processes that meet at the Redis of the queue, under its
    prefix ($KUE_PREFIX).  Whoever sends, asks or listens here is a node of it
    meanwhile; whoever looks is not.

    \b
      kue bus nodes
      kue bus addresses --find order
      kue bus request greeter '{"name": "ann"}'
      kue bus listen news
    """
    help_if_alone(context)


for command in (nodes, addresses, send, request, listen):
    bus.add_command(command)
