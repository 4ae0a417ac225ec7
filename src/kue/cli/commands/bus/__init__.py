"""``kue bus``: inspect the event bus, send and receive messages."""

from __future__ import annotations

from kue.cli.commands.bus.messages import listen, request, send
from kue.cli.commands.bus.nodes import addresses, nodes
from kue.cli.context import noun


@noun(nodes, addresses, send, request, listen)
def bus() -> None:
    """
    Inspect the event bus, send messages and requests, and listen.

    The bus connects the processes that use the Redis of the queue, under its prefix
    ($KUE_PREFIX).  To send, request or listen, the command joins it as a node.

    \b
      kue bus nodes
      kue bus addresses --find order
      kue bus request greeter '{"name": "ann"}'
      kue bus listen news
    """
