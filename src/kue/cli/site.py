"""What ``kue dashboard`` and ``kue up`` share: a site, its options, and serving it."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import webbrowser
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from kue.cli.terminal import program, say
from kue.errors import StoreUnavailable
from kue.http.access import Anyone, Role
from kue.http.app import create_app
from kue.http.exposure import Address, Exposed
from kue.http.prefix import checked
from kue.http.serve import Serving, check, listen, serving

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator

    from starlette.applications import Starlette

    from kue.http.access import Guard
    from kue.queue import Kue

F = TypeVar("F", bound="Callable[..., Any]")

HOST = "127.0.0.1"
#: As Kue's own dashboard had it.
PORT = 3000


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """What a dashboard was asked to be."""

    host: str = HOST
    port: int = PORT
    prefix: str = ""
    read_only: bool = False
    badge: str = ""
    #: Names it is reached by, beside those of this machine.
    hosts: tuple[str, ...] = ()
    proxies: tuple[str, ...] = ()
    certfile: str | None = None
    keyfile: str | None = None

    @property
    def serving(self) -> Serving:
        return Serving(
            prefix=checked(self.prefix),
            proxies=self.proxies,
            certfile=self.certfile,
            keyfile=self.keyfile,
        )

    def url(self, listener: socket.socket) -> str:
        """Return where a browser on this machine finds it."""
        how = self.serving
        bound = Address.bound(listener, self.host)
        return bound.url(scheme=how.scheme, prefix=how.prefix)


def _option(*names: str, **settings: Any) -> Callable[[F], F]:
    """Return a click option that has a variable KUE_DASHBOARD_<NAME>."""
    name = names[0].removeprefix("--").replace("-", "_")
    return click.option(
        *names, envvar=f"KUE_DASHBOARD_{name.upper()}", show_envvar=True, **settings
    )


_OPTIONS = (
    _option(
        "--host",
        default=HOST,
        show_default=True,
        help="Where to listen: an address, a name, or unix:/path/to/socket.  "
        "Anywhere but on this machine needs a user: kue user add.",
    ),
    _option(
        "--port",
        type=click.IntRange(0, 65535),
        default=PORT,
        show_default=True,
        help="Which port; 0 takes any that is free.",
    ),
    _option(
        "--prefix",
        default="",
        help="The path it is at, such as /jobs; a proxy may strip it or leave it.",
    ),
    _option("--read-only", is_flag=True, help="Refuse every change."),
    _option(
        "--badge", default="", metavar="TEXT", help="Show which one this is: staging."
    ),
    _option(
        "--allow-host",
        "hosts",
        multiple=True,
        metavar="NAME",
        help="A name it is reached by, besides this machine's; may be repeated.",
    ),
    _option(
        "--proxy",
        "proxies",
        multiple=True,
        metavar="ADDRESS",
        help="A proxy or network whose X-Forwarded headers are believed; may be "
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
    _option("--open", "opens", is_flag=True, help="Open it in a browser."),
)


def site_options(command: F) -> F:
    """Add the options of a `Site`, and ``--open``."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def listener_for(site: Site) -> socket.socket:
    """
    Return a socket that listens where *site* is to be.

    Raises:
        ConfigError: It cannot.
    """
    return listen(Address.of(site.host, site.port))


def application(
    q: Kue, site: Site, *, is_local: bool, has_users: bool = False
) -> Starlette:
    """
    Return the application that *site* asks for.

    Raises:
        Exposed: Others could reach it, and nobody would have to log in.
    """
    guard = _guard(site, is_local=is_local, has_users=has_users)
    return create_app(q, guard=guard)


def _guard(site: Site, *, is_local: bool, has_users: bool) -> Guard:
    """Choose who decides who may do what."""
    if not is_local and not has_users:
        kue = program()
        again = f"{kue} dashboard --host {site.host}"
        raise Exposed(site.host, (f"{kue} user add NAME --role admin", again))
    return Anyone(Role.VIEWER if site.read_only else Role.ADMIN)


async def serve(
    q: Kue,
    site: Site,
    listener: socket.socket,
    stopping: asyncio.Event,
    *,
    on_start: Callable[[], object] = lambda: None,
) -> None:
    """
    Serve the dashboard of *q* until *stopping*; *on_start* is called when it answers.

    Raises:
        ConfigError: Something that was asked for makes no sense, or is not safe.
        StoreRefused, StoreCorrupt: The store is not fit to keep jobs.
    """
    is_local = Address.bound(listener, site.host).is_local
    app = application(q, site, is_local=is_local)
    await _look_at(q)
    async with serving(app, listener, site.serving) as server:
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


def site_of(**given: Any) -> Site:
    """
    Return the site that the command line asks for.

    Raises:
        ConfigError: A value makes no sense.
    """
    site = Site(**given)
    check(site.serving)
    return site
