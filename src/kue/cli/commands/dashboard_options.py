"""What ``kue dashboard`` and ``kue up`` ask for: a site, and its options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., Any]")

HOST = "127.0.0.1"
#: As Kue's own dashboard had it.
PORT = 3000


class DashboardOptions(msgspec.Struct, frozen=True, kw_only=True):
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
    access_log: bool = False
    #: What lets in while there are no users; random if empty.
    token: str = ""


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
    _option("--access-log", is_flag=True, help="Log a line for every request."),
    _option("--open", "opens", is_flag=True, help="Open it in a browser."),
)


def site_options(command: F) -> F:
    """Add the options of a `DashboardOptions`, and ``--open``."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def site_of(given: dict[str, Any]) -> DashboardOptions:
    """Take the options of a `DashboardOptions` out of *given*, and return it."""
    names = [name for name in DashboardOptions.__struct_fields__ if name in given]
    return DashboardOptions(**{name: given.pop(name) for name in names})
