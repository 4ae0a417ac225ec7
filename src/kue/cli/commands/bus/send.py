"""``kue bus send`` and ``request``: a message from the command line."""

from __future__ import annotations

import base64
import time
from typing import TYPE_CHECKING, Any

import click

from kue.bus import RequestFailed
from kue.bus.message import MAX_TIMEOUT
from kue.cli.commands.bus.context import joins
from kue.cli.context import json_option, told_as_misuse
from kue.cli.json_input import read_json
from kue.cli.output.listing import show_json, show_line
from kue.cli.output.terminal import DONE, REFUSED, Command, say
from kue.cli.output.text import json_text
from kue.cli.params import DURATION
from kue.cli.stdin import STDIN, read_all

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import timedelta

    from kue.bus import ClusterManager, EventBus
    from kue.model.payload import JSON


def message_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Take what a message is made of."""
    for option in (
        click.option("--text", is_flag=True, help="Take BODY for text, not for JSON."),
        click.option(
            "-H",
            "--header",
            "headers",
            multiple=True,
            metavar="NAME:VALUE",
            help="A header; may come again.",
        ),
        click.argument("body", required=False),
        click.argument("address"),
    ):
        function = option(function)
    return function


@click.command(cls=Command)
@message_options
@click.option("--publish", is_flag=True, help="To every consumer, not to one in turn.")
@json_option(help="Write one JSON object: address, kind, nodes.")
@joins
async def send(
    bus: EventBus,
    cluster: ClusterManager,
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
    heard = await cluster.look_up(address)
    with told_as_misuse():
        (bus.publish if publish else bus.send)(address, given, headers=named)
    await bus.flush()
    kind = "publish" if publish else "send"
    if as_json:
        show_json({"address": address, "kind": kind, "nodes": list(heard)})
    elif heard:
        show_line(address, kind, str(len(heard)))
    if not heard:
        say(f"nobody listens at {address}")
    return DONE if heard else REFUSED


@click.command(cls=Command)
@message_options
@click.option(
    "--timeout",
    type=DURATION,
    default="5s",
    help="How long to wait for the reply; 5s if left out.",
)
@json_option(help="Write one JSON object: address, body, headers, took_ms.")
@joins
async def request(
    bus: EventBus,
    cluster: ClusterManager,
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
        with told_as_misuse():
            reply = await bus.request(address, given, headers=named, timeout=seconds)
    except RequestFailed as exc:
        say(f"{exc.kind.name}: {exc.text}{_code(exc)}")
        return REFUSED
    took = round((time.monotonic() - began) * 1000, 1)
    if as_json:
        show_json(
            {
                "address": address,
                "body": shown(reply.body),
                "headers": {
                    name: list(reply.headers.all(name)) for name in reply.headers
                },
                "took_ms": took,
            }
        )
    else:
        click.echo(json_text(shown(reply.body)))
    return DONE


def read_body(body: str | None, *, is_text: bool) -> JSON:
    """Return the body that was given."""
    if body is None:
        return None
    given = read_all() if body == STDIN else body
    if is_text:
        return given if isinstance(given, str) else given.decode(errors="replace")
    return read_json(given, what="BODY")


def read_headers(given: Sequence[str]) -> list[tuple[str, str]]:
    """
    Take headers apart.

    Raises:
        click.UsageError: One has no name or no value.
    """
    found: list[tuple[str, str]] = []
    for header in given:
        name, colon, value = header.partition(":")
        if not colon or not name.strip():
            raise click.UsageError(
                f"a header is NAME:VALUE, not {header!r}", click.get_current_context()
            )
        found.append((name.strip(), value.strip()))
    return found


def shown(body: Any) -> JSON:
    """Return a body as JSON has it; bytes in base64."""
    if isinstance(body, bytes):
        return {"base64": base64.b64encode(body).decode()}
    given: JSON = body
    return given


def _code(exc: RequestFailed) -> str:
    return f" (code {exc.code})" if exc.code != -1 else ""
