"""``kue dashboard``: serve the dashboard and the REST API of a queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from setproctitle import setproctitle

from kue.aio.event_loop import run
from kue.cli.commands.dashboard_options import DashboardOptions, dashboard_options
from kue.cli.context import refuse_missing_file, settings_here, url_option
from kue.cli.output.console import EXIT_CODES, print_message
from kue.client.queue import Kue
from kue.model import settings
from kue.supervisor import log_format
from kue.supervisor.app_loader import BadTarget, load

if TYPE_CHECKING:
    import socket


@click.command(epilog=EXIT_CODES)
@click.argument("target", required=False)
@url_option
@dashboard_options
def dashboard(target: str | None, opens: bool, **given: Any) -> None:
    """
    Serve the dashboard and the REST API of a queue.

    TARGET is the URL of a store, or module:attribute as for kue worker; without it, the
    queue is found as in every command.  The address is written to standard output.
    Ctrl-C and SIGTERM stop the server.

    \b
      kue dashboard
      kue dashboard redis://localhost:6379/0 --open
      kue dashboard app:q --port 8080 --read-only
      kue dashboard --prefix /jobs --proxy 10.0.0.0/8 --allow-host ops.example.com

    Until a user is added (kue user add), it listens on localhost only, and the address
    contains an access token.  Each start makes a new one, unless $KUE_DASHBOARD_TOKEN
    sets it.  Programs send it as "Authorization: Bearer ...".  To listen on another
    address, or behind a proxy, add a user first.
    """
    from kue.cli.commands import dashboard_server

    options = DashboardOptions(**given)
    q = queue_of(target)
    with dashboard_server.listener_for(options) as listener:
        log_format.configure("dashboard", format="text", level="INFO")
        setproctitle(f"kue dashboard on {q.store.name}")
        run(_serve(q, options, listener, opens=opens))


def queue_of(target: str | None) -> Kue:
    """
    Return the queue that *target* names: a URL, module:attribute, or nothing.

    Raises:
        ConfigError: There is no such queue.
    """
    if target is not None and "://" not in target:
        try:
            return load(target)[0]
        except BadTarget as exc:
            click.echo(exc.detail, err=True, nl=False)
            raise
    config = settings_here() if target is None else settings.load(url=target)
    refuse_missing_file(config.url)
    return Kue(config.url)


async def _serve(
    q: Kue, options: DashboardOptions, listener: socket.socket, *, opens: bool
) -> None:
    from kue.cli.commands import dashboard_server

    def announce(url: str) -> None:
        print_message(f"the dashboard of {q.store.name}; Ctrl-C stops it")
        click.echo(url)
        if opens:
            dashboard_server.open_browser(url)

    async with q:
        with dashboard_server.stopped_by_signals() as stopping:
            await dashboard_server.serve(
                q, options, listener, stopping, on_start=announce
            )
