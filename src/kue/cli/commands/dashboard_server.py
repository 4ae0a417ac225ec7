"""
The server of a dashboard.

Imported only by commands that serve: a web server is slow to import.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import shutil
import signal
import tempfile
import webbrowser
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from kue.cli.commands.dashboard_options import HOST
from kue.cli.output.console import print_message, program
from kue.http.app import create_app
from kue.http.auth.account_guard import AccountGuard, LocalAccountGuard
from kue.http.auth.startup_token import PARAMETER, StartupToken
from kue.http.auth.users import UserAccounts
from kue.http.framework.path_prefix import checked
from kue.http.server.address import ListenAddress, UnprotectedServer
from kue.http.server.serve import ServeOptions, check, listen, serving
from kue.model.errors import StoreUnavailable

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator, Callable, Iterator

    from starlette.applications import Starlette

    from kue.cli.commands.dashboard_options import DashboardOptions
    from kue.client.queue import Kue


def serve_options(options: DashboardOptions) -> ServeOptions:
    """
    Return the options of the HTTP server.

    Raises:
        ConfigError: They are invalid.
    """
    serving = ServeOptions(
        prefix=checked(options.prefix),
        proxies=options.proxies,
        certfile=options.certfile,
        keyfile=options.keyfile,
        access_log=options.access_log,
    )
    check(serving)
    return serving


def with_token(options: DashboardOptions) -> DashboardOptions:
    """
    Return *options* with the start-up token, which all processes share.

    Raises:
        ConfigError: The token that was given is not fit for use.
    """
    return replace(options, token=StartupToken(options.token).secret)


def url(
    options: DashboardOptions, listener: socket.socket, *, has_users: bool = False
) -> str:
    """Return the address for a browser on this machine, with the start-up token."""
    bound = ListenAddress.bound(listener, options.host)
    shown = bound.url(
        scheme=serve_options(options).scheme, prefix=checked(options.prefix)
    )
    if has_users or not options.token or _open_to_others(options, bound) is not None:
        return shown
    return shown + StartupToken(options.token).query


def listener_for(options: DashboardOptions) -> socket.socket:
    """
    Return a socket that listens at the address of *options*.

    Raises:
        ConfigError: It cannot listen there, or other options are invalid.
    """
    serve_options(options)
    return listen(ListenAddress.of(options.host, options.port))


async def application(
    q: Kue,
    options: DashboardOptions,
    address: ListenAddress,
    *,
    command: str = "dashboard",
) -> Starlette:
    """
    Return the application for *options*, which *command* serves at *address*.

    Raises:
        UnprotectedServer: Others could reach it without logging in.
    """
    where = _open_to_others(options, address)
    is_local = where is None
    startup = StartupToken(options.token)
    accounts = LocalAccountGuard(q, startup) if is_local else AccountGuard(q)
    if where is not None and not await _may_have_users(accounts):
        kue = program()
        again = f"{kue} {command} {_options(options)}"
        raise UnprotectedServer(where, (f"{kue} user add NAME --role admin", again))
    return create_app(
        q,
        guard=accounts,
        read_only=options.read_only,
        badge=options.badge,
        # Where users log in, DNS rebinding gains nothing.
        hosts=(*options.hosts, options.host) if options.hosts or is_local else None,
    )


def _open_to_others(options: DashboardOptions, address: ListenAddress) -> str | None:
    """Return where other machines can reach it; None if they cannot."""
    if not address.is_local:
        return options.host or "every address"
    # Another host name or a proxy means that requests come from other machines.
    if options.proxies:
        return f"the proxy {options.proxies[0]}"
    return options.hosts[0] if options.hosts else None


def _options(options: DashboardOptions) -> str:
    """Return the options that opened it to others, as given."""
    given = [] if options.host == HOST else [("--host", options.host)]
    given += [("--proxy", one) for one in options.proxies]
    given += [("--allow-host", one) for one in options.hosts]
    return " ".join(f"{name} {value}" for name, value in given)


async def _may_have_users(accounts: AccountGuard) -> bool:
    """Return whether there are users; True if the store is unavailable."""
    try:
        return bool(await accounts.users.all())
    except StoreUnavailable:
        # Nobody gets in until it is back, and without users nobody does then either.
        return True


class DashboardServer(NamedTuple):
    """A running dashboard."""

    #: The address for a browser.
    url: str
    server: asyncio.Task[None]


@contextlib.asynccontextmanager
async def running(
    q: Kue,
    options: DashboardOptions,
    listener: socket.socket,
    *,
    command: str = "dashboard",
) -> AsyncIterator[DashboardServer]:
    """
    Serve the dashboard of *q* for as long as the context lasts.

    Raises:
        ConfigError: An option is invalid, or not safe.
        StoreRefused, StoreCorrupt: The store is not fit to keep jobs.
    """
    options = with_token(options)
    is_available = await _try_open(q)
    address = ListenAddress.bound(listener, options.host)
    app = await application(q, options, address, command=command)
    async with serving(app, listener, serve_options(options)) as server:
        has_users = is_available and await _has_users(q)
        yield DashboardServer(url(options, listener, has_users=has_users), server)


async def serve(
    q: Kue,
    options: DashboardOptions,
    listener: socket.socket,
    stopping: asyncio.Event,
    *,
    command: str = "dashboard",
    on_start: Callable[[str], object] = lambda url: None,
) -> None:
    """
    Serve the dashboard of *q* until *stopping*.

    *on_start* is called with its address when it is ready.

    Raises:
        As `running`.
    """
    async with running(q, options, listener, command=command) as one:
        on_start(one.url)
        waiting = asyncio.create_task(stopping.wait(), name="kue stop")
        await asyncio.wait([waiting, one.server], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()


async def _has_users(q: Kue) -> bool:
    """Return whether there are users; False if the store is unavailable."""
    try:
        return bool(await UserAccounts(q.store).all())
    except StoreUnavailable:
        return False


async def _try_open(q: Kue) -> bool:
    """Open the store; return False if it is unavailable, which may be temporary."""
    try:
        await q.open()
    except StoreUnavailable as exc:
        print_message(f"{exc}; the dashboard waits for it")
        return False
    return True


@contextlib.contextmanager
def stopped_by_signals() -> Iterator[asyncio.Event]:
    """Yield an event that SIGINT and SIGTERM set."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGINT, signal.SIGTERM)
    for number in numbers:
        loop.add_signal_handler(number, stopping.set)
    try:
        yield stopping
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


def open_browser(url: str) -> None:
    """Open *url* in a browser; print a message if there is none."""
    with contextlib.suppress(OSError):
        if webbrowser.open(_redirect_page(url) if f"{PARAMETER}=" in url else url):
            return
    print_message(f"found no browser to open {url}")


def _redirect_page(url: str) -> str:
    """Return a file that redirects to *url*, to keep its token out of ``ps``."""
    folder = tempfile.mkdtemp(prefix="kue-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = Path(folder, "dashboard.html")
    path.write_text(
        f'<!doctype html><title>Kue</title><meta http-equiv="refresh" '
        f'content="0; url={escape(url)}"><a href="{escape(url)}">the dashboard</a>'
    )
    return path.as_uri()
