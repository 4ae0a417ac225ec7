"""A real server on a free port, for a queue on each engine."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from starlette import routing
from starlette.types import ASGIApp

from kue import Kue
from kue.http import create_app
from kue.http.auth import Role
from kue.http.auth.access import Anyone
from tests.support.patience import PATIENCE_SECONDS, until
from tests.support.servers import RedisServer

#: Thousands of applications have the same two hundred paths; a program has one.
routing.compile_path = cache(routing.compile_path)
HOST = "127.0.0.1"
ROLES = {role.name.lower(): role for role in Role}


@asynccontextmanager
async def serving(app: ASGIApp) -> AsyncIterator[str]:
    """Serve *app* and yield its address."""
    with socket.create_server((HOST, 0)) as listener:
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        port = listener.getsockname()[1]
        config = uvicorn.Config(
            app,
            lifespan="off",
            # Set up for each server of each test, it would take as long as a request.
            log_config=None,
            log_level="warning",
            ws="auto",
            access_log=False,
        )
        config.load()
        server = uvicorn.Server(config)
        server.lifespan = config.lifespan_class(config)
        # Not serve(), which looks only ten times a second whether it is to stop.
        await server.startup(sockets=[listener])
        try:
            yield f"http://{HOST}:{port}"
        finally:
            await _stop(server)


async def _stop(server: uvicorn.Server) -> None:
    """Do as `Server.shutdown` does, which sleeps before it looks."""
    for one in server.servers:
        one.close()
    state = server.server_state
    for connection in list(state.connections):
        connection.shutdown()
    await until(lambda: not (state.connections or state.tasks))


class Http:
    """Starts servers for a queue, and gives clients of them."""

    def __init__(self, q: Kue) -> None:
        self.q = q

    @asynccontextmanager
    async def client(
        self, role: str = "admin", **options: Any
    ) -> AsyncIterator[httpx.AsyncClient]:
        """Yield a client of the whole application, whose user has *role*."""
        app = create_app(self.q, guard=Anyone(ROLES[role]), **options)
        async with self.client_of(app) as client:
            yield client

    def client_of(self, app: ASGIApp) -> AbstractAsyncContextManager[httpx.AsyncClient]:
        """Yield a client of *app*; paths are those below ``/api/v1``."""
        return _client_of(app)


@asynccontextmanager
async def _client_of(app: ASGIApp) -> AsyncIterator[httpx.AsyncClient]:
    async with (
        serving(app) as address,
        # Reading certificates would take longer than most tests.
        httpx.AsyncClient(
            base_url=f"{address}/api/v1", timeout=PATIENCE_SECONDS, verify=False
        ) as client,
    ):
        yield client


@pytest.fixture(params=["sqlite", "redis"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where the jobs of a test are kept."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/kue.db"
    server: RedisServer = request.getfixturevalue("redis_server")
    server.empty()
    return server.url


@pytest.fixture
async def q(url: str) -> AsyncIterator[Kue]:
    async with Kue(url) as queue:
        yield queue


@pytest.fixture
def http(q: Kue) -> Http:
    return Http(q)


@pytest.fixture
async def client(http: Http) -> AsyncIterator[httpx.AsyncClient]:
    """A client of someone who may do everything."""
    async with http.client() as client:
        yield client


@pytest.fixture
async def lost() -> AsyncIterator[httpx.AsyncClient]:
    """A client of a server whose store is away."""
    with socket.create_server((HOST, 0)) as listener:
        port = listener.getsockname()[1]
    async with (
        Kue(f"redis://{HOST}:{port}", budget="200ms") as queue,
        Http(queue).client() as client,
    ):
        yield client
