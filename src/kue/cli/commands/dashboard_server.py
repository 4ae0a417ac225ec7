"""
The server of a dashboard.

Imported only by commands that serve: a web server is slow to import.
"""

from __future__ import annotations

import atexit
import contextlib
import shutil
import signal
import tempfile
import webbrowser
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from kue.aio.event_loop import on_signals
from kue.aio.tasks import wait_for_first
from kue.cli.commands.dashboard import HOST
from kue.cli.output.console import print_message, program
from kue.http.app import create_app
from kue.http.auth.account_guard import AccountGuard, LocalAccountGuard
from kue.http.auth.startup_token import PARAMETER, StartupToken
from kue.http.auth.users import UserAccounts
from kue.http.framework.path_prefix import checked
from kue.http.server.address import ListenAddress
from kue.http.server.serve import ServeOptions, check, listen, serving
from kue.model.errors import ConfigError, StoreUnavailable

if TYPE_CHECKING:
    import asyncio
    import socket
    from collections.abc import AsyncIterator, Callable

    from starlette.applications import Starlette

    from kue.cli.commands.dashboard import DashboardOptions
    from kue.client.queue import Kue


def _serve_options(options: DashboardOptions) -> ServeOptions:
    """Return the options of the HTTP server, or raise `ConfigError`."""
    checked_options = replace(options, prefix=checked(options.prefix))
    serving = msgspec.convert(checked_options, ServeOptions, from_attributes=True)
    check(serving)
    return serving


def with_token(options: DashboardOptions) -> DashboardOptions:
    """Return *options* with the start-up token, which all processes share."""
    return replace(options, token=StartupToken(options.token).secret)


def url(
    options: DashboardOptions, listener: socket.socket, *, has_users: bool = False
) -> str:
    """Return the address for a browser on this machine, with the start-up token."""
    bound = ListenAddress.bound(listener, options.host)
    serving = _serve_options(options)
    shown = bound.url(scheme=serving.scheme, prefix=serving.prefix)
    if has_users or not options.token or _open_to_others(options, bound) is not None:
        return shown
    return shown + StartupToken(options.token).query


def listener_for(options: DashboardOptions) -> socket.socket:
    """Return a socket that listens at the address of *options*, once they are valid."""
    _serve_options(options)
    return listen(ListenAddress.of(options.host, options.port))


async def _application(
    q: Kue, options: DashboardOptions, address: ListenAddress, command: str
) -> Starlette:
    """Return the application, or raise if others could reach it without logging in."""
    where = _open_to_others(options, address)
    is_local = where is None
    startup = StartupToken(options.token)
    accounts = LocalAccountGuard(q, startup) if is_local else AccountGuard(q)
    # While the store is unavailable, nobody gets in, with or without users.
    if where is not None and not await _has_users(accounts.users, if_unavailable=True):
        kue = program()
        raise ConfigError(
            f"other machines can reach {where}, and no login would be needed; add a "
            f"user, then start again:\n  {kue} user add NAME --role admin\n"
            f"  {kue} {command} {_options(options)}"
        )
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


async def _has_users(users: UserAccounts, *, if_unavailable: bool) -> bool:
    """Return whether there are users; *if_unavailable* if the store is."""
    try:
        return bool(await users.all())
    except StoreUnavailable:
        return if_unavailable


@contextlib.asynccontextmanager
async def running(
    q: Kue,
    options: DashboardOptions,
    listener: socket.socket,
    *,
    command: str = "dashboard",
) -> AsyncIterator[tuple[str, asyncio.Task[None]]]:
    """Serve the dashboard of *q* in the context; yield its address and its server."""
    options = with_token(options)
    is_available = True
    try:
        await q.open()
    except StoreUnavailable as exc:
        # It may come back.
        print_message(f"{exc}; the dashboard waits for it")
        is_available = False
    address = ListenAddress.bound(listener, options.host)
    app = await _application(q, options, address, command)
    async with serving(app, listener, _serve_options(options)) as server:
        users = UserAccounts(q.store)
        has_users = is_available and await _has_users(users, if_unavailable=False)
        yield url(options, listener, has_users=has_users), server


async def serve(
    q: Kue,
    options: DashboardOptions,
    listener: socket.socket,
    stopping: asyncio.Event,
    *,
    command: str = "dashboard",
    on_start: Callable[[str], object] = lambda url: None,
) -> None:
    """Do as `running` until *stopping*, or a signal; *on_start* gets the address."""
    async with q:
        with on_signals({signal.SIGINT: stopping.set, signal.SIGTERM: stopping.set}):
            async with running(q, options, listener, command=command) as (url, server):
                on_start(url)
                await wait_for_first(stopping.wait(), server)


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
