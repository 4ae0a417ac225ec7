"""Dashboard options, shared by ``kue dashboard`` and ``kue up``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from kue.cli.params import options

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., Any]")

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


def _option(*names: str, **settings: Any) -> Callable[[F], F]:
    """Return a click option with the environment variable KUE_DASHBOARD_<NAME>."""
    name = names[0].removeprefix("--").replace("-", "_")
    return click.option(
        *names, envvar=f"KUE_DASHBOARD_{name.upper()}", show_envvar=True, **settings
    )


#: The options of a `DashboardOptions`, and ``--open``.
dashboard_options = options(
    _option(
        "--host",
        default=HOST,
        show_default=True,
        help="Where to listen: an address, a name, or unix:/path/to/socket.  "
        "Anything but localhost requires a user: kue user add.",
    ),
    _option(
        "--port",
        type=click.IntRange(0, 65535),
        default=PORT,
        show_default=True,
        help="Which port; 0 picks a free one.",
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


def pop_dashboard_options(given: dict[str, Any]) -> DashboardOptions:
    """Remove the options of a `DashboardOptions` from *given*, and return it."""
    names = [name for name in DashboardOptions.__struct_fields__ if name in given]
    return DashboardOptions(**{name: given.pop(name) for name in names})
