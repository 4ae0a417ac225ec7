"""
Serving a `DashboardOptions`.

Imported by those alone who serve: a web server takes long to import, and most commands
do without.
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
from kue.cli.output.terminal import program, say
from kue.http.app import create_app
from kue.http.auth.login import AccountGuard, LocalAccountGuard
from kue.http.auth.open_mode import PARAMETER, StartupToken
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


def how(site: DashboardOptions) -> ServeOptions:
    """
    Return how *site* is to be served.

    Raises:
        ConfigError: What was asked for makes no sense.
    """
    serving = ServeOptions(
        prefix=checked(site.prefix),
        proxies=site.proxies,
        certfile=site.certfile,
        keyfile=site.keyfile,
        access_log=site.access_log,
    )
    check(serving)
    return serving


def with_token(site: DashboardOptions) -> DashboardOptions:
    """
    Return *site* with the start-up token that all its processes are to share.

    Raises:
        ConfigError: The one that was given is not fit to be one.
    """
    return replace(site, token=StartupToken(site.token).secret)


def url(
    site: DashboardOptions, listener: socket.socket, *, has_users: bool = False
) -> str:
    """Return where a browser on this machine finds *site*, with the start-up token."""
    bound = ListenAddress.bound(listener, site.host)
    shown = bound.url(scheme=how(site).scheme, prefix=checked(site.prefix))
    if has_users or not site.token or _open_to_others(site, bound) is not None:
        return shown
    return shown + StartupToken(site.token).query


def listener_for(site: DashboardOptions) -> socket.socket:
    """
    Return a socket that listens where *site* is to be.

    Raises:
        ConfigError: It cannot, or something else that was asked for makes no sense.
    """
    how(site)
    return listen(ListenAddress.of(site.host, site.port))


async def application(
    q: Kue,
    site: DashboardOptions,
    address: ListenAddress,
    *,
    command: str = "dashboard",
) -> Starlette:
    """
    Return the application that *site* asks for, at *address*; *command* did.

    Raises:
        Exposed: Others could reach it, and nobody would have to log in.
    """
    where = _open_to_others(site, address)
    is_local = where is None
    startup = StartupToken(site.token)
    accounts = LocalAccountGuard(q, startup) if is_local else AccountGuard(q)
    if where is not None and not await _may_have_users(accounts):
        kue = program()
        again = f"{kue} {command} {_options(site)}"
        raise UnprotectedServer(where, (f"{kue} user add NAME --role admin", again))
    return create_app(
        q,
        guard=accounts,
        read_only=site.read_only,
        badge=site.badge,
        # Where people must log in, a name that was pointed here gains nothing.
        hosts=(*site.hosts, site.host) if site.hosts or is_local else None,
    )


def _open_to_others(site: DashboardOptions, address: ListenAddress) -> str | None:
    """Return where others than this machine can reach it; None when they cannot."""
    if not address.is_local:
        return site.host or "every address"
    # Whoever is asked for by another name, or by a proxy, is asked by others.
    if site.proxies:
        return f"the proxy {site.proxies[0]}"
    return site.hosts[0] if site.hosts else None


def _options(site: DashboardOptions) -> str:
    """Return what made it open to others, as it was given."""
    given = [] if site.host == HOST else [("--host", site.host)]
    given += [("--proxy", one) for one in site.proxies]
    given += [("--allow-host", one) for one in site.hosts]
    return " ".join(f"{name} {value}" for name, value in given)


async def _may_have_users(accounts: AccountGuard) -> bool:
    """Tell whether there is someone to log in, as far as can be known."""
    try:
        return bool(await accounts.users.all())
    except StoreUnavailable:
        # Until it is back nobody gets in, and without users nobody does then.
        return True


class DashboardServer(NamedTuple):
    """A dashboard that is served."""

    #: Where a browser finds it.
    url: str
    server: asyncio.Task[None]


@contextlib.asynccontextmanager
async def shown(
    q: Kue,
    site: DashboardOptions,
    listener: socket.socket,
    *,
    command: str = "dashboard",
) -> AsyncIterator[DashboardServer]:
    """
    Serve the dashboard of *q* for as long as the context lasts.

    Raises:
        ConfigError: Something that was asked for makes no sense, or is not safe.
        StoreRefused, StoreCorrupt: The store is not fit to keep jobs.
    """
    site = with_token(site)
    is_there = await _look_at(q)
    address = ListenAddress.bound(listener, site.host)
    app = await application(q, site, address, command=command)
    async with serving(app, listener, how(site)) as server:
        has_users = is_there and await _has_users(q)
        yield DashboardServer(url(site, listener, has_users=has_users), server)


async def serve(
    q: Kue,
    site: DashboardOptions,
    listener: socket.socket,
    stopping: asyncio.Event,
    *,
    command: str = "dashboard",
    on_start: Callable[[str], object] = lambda url: None,
) -> None:
    """
    Serve the dashboard of *q* until *stopping*.

    *on_start* is called with its address when it answers.

    Raises:
        As `shown`.
    """
    async with shown(q, site, listener, command=command) as one:
        on_start(one.url)
        waiting = asyncio.create_task(stopping.wait(), name="kue stop")
        await asyncio.wait([waiting, one.server], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()


async def _has_users(q: Kue) -> bool:
    """Return whether people log in; as long as the store is away it is not known."""
    try:
        return bool(await UserAccounts(q.store).all())
    except StoreUnavailable:
        return False


async def _look_at(q: Kue) -> bool:
    """Open the store; return False for one that is away, which may come back."""
    try:
        await q.open()
    except StoreUnavailable as exc:
        say(f"{exc}; the dashboard waits for it")
        return False
    return True


@contextlib.contextmanager
def stopped_by_signals() -> Iterator[asyncio.Event]:
    """Give an event that SIGINT and SIGTERM set, for as long as the context lasts."""
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
    """Open *url* in a browser of this machine; say so where there is none."""
    with contextlib.suppress(OSError):
        if webbrowser.open(_door(url) if f"{PARAMETER}=" in url else url):
            return
    say(f"there is no browser here to open {url} in")


def _door(url: str) -> str:
    """Return a file that leads to *url*, which others would see among processes."""
    folder = tempfile.mkdtemp(prefix="kue-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = Path(folder, "dashboard.html")
    path.write_text(
        f'<!doctype html><title>Kue</title><meta http-equiv="refresh" '
        f'content="0; url={escape(url)}"><a href="{escape(url)}">the dashboard</a>'
    )
    return path.as_uri()
