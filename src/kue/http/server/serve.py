"""
HTTP server: serves an application by uvicorn, in the caller's event loop.

At shutdown event streams end first, because uvicorn waits for unfinished responses;
then the server.  The caller closes what the application works with.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import socket
import ssl
import stat
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import msgspec
import uvicorn
from starlette.applications import Starlette

from kue.aio.tasks import cancel_all, wait_for_first
from kue.http.auth.startup_token import without_token
from kue.http.framework.path_prefix import PathPrefix, checked
from kue.http.security.csrf import MAX_HEADERS
from kue.http.server.proxy_headers import ProxyHeaders
from kue.http.server.slow_clients import SlowBodyLimit, SlowClientProtocol
from kue.model.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from starlette.types import ASGIApp

    from kue.http.server.address import ListenAddress

#: Connections at once; more are answered with 503.
MAX_CONNECTIONS = 1_200
#: Bytes of a message from a WebSocket client; it is ignored.
MAX_WS_MESSAGE = 4 * 1024
#: Seconds that an idle connection is kept.
KEEP_ALIVE_SECONDS = 30
#: Seconds for responses that are unfinished when the server stops.
GRACE_SECONDS = 5
BACKLOG = 512


class ServeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How an application is served."""

    #: Its path, as browsers see it: ``/jobs``.
    prefix: str = ""
    #: Proxies whose X-Forwarded headers are trusted: addresses and networks.
    proxies: tuple[str, ...] = ()
    #: A certificate and its key, PEM; with them the server uses https.
    certfile: str | None = None
    keyfile: str | None = None
    #: Log a line for every request.
    access_log: bool = False

    @property
    def scheme(self) -> str:
        return "https" if self.certfile else "http"


def check(options: ServeOptions) -> None:
    """Raise `ConfigError` if the prefix, a proxy or the certificate is not valid."""
    _wrapped(Starlette(), options, is_unix=False)
    _context(options)


def listen(address: ListenAddress) -> socket.socket:
    """Return a listening socket."""
    listener = socket.socket(address.family, socket.SOCK_STREAM)
    try:
        _bind(listener, address)
        listener.listen(BACKLOG)
    except OSError as exc:
        listener.close()
        raise _cannot_listen(address, exc) from exc
    return listener


def _bind(listener: socket.socket, address: ListenAddress) -> None:
    if address.is_unix:
        _remove_stale(address.sockaddr)
        # No other user may open it, from the first moment on.
        before = os.umask(0o177)
        try:
            listener.bind(address.sockaddr)
        finally:
            os.umask(before)
        return
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Connections inherit it; asyncio sets it only for sockets that it created.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if address.family is socket.AF_INET6:
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    listener.bind(address.sockaddr)


def _remove_stale(path: str) -> None:
    """Remove the socket of a server that is gone; nothing else."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISSOCK(os.stat(path).st_mode):
            return
        with socket.socket(socket.AF_UNIX) as probe:
            if probe.connect_ex(path) == errno.ECONNREFUSED:
                os.unlink(path)


def _cannot_listen(address: ListenAddress, exc: OSError) -> ConfigError:
    if address.is_unix:
        return ConfigError(
            f"cannot listen on {address.sockaddr}: {exc.strerror}; give another --host"
        )
    port = address.sockaddr[1]
    if exc.errno == errno.EADDRINUSE:
        return ConfigError(
            f"port {port} is taken; choose another with --port, or any free one with "
            "--port 0"
        )
    if exc.errno == errno.EACCES:
        return ConfigError(
            f"port {port} needs rights that you do not have; choose one above 1023 "
            "with --port"
        )
    return ConfigError(
        f"cannot listen on {address.sockaddr[0]}:{port}: {exc.strerror}; give another "
        "--host or --port"
    )


@asynccontextmanager
async def serving(
    app: Starlette, listener: socket.socket, options: ServeOptions
) -> AsyncIterator[asyncio.Task[None]]:
    """
    Serve *app* for as long as the context lasts; yields the server's task.

    The socket is closed with it.
    """
    server = _server(app, listener, options)
    task = asyncio.create_task(server.serve([listener]), name="kue http")
    alerts = _start_alerts(app)
    try:
        await wait_for_first(server.is_up.wait(), task)
        if task.done():
            await task
        yield task
    finally:
        await cancel_all([alerts])
        await app.state.live.close()
        server.should_exit = True
        await task
        # Done by uvicorn, unless it never started.
        listener.close()


def _start_alerts(app: Starlette) -> asyncio.Task[None] | None:
    """Check thresholds for as long as *app* is served; one around ours has none."""
    monitor = getattr(app.state, "alert_monitor", None)
    if monitor is None:
        return None
    return asyncio.create_task(monitor.run(), name="kue alerts")


class _Server(uvicorn.Server):
    """A server that leaves signals to the owner of the event loop."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.is_up = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.is_up.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await super().shutdown(sockets)
        # A client that connected in that moment, or does not read its response.
        for connection in list(self.server_state.connections):
            connection.transport.abort()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _server(app: Starlette, listener: socket.socket, options: ServeOptions) -> _Server:
    config = uvicorn.Config(
        _wrapped(app, options, is_unix=listener.family is socket.AF_UNIX),
        lifespan="off",
        http=SlowClientProtocol,
        # The only one in newer versions; the default of older ones is deprecated.
        ws="websockets-sansio",
        log_config=None,
        log_level="warning",
        access_log=options.access_log,
        # Handled by `ProxyHeaders`, which supports prefixes, too.
        proxy_headers=False,
        server_header=False,
        limit_concurrency=MAX_CONNECTIONS,
        h11_max_incomplete_event_size=MAX_HEADERS,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=GRACE_SECONDS,
        backlog=BACKLOG,
        ws_max_size=MAX_WS_MESSAGE,
        # It would cost memory for every client, and most events are small.
        ws_per_message_deflate=False,
    )
    config.load()
    config.ssl = _context(options)
    if options.access_log:
        # Requests are logged at a level below that of errors.
        access = logging.getLogger("uvicorn.access")
        access.setLevel(logging.INFO)
        access.addFilter(_hide_token)
    return _Server(config)


def _hide_token(record: logging.LogRecord) -> bool:
    """Remove the start-up token from a line of the access log."""
    if isinstance(record.args, tuple):
        record.args = tuple(
            without_token(one) if isinstance(one, str) else one for one in record.args
        )
    return True


def _wrapped(app: ASGIApp, options: ServeOptions, *, is_unix: bool) -> ASGIApp:
    app = SlowBodyLimit(app)
    if prefix := checked(options.prefix):
        app = PathPrefix(prefix, app)
    if options.proxies or is_unix:
        app = ProxyHeaders(app, options.proxies, is_unix=is_unix)
    return app


def _context(options: ServeOptions) -> ssl.SSLContext | None:
    if options.certfile is None:
        if options.keyfile is not None:
            raise ConfigError("a key alone is not enough; give --certfile, too")
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(options.certfile, options.keyfile)
    except (OSError, ssl.SSLError) as exc:
        raise ConfigError(
            f"the certificate cannot be used: {exc}; check --certfile and --keyfile"
        ) from exc
    return context
