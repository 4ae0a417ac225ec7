"""A server in a thread of its own, on a queue of its own, and a worker process."""

from __future__ import annotations

import asyncio
import os
import queue
import signal
import socket
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path

from starlette.applications import Starlette

from kue import Kue
from kue.http.server.serve import ServeOptions, serving
from kue.http.streaming.broadcast import EventBroadcast
from tests.support.patience import PATIENCE_SECONDS

HOST = "127.0.0.1"
_KUE = "from kue.cli import main; main()"
_HOME = Path(__file__).parents[2]


def listening(port: int = 0) -> socket.socket:
    """Return a socket that a server can take connections from."""
    listener = socket.create_server((HOST, port))
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


@contextmanager
def served(
    url: str, make: Callable[[Kue], Starlette], listener: socket.socket | None = None
) -> Iterator[str]:
    """
    Serve what *make* makes of a queue on *url*; yield the address.

    A *listener* that is given is left open; otherwise there is a port of its own.
    """
    started: queue.Queue[Callable[[], object]] = queue.Queue()
    # Servers close what they are given.
    with listener.dup() if listener else listening() as listener:
        thread = threading.Thread(
            target=lambda: asyncio.run(_serve(listener, url, make, started.put)),
            name="server of the browser tests",
        )
        thread.start()
        stop = started.get(timeout=PATIENCE_SECONDS)
        try:
            yield f"http://{HOST}:{listener.getsockname()[1]}"
        finally:
            stop()
            thread.join(PATIENCE_SECONDS)
            assert not thread.is_alive(), "the server does not stop"


async def _serve(
    listener: socket.socket,
    url: str,
    make: Callable[[Kue], Starlette],
    on_start: Callable[[Callable[[], object]], None],
) -> None:
    """Serve until what *on_start* is given is called, in whatever thread."""
    loop, stopping = asyncio.get_running_loop(), asyncio.Event()
    async with Kue(url) as q:
        app = make(q)
        if not hasattr(app.state, "live"):
            # A page of a test: it has no events.
            app.state.live = EventBroadcast(q)
        async with serving(app, listener, ServeOptions()):
            on_start(partial(loop.call_soon_threadsafe, stopping.set))
            await stopping.wait()


@asynccontextmanager
async def working(
    url: str, target: str = "tests.browser.tasks:q"
) -> AsyncIterator[None]:
    """Let ``kue worker`` run the jobs of *url*, in a process of its own."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _KUE, "worker", target, "--quiet"),
        cwd=_HOME,
        env={**os.environ, "KUE_URL": url},
    )
    try:
        async with Kue(url) as q, asyncio.timeout(PATIENCE_SECONDS):
            while not any(worker.alive for worker in await q.workers()):
                assert process.returncode is None, "the worker ended"
                await asyncio.sleep(0.05)
        yield
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(PATIENCE_SECONDS):
            await process.wait()
