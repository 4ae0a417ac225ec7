"""
Serving a `Site`.

Imported by those alone who serve: a web server takes long to import, and most commands
do without.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import webbrowser
from typing import TYPE_CHECKING

from kue.cli.site import HOST
from kue.cli.terminal import program, say
from kue.errors import StoreUnavailable
from kue.http.app import create_app
from kue.http.exposure import Address, Exposed
from kue.http.login import Accounts, LocalAccounts
from kue.http.prefix import checked
from kue.http.serve import Serving, check, listen, serving

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator, Callable, Iterator

    from starlette.applications import Starlette

    from kue.cli.site import Site
    from kue.queue import Kue


def how(site: Site) -> Serving:
    """
    Return how *site* is to be served.

    Raises:
        ConfigError: What was asked for makes no sense.
    """
    serving = Serving(
        prefix=checked(site.prefix),
        proxies=site.proxies,
        certfile=site.certfile,
        keyfile=site.keyfile,
        access_log=site.access_log,
    )
    check(serving)
    return serving


def url(site: Site, listener: socket.socket) -> str:
    """Return where a browser on this machine finds *site*."""
    bound = Address.bound(listener, site.host)
    return bound.url(scheme=how(site).scheme, prefix=checked(site.prefix))


def listener_for(site: Site) -> socket.socket:
    """
    Return a socket that listens where *site* is to be.

    Raises:
        ConfigError: It cannot, or something else that was asked for makes no sense.
    """
    how(site)
    return listen(Address.of(site.host, site.port))


async def application(
    q: Kue, site: Site, address: Address, *, command: str = "dashboard"
) -> Starlette:
    """
    Return the application that *site* asks for, at *address*; *command* did.

    Raises:
        Exposed: Others could reach it, and nobody would have to log in.
    """
    where = _open_to_others(site, address)
    is_local = where is None
    accounts = LocalAccounts(q) if is_local else Accounts(q)
    if where is not None and not await _may_have_users(accounts):
        kue = program()
        again = f"{kue} {command} {_options(site)}"
        raise Exposed(where, (f"{kue} user add NAME --role admin", again))
    return create_app(
        q,
        guard=accounts,
        read_only=site.read_only,
        badge=site.badge,
        # Where people must log in, a name that was pointed here gains nothing.
        hosts=(*site.hosts, site.host) if site.hosts or is_local else None,
    )


def _open_to_others(site: Site, address: Address) -> str | None:
    """Return where others than this machine can reach it; None when they cannot."""
    if not address.is_local:
        return site.host or "every address"
    # Whoever is asked for by another name, or by a proxy, is asked by others.
    if site.proxies:
        return f"the proxy {site.proxies[0]}"
    return site.hosts[0] if site.hosts else None


def _options(site: Site) -> str:
    """Return what made it open to others, as it was given."""
    given = [] if site.host == HOST else [("--host", site.host)]
    given += [("--proxy", one) for one in site.proxies]
    given += [("--allow-host", one) for one in site.hosts]
    return " ".join(f"{name} {value}" for name, value in given)


async def _may_have_users(accounts: Accounts) -> bool:
    """Tell whether there is someone to log in, as far as can be known."""
    try:
        return bool(await accounts.users.all())
    except StoreUnavailable:
        # Until it is back nobody gets in, and without users nobody does then.
        return True


@contextlib.asynccontextmanager
async def shown(
    q: Kue, site: Site, listener: socket.socket, *, command: str = "dashboard"
) -> AsyncIterator[asyncio.Task[None]]:
    """
    Serve the dashboard of *q* for as long as the context lasts; yields what does.

    Raises:
        ConfigError: Something that was asked for makes no sense, or is not safe.
        StoreRefused, StoreCorrupt: The store is not fit to keep jobs.
    """
    await _look_at(q)
    address = Address.bound(listener, site.host)
    app = await application(q, site, address, command=command)
    async with serving(app, listener, how(site)) as server:
        yield server


async def serve(
    q: Kue,
    site: Site,
    listener: socket.socket,
    stopping: asyncio.Event,
    *,
    command: str = "dashboard",
    on_start: Callable[[], object] = lambda: None,
) -> None:
    """
    Serve the dashboard of *q* until *stopping*; *on_start* is called when it answers.

    Raises:
        As `shown`.
    """
    async with shown(q, site, listener, command=command) as server:
        on_start()
        waiting = asyncio.create_task(stopping.wait(), name="kue stop")
        await asyncio.wait([waiting, server], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()


async def _look_at(q: Kue) -> None:
    """Open the store; one that is away may come back, and is waited for."""
    try:
        await q.open()
    except StoreUnavailable as exc:
        say(f"{exc}; the dashboard waits for it")


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
    """Show *url* to who sits here; a machine without a browser is told so."""
    if not webbrowser.open(url):
        say(f"there is no browser here to open {url} in")
