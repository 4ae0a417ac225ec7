"""A server in a thread of its own, on a queue of its own, and a worker process."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import uvicorn
from starlette.applications import Starlette

from kue import Kue

HOST = "127.0.0.1"
#: Seconds for a server or a worker to come up or go away.
PATIENCE = 50
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
    # Servers close what they are given.
    with listener.dup() if listener else listening() as listener:
        server = uvicorn.Server(
            uvicorn.Config(
                lambda: None, lifespan="off", log_level="warning", access_log=False
            )
        )
        is_up = threading.Event()
        thread = threading.Thread(
            target=lambda: asyncio.run(_serve(server, listener, url, make, is_up)),
            name="server of the browser tests",
        )
        thread.start()
        try:
            assert is_up.wait(PATIENCE), "the server does not come up"
            yield f"http://{HOST}:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(PATIENCE)
            assert not thread.is_alive(), "the server does not stop"


async def _serve(
    server: uvicorn.Server,
    listener: socket.socket,
    url: str,
    make: Callable[[Kue], Starlette],
    is_up: threading.Event,
) -> None:
    async with Kue(url) as q:
        app = make(q)
        server.config.app = app
        task = asyncio.create_task(server.serve([listener]))
        while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(0.005)
        is_up.set()
        while not server.should_exit:  # noqa: ASYNC110 - a thread sets it
            await asyncio.sleep(0.02)
        # A stream that is open would keep the server from stopping.
        if hasattr(app.state, "live"):
            await app.state.live.close()
        await task


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
        async with Kue(url) as q, asyncio.timeout(PATIENCE):
            while not any(worker.alive for worker in await q.workers()):
                assert process.returncode is None, "the worker ended"
                await asyncio.sleep(0.05)
        yield
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(PATIENCE):
            await process.wait()
