"""``kue bus send``, ``request`` and ``listen``: messages from the command line."""

from __future__ import annotations

import base64
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from kue.bus import RequestFailed
from kue.bus.message import MAX_TIMEOUT
from kue.bus.sampling import kind_of
from kue.cli.commands.bus.context import joins
from kue.cli.context import as_usage_error, json_option
from kue.cli.input import STDIN, read_all, read_argument
from kue.cli.output.console import DONE, REFUSED, print_message
from kue.cli.output.listing import show_json, show_line, show_one
from kue.cli.output.text import json_text
from kue.cli.params import DURATION, POSITIVE, options

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from kue.bus import EventBus, Message
    from kue.model.payload import JSON

#: The parameters of a message.
message_options = options(
    click.argument("address"),
    click.argument("body", required=False),
    click.option(
        "-H",
        "--header",
        "headers",
        multiple=True,
        metavar="NAME:VALUE",
        help="A header; may be repeated.",
    ),
    click.option("--text", is_flag=True, help="BODY is text, not JSON."),
)


@joins
@message_options
@click.option("--publish", is_flag=True, help="Send to every consumer, not to one.")
@json_option(help="Write one JSON object: address, kind, nodes.")
async def send(
    bus: EventBus,
    address: str,
    body: str | None,
    headers: Sequence[str],
    text: bool,
    publish: bool,
    as_json: bool,
) -> int:
    """
    Send a message to ADDRESS: to one consumer, or with --publish to all.

    BODY is JSON, null if left out; - reads it from standard input.  Exits with 1 when
    no node listens there.

    \b
      kue bus send news '{"title": "rain"}' --publish
      kue bus send greeter ann --text -H lang:en
    """
    given = read_body(body, is_text=text)
    named = read_headers(headers)
    assert bus.cluster is not None
    nodes = await bus.cluster.look_up(address)
    with as_usage_error():
        (bus.publish if publish else bus.send)(address, given, headers=named)
    await bus.flush()
    kind = "publish" if publish else "send"
    if as_json:
        show_json({"address": address, "kind": kind, "nodes": list(nodes)})
    elif nodes:
        show_line(address, kind, str(len(nodes)))
    if not nodes:
        print_message(f"nobody listens at {address}")
    return DONE if nodes else REFUSED


@joins
@message_options
@click.option(
    "--timeout",
    type=DURATION,
    default="5s",
    help="How long to wait for the reply; else 5s.",
)
@json_option(help="Write one JSON object: address, body, headers, took_ms.")
async def request(
    bus: EventBus,
    address: str,
    body: str | None,
    headers: Sequence[str],
    text: bool,
    timeout: timedelta,
    as_json: bool,
) -> int:
    """
    Send a message to one consumer of ADDRESS and print its reply, as JSON.

    BODY is as for "kue bus send".  Exits with 1 when there is no reply: nobody listens
    (NO_HANDLERS), none came in time (TIMEOUT), or the other side failed.

    \b
      kue bus request greeter '{"name": "ann"}'
      kue bus request stock.count '"A-7"' --timeout 30s
    """
    given = read_body(body, is_text=text)
    named = read_headers(headers)
    seconds = min(timeout.total_seconds(), MAX_TIMEOUT)
    began = time.monotonic()
    try:
        with as_usage_error():
            reply = await bus.request(address, given, headers=named, timeout=seconds)
    except RequestFailed as exc:
        code = f" (code {exc.code})" if exc.code != -1 else ""
        print_message(f"{exc.kind.name}: {exc.text}{code}")
        return REFUSED
    took = round((time.monotonic() - began) * 1000, 1)
    item = {"address": address, **_contents(reply), "took_ms": took}
    show_json(item if as_json else item["body"])
    return DONE


def read_body(body: str | None, *, is_text: bool) -> JSON:
    """Return the body of a message, read from standard input for ``-``."""
    if body is None:
        return None
    if is_text:
        return read_all().decode(errors="replace") if body == STDIN else body
    return read_argument(body, what="BODY")


def read_headers(given: Sequence[str]) -> list[tuple[str, str]]:
    """Split headers into names and values."""
    found: list[tuple[str, str]] = []
    for header in given:
        name, colon, value = header.partition(":")
        if not colon or not name.strip():
            raise click.UsageError(
                f"a header is NAME:VALUE, not {header!r}", click.get_current_context()
            )
        found.append((name.strip(), value.strip()))
    return found


def _contents(message: Message) -> dict[str, JSON]:
    """Return body and headers as JSON; a body of bytes as base64."""
    body: Any = message.body
    if isinstance(body, bytes):
        body = {"base64": base64.b64encode(body).decode()}
    headers = {name: list(message.headers.all(name)) for name in message.headers}
    return {"body": body, "headers": headers}


@partial(joins, is_endless=True)
@click.argument("address")
@click.option("--count", type=POSITIVE, help="Stop after this many; else on Ctrl-C.")
@click.option("--reply", metavar="BODY", help="Answer requests with this JSON.")
@json_option(help="Write one JSON object per line: address, kind, body, headers.")
async def listen(
    bus: EventBus, address: str, count: int | None, reply: str | None, as_json: bool
) -> None:
    """
    Print messages to ADDRESS, one per line, until Ctrl-C.

    It is one more consumer there.  It receives all published messages.  Sent messages
    and requests go to one consumer in turn: those it receives, others do not.  Columns
    in a pipe: kind (send, publish or request), body as JSON, headers.

    \b
      kue bus listen news
      kue bus listen stock.count --reply 42 --count 1
    """
    answer = read_body(reply, is_text=False)
    consumer = bus.consumer(address)
    await consumer.ready()
    print_message(f"listening at {address}")
    received = 0
    async for message in consumer:
        kind, contents = kind_of(message), _contents(message)
        item = {"address": message.address, "kind": kind, **contents}
        named = ", ".join(f"{name}:{value}" for name, value in message.headers.items())
        show_one(item, kind, json_text(contents["body"]), named, as_json=as_json)
        if reply is not None:
            message.reply(answer)
        received += 1
        if received == count:
            return
