"""The application inside others: real servers of four frameworks, in processes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import websockets

from kue import Kue
from kue.http.auth.startup_token import VARIABLE
from kue.http.server.address import ListenAddress
from kue.http.server.serve import listen
from tests.project.test_docs import DOCS, examples
from tests.support.patience import PATIENCE_SECONDS

HOSTS = {
    example.title: example.source
    for example in examples(DOCS / "dashboard.md")
    if example.title
}
FRAMEWORKS = ["with_fastapi", "with_starlette", "with_litestar", "with_django"]
#: Where each mounts it, and a page of its own.
MOUNT, OWN = "/jobs", "/hello"
SECRET = "correct-horse-battery-staple"
BEARER = {"Authorization": f"Bearer {SECRET}"}
#: A server that waited for its streams would take for ever.
STOP_SECONDS = 10.0


class Host:
    """uvicorn, serving a program that has mounted the application."""

    def __init__(self, process: asyncio.subprocess.Process, port: int) -> None:
        self.process = process
        self.url = f"http://127.0.0.1:{port}"

    async def stop(self) -> int:
        """Have it stop, and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(STOP_SECONDS):
            return await self.process.wait()


@contextlib.asynccontextmanager
async def hosted(name: str, folder: Path, *options: str) -> AsyncIterator[Host]:
    """Run the example called *name* with uvicorn, as its readers are told to."""
    (folder / f"{name}.py").write_text(HOSTS[f"{name}.py"])
    with listen(ListenAddress.of("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "uvicorn", f"{name}:app", *options),
            *("--fd", str(listener.fileno())),
            cwd=folder,
            env=os.environ
            | {"KUE_URL": f"sqlite:///{folder}/kue.db", VARIABLE: SECRET},
            pass_fds=[listener.fileno()],
        )
    try:
        yield Host(process, port)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(timeout=PATIENCE_SECONDS, headers=BEARER) as client:
        yield client


@pytest.fixture
async def q(tmp_path: Path) -> AsyncIterator[Kue]:
    async with Kue(f"sqlite:///{tmp_path}/kue.db") as queue:
        yield queue


@pytest.mark.parametrize("name", FRAMEWORKS)
async def test_it_works_mounted_in(
    name: str, tmp_path: Path, q: Kue, client: httpx.AsyncClient
) -> None:
    async with hosted(name, tmp_path) as host:
        base = f"{host.url}{MOUNT}/api/v1"

        # Its own pages, and ours: read, changed, refused.
        own = await client.get(f"{host.url}{OWN}")
        made = await client.post(f"{base}/jobs", json={"type": "email"})
        seen = await client.get(f"{base}/jobs/{made.json()['id']}")
        missing = await client.get(f"{base}/jobs/99")
        listed = await client.get(f"{host.url}{MOUNT}/kue/stats")
        wrong = await client.post(f"{base}/jobs", json={"kind": "email"})

        assert (own.status_code, "hello" in own.text) == (200, True)
        assert (made.status_code, seen.json()["type"]) == (201, "email")
        assert missing.headers["content-type"] == "application/problem+json"
        assert (missing.status_code, wrong.status_code) == (404, 400)
        assert listed.status_code == 200

        # What happens, by stream and by WebSocket, until the server stops.
        link = f"{base.replace('http', 'ws', 1)}/events/ws"
        async with (
            client.stream("GET", f"{base}/events") as stream,
            websockets.connect(link, additional_headers=BEARER) as socket,
        ):
            lines = stream.aiter_lines()
            await _until(lines, '"state":"up"')
            assert "up" in json.loads(await socket.recv())["detail"]["state"]
            job = await q.enqueue("email")
            await _until(lines, f'"job_id":{job.id}')
            assert json.loads(await socket.recv())["job_id"] == job.id

            code = await host.stop()

            # To its proper end: one that was cut would raise.
            assert all(["error" not in line async for line in lines])
        assert code in (0, -signal.SIGTERM)


@pytest.mark.parametrize("name", FRAMEWORKS)
async def test_it_works_mounted_behind_a_proxy_that_strips_a_prefix_in(
    name: str, tmp_path: Path, q: Kue, client: httpx.AsyncClient
) -> None:
    async with hosted(name, tmp_path, "--root-path", "/ops") as host:
        # The proxy was asked for /ops/jobs/…, and leaves out what it is known by.
        answer = await client.get(f"{host.url}{MOUNT}/api/v1/queues")

        assert answer.status_code == 200
        assert answer.json()["queues"] == []


async def _until(lines: AsyncIterator[str], text: str) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        async for line in lines:
            if text in line:
                return
    raise AssertionError(f"the stream ended before {text}")
