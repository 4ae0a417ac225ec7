"""``kue bus listen``: print messages as they arrive."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kue.bus.sampling import kind_of
from kue.cli.commands.bus.context import joins
from kue.cli.commands.bus.send import read_body, shown
from kue.cli.context import json_option, url_option
from kue.cli.output.listing import show_json, show_line
from kue.cli.output.terminal import DONE, Command, print_message
from kue.cli.output.text import json_text

if TYPE_CHECKING:
    from typing import Any

    from kue.bus import ClusterManager, EventBus, Message


@click.command(cls=Command)
@click.argument("address")
@click.option(
    "--count", type=click.IntRange(1), help="Stop after this many; else on Ctrl-C."
)
@click.option("--reply", metavar="BODY", help="Answer requests with this JSON.")
@json_option(help="Write one JSON object per line: address, kind, body, headers.")
@url_option
def listen(**given: Any) -> int | None:
    """
    Print messages to ADDRESS, one per line, until Ctrl-C.

    It is one more consumer there.  It receives all published messages.  Sent messages
    and requests go to one consumer in turn: those it receives, others do not.  Columns
    in a pipe: kind (send, publish or request), body as JSON, headers.

    \b
      kue bus listen news
      kue bus listen stock.count --reply 42 --count 1
    """
    try:
        return _listen(**given)
    except KeyboardInterrupt:
        # The normal way to stop.
        return DONE


@joins
async def _listen(
    bus: EventBus,
    cluster: ClusterManager,
    address: str,
    count: int | None,
    reply: str | None,
    as_json: bool,
) -> None:
    answer = read_body(reply, is_text=False)
    consumer = bus.consumer(address)
    await consumer.ready()
    print_message(f"listening at {address}")
    received = 0
    async for message in consumer:
        _show(message, as_json=as_json)
        if reply is not None:
            message.reply(answer)
        received += 1
        if received == count:
            return


def _show(message: Message, *, as_json: bool) -> None:
    kind = kind_of(message)
    if as_json:
        show_json(
            {
                "address": message.address,
                "kind": kind,
                "body": shown(message.body),
                "headers": {
                    name: message.headers.all(name) for name in message.headers
                },
            }
        )
    else:
        headers = ", ".join(
            f"{name}:{value}" for name, value in message.headers.items()
        )
        show_line(kind, json_text(shown(message.body)), headers)
