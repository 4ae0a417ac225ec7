"""``kue dashboard``: serve the dashboard and the REST API of a queue."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import click
import msgspec
from setproctitle import setproctitle

from kue.aio.event_loop import run
from kue.cli.context import settings_here, url_option
from kue.cli.output.console import EXIT_CODES, print_message
from kue.cli.params import PORT_NUMBER, env_option, options
from kue.client.queue import Kue
from kue.store import refuse_missing_file
from kue.supervisor import log_format
from kue.supervisor.app_loader import load

HOST = "127.0.0.1"
#: The port of the original Kue's dashboard.
PORT = 3000


class DashboardOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How to serve a dashboard."""

    host: str = HOST
    port: int = PORT
    prefix: str = ""
    read_only: bool = False
    badge: str = ""
    #: Host names it is reached by, in addition to those of this machine.
    hosts: tuple[str, ...] = ()
    proxies: tuple[str, ...] = ()
    certfile: str | None = None
    keyfile: str | None = None
    access_log: bool = False
    #: Gives access while there are no users; random if empty.
    token: str = ""


_option = partial(env_option, "DASHBOARD")
#: The options of a `DashboardOptions`, and ``--open``.
dashboard_options = options(
    _option(
        "--host",
        default=HOST,
        help="Where to listen: an address, a name, or unix:/path/to/socket.  "
        "Anything but localhost requires a user: kue user add.",
    ),
    _option(
        "--port", type=PORT_NUMBER, default=PORT, help="Which port; 0 picks a free one."
    ),
    _option(
        "--prefix",
        default="",
        help="The path it is served at, such as /jobs; a proxy may strip or keep it.",
    ),
    _option("--read-only", is_flag=True, help="Reject every change."),
    _option(
        "--badge", default="", metavar="TEXT", help="A label to show, such as staging."
    ),
    _option(
        "--allow-host",
        "hosts",
        multiple=True,
        metavar="NAME",
        help="A host name it is reached by, beyond this machine's; may be repeated.",
    ),
    _option(
        "--proxy",
        "proxies",
        multiple=True,
        metavar="ADDRESS",
        help="A proxy or network whose X-Forwarded headers are trusted; may be "
        "repeated.",
    ),
    _option(
        "--certfile",
        type=click.Path(dir_okay=False),
        help="Serve https with this certificate (PEM).",
    ),
    _option(
        "--keyfile",
        type=click.Path(dir_okay=False),
        help="The key, if it is not in the certificate's file.",
    ),
    _option("--access-log", is_flag=True, help="Log a line for every request."),
    _option("--open", "opens", is_flag=True, help="Open it in a browser."),
)


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

    def announce(url: str) -> None:
        print_message(f"the dashboard of {q.store.name}; Ctrl-C stops it")
        click.echo(url)
        if opens:
            dashboard_server.open_browser(url)

    site = DashboardOptions(**given)
    q = _queue_of(target)
    with dashboard_server.listener_for(site) as listener:
        log_format.configure("dashboard", format="text", level="INFO")
        setproctitle(f"kue dashboard on {q.store.name}")
        stopping = asyncio.Event()
        run(dashboard_server.serve(q, site, listener, stopping, on_start=announce))


def _queue_of(target: str | None) -> Kue:
    """Return the queue that *target* names: a URL, module:attribute, or nothing."""
    if target is not None and "://" not in target:
        return load(target)[0]
    config = settings_here(target)
    refuse_missing_file(config.url)
    return Kue(config)
