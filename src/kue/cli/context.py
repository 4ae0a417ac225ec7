"""Connecting commands to a queue: ``--url``, and decorators that pass the queue."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kue.aio.event_loop import run
from kue.cli.audit import note_command
from kue.cli.output.console import EXIT_CODES, REFUSED
from kue.client.queue import Kue
from kue.model import settings
from kue.model.connections import connections
from kue.store import refuse_missing_file

if TYPE_CHECKING:
    from kue.model.settings import Settings

F = TypeVar("F", bound=Callable[..., Any])
#: The function of a command, which is passed a queue and the parameters.
QueueFunction = Callable[..., Awaitable[int | None]]

#: Where the URL is in the metadata of a context, and the name of a connection.
URL_KEY = "kue.url"
CONNECTION_KEY = "kue.connection"


def url_option(command: F) -> F:
    """Add ``--url`` and ``--connection``; those of the innermost command count."""
    named = click.option(
        "--connection",
        "connection_option",
        callback=_remember_connection,
        expose_value=False,
        metavar="NAME",
        help="The queue of this name in $KUE_CONNECTIONS, instead of --url.",
    )
    return named(_url_option(command))


def _url_option(command: F) -> F:
    return click.option(
        "--url",
        # doctor has an argument named "url".
        "url_option",
        callback=_remember,
        expose_value=False,
        metavar="URL",
        help="The queue; else $KUE_URL, else $REDIS_URL, else kue.db in this folder.",
    )(command)


def noun(*commands: click.Command) -> Callable[[Callable[[], None]], click.Group]:
    """Make a group of *commands*; alone, it shows its help: the docstring."""

    def make(function: Callable[[], None]) -> click.Group:
        @click.group(epilog=EXIT_CODES, invoke_without_command=True, commands=commands)
        @url_option
        @click.pass_context
        @functools.wraps(function)
        def group(context: click.Context) -> None:
            if context.invoked_subcommand is None:
                click.echo(context.get_help())

        return group

    return make


json_option = functools.partial(click.option, "--json", "as_json", is_flag=True)


def command(function: Callable[..., int | None]) -> click.Command:
    """Make a command of *function*, with ``--url`` as its last option."""
    name = function.__name__.rstrip("_")
    made = click.command(name, epilog=EXIT_CODES)(url_option(function))
    # The options of the queue come last.
    made.params = [*made.params[2:], *reversed(made.params[:2])]
    return made


def _with_queue(
    function: QueueFunction, *, creates: bool = False, is_change: bool = True
) -> click.Command:
    @functools.wraps(function)
    def call(*args: Any, **given: Any) -> int | None:
        config = settings_here()
        if not creates:
            refuse_missing_file(config.url)

        async def call_with_queue() -> int | None:
            async with Kue(config) as q:
                try:
                    code = await function(q, *args, **given)
                except asyncio.CancelledError:
                    # Interrupted: part of it may have been done.
                    if is_change:
                        await note_command(q.store, REFUSED)
                    raise
                if is_change:
                    await note_command(q.store, code)
                return code

        return run(call_with_queue())

    return command(call)


#: Makes a command of a function: passes it an existing queue, and closes that.
reads = functools.partial(_with_queue, is_change=False)
#: Does as `reads` does, and records the command in the audit log.
changes = _with_queue
#: Does as `changes` does; a SQLite file that does not exist is created.
adds = functools.partial(_with_queue, creates=True)


def settings_here(url: str | None = None, **given: Any) -> Settings:
    """
    Return the settings of the queue at *url*, or else of the one that was asked for.

    That is the one of ``--url`` or ``--connection``, whichever is nearer to the end of
    the command line.
    """
    asked = click.get_current_context().meta
    if url is None and CONNECTION_KEY in asked:
        return connections.settings(asked[CONNECTION_KEY], **given)
    return settings.load(url=url or asked.get(URL_KEY), **given)


@contextmanager
def as_usage_error() -> Iterator[None]:
    """Turn errors about invalid values into usage errors."""
    try:
        yield
    except (ValueError, TypeError) as exc:
        raise click.UsageError(str(exc)) from exc


def _remember(context: click.Context, _param: click.Parameter, value: Any) -> None:
    if value is not None:
        # Shared by a group's context and those of its commands.
        context.meta.pop(CONNECTION_KEY, None)
        context.meta[URL_KEY] = value


def _remember_connection(
    context: click.Context, _param: click.Parameter, value: Any
) -> None:
    if value is not None:
        context.meta.pop(URL_KEY, None)
        context.meta[CONNECTION_KEY] = value
