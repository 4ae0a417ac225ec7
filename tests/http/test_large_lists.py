"""Lists of large jobs: bounded in bytes and in number, over real connections."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from kue import Kue
from kue.http.framework.concurrent_reads import ReadLimit
from kue.http.framework.problem import Refused
from kue.model.draft import draft
from tests.support.jobs import add
from tests.support.patience import PATIENCE_SECONDS

SERVER = Path(__file__).parent / "large_lists_server.py"
COUNT, BYTES = 300, 250_000
CLIENTS, HANGING = 40, 45
#: Of memory, for all that is under way at once; without a bound it was 1.5 GB.
MAX_MB = 300


@pytest.fixture
def send_seconds() -> float:
    """How long clients may take to read an answer."""
    return 60


@pytest.fixture
def server(url: str, send_seconds: float) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, str(SERVER), url, str(send_seconds)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        yield process
        process.communicate(timeout=PATIENCE_SECONDS)
    finally:
        process.kill()


def port_of(server: subprocess.Popen[bytes]) -> int:
    assert server.stdout is not None
    return int(server.stdout.readline())


def peak_mb(server: subprocess.Popen[bytes]) -> int:
    status = Path(f"/proc/{server.pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) // 1024


def sockets(server: subprocess.Popen[bytes]) -> int:
    count = 0
    for file in Path(f"/proc/{server.pid}/fd").iterdir():
        # The server may close it in the meantime.
        with contextlib.suppress(FileNotFoundError):
            count += str(file.readlink()).startswith("socket:")
    return count


async def fill(q: Kue) -> None:
    for start in range(0, COUNT, 100):
        await add(
            q.store,
            [
                draft("email", {"i": i, "text": "x" * BYTES})
                for i in range(start, start + 100)
            ],
        )


async def test_many_lists_of_large_jobs_take_bounded_memory(
    q: Kue, server: subprocess.Popen[bytes]
) -> None:
    """S-2: 15 clients brought 503s and 840 MB, 40 brought 1.5 GB."""
    await fill(q)
    address = f"http://127.0.0.1:{port_of(server)}/api/v1/jobs"
    async with httpx.AsyncClient(timeout=120, verify=False) as client:
        # Not packed: what is measured is the lists, not the packing.
        headers = {"Accept-Encoding": "identity"}

        async def read() -> httpx.Response:
            params = {"limit": 200}
            async with client.stream(
                "GET", address, params=params, headers=headers
            ) as reply:
                # Only counted: forty lists are too large for this process as well.
                size = sum([len(part) async for part in reply.aiter_raw()])
            assert size < 10_000_000
            return reply

        replies = await asyncio.gather(*(read() for _ in range(CLIENTS)))
        assert {reply.status_code for reply in replies} <= {200, 429}
        assert any(reply.status_code == 200 for reply in replies)
        refused = [reply for reply in replies if reply.status_code == 429]
        assert all(reply.headers["Retry-After"] for reply in refused)
        assert peak_mb(server) < MAX_MB

        found: list[int] = []
        cursor: str | None = None
        while True:
            params = {"limit": "200"} | ({"cursor": cursor} if cursor else {})
            page = (await client.get(address, params=params, headers=headers)).json()
            found += [job["data"]["i"] for job in page["jobs"]]
            cursor = page["cursor"]
            if cursor is None:
                break
    assert found == list(range(COUNT - 1, -1, -1))


def hang(port: int) -> socket.socket:
    """Ask for a list, and do not read it."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect(("127.0.0.1", port))
    client.sendall(b"GET /api/v1/jobs?limit=200 HTTP/1.1\r\nHost: localhost\r\n\r\n")
    return client


@pytest.mark.parametrize("send_seconds", [0.5])
async def test_clients_that_do_not_read_take_bounded_memory_and_lose_their_slots(
    q: Kue, server: subprocess.Popen[bytes]
) -> None:
    await fill(q)
    port = port_of(server)
    address = f"http://127.0.0.1:{port}/api/v1/jobs"
    with contextlib.ExitStack() as stack:
        for _ in range(HANGING):
            stack.enter_context(hang(port))
        async with httpx.AsyncClient(timeout=120, verify=False) as client:
            # Behind all of them in line: it is answered when they are, or refused.
            status = 0
            while status != 200:
                reply = await client.get(address, params={"limit": 1})
                status = reply.status_code

        assert peak_mb(server) < MAX_MB
        async with asyncio.timeout(120):
            # They lose their connections, too.
            while sockets(server) >= HANGING // 3:  # noqa: ASYNC110 - nobody is told
                await asyncio.sleep(0.1)


async def test_a_read_that_waits_too_long_for_its_turn_is_refused() -> None:
    limit = ReadLimit(1, wait_seconds=0.01)
    is_over = asyncio.Event()

    async def endless() -> object:
        await is_over.wait()
        raise ValueError("it failed")

    first = asyncio.create_task(limit.answer(endless))  # type: ignore[arg-type]
    await asyncio.sleep(0)

    with pytest.raises(Refused, match="try again in a moment") as caught:
        await limit.answer(endless)  # type: ignore[arg-type]

    assert caught.value.headers == {"Retry-After": "1"}
    is_over.set()
    with pytest.raises(ValueError, match="it failed"):
        await first
    # The slot of a read that failed is free again.
    with pytest.raises(ValueError, match="it failed"):
        await limit.answer(endless)  # type: ignore[arg-type]
