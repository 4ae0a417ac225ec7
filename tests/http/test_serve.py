"""Serving: in order from start to stop, and within limits."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import websockets
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from kue import Kue
from kue.http import create_app
from kue.http.auth.access import Anyone
from kue.http.security.csrf import MAX_HEADERS
from kue.http.server import serve
from kue.http.server.address import ListenAddress
from kue.http.server.serve import ServeOptions, check, listen, serving
from kue.http.server.slow_clients import SlowBodyLimit, SlowClientProtocol
from kue.model.errors import ConfigError
from tests.faults.certificates import Authority
from tests.support.patience import PATIENCE_SECONDS

HOST = "127.0.0.1"
HEALTH = "/api/v1/health"


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Serving does not depend on the engine."""
    return f"sqlite:///{tmp_path}/kue.db"


@asynccontextmanager
async def served(q: Kue, **options: Any) -> AsyncIterator[tuple[str, int]]:
    """Serve the application of *q* on a free port."""
    listener = listen(ListenAddress.of(HOST, 0))
    port: int = listener.getsockname()[1]
    async with serving(
        create_app(q, guard=Anyone()), listener, ServeOptions(**options)
    ):
        yield HOST, port


async def get(place: tuple[str, int], path: str = HEALTH) -> httpx.Response:
    async with httpx.AsyncClient(timeout=PATIENCE_SECONDS, verify=False) as client:
        return await client.get(f"http://{place[0]}:{place[1]}{path}")


async def said(place: tuple[str, int], text: bytes) -> bytes:
    """Say *text* and return what is answered until the server hangs up."""
    reader, writer = await asyncio.open_connection(*place)
    try:
        writer.write(text)
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await reader.read()
    finally:
        writer.close()
        await writer.wait_closed()


async def test_an_application_is_served_until_the_context_ends(q: Kue) -> None:
    async with served(q) as place:
        assert (await get(place)).status_code == 200

    with pytest.raises(httpx.ConnectError):
        await get(place)


def test_no_answer_waits_for_the_client_to_confirm_what_came_before() -> None:
    """Event loops see to that only for sockets they made themselves."""
    with listen(ListenAddress.of(HOST, 0)) as listener:
        assert listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


async def test_open_streams_end_when_the_server_stops(q: Kue) -> None:
    async with httpx.AsyncClient(timeout=PATIENCE_SECONDS, verify=False) as client:
        async with asyncio.timeout(PATIENCE_SECONDS), served(q) as place:
            stream = client.stream("GET", f"http://{HOST}:{place[1]}/api/v1/events")
            answer = await stream.__aenter__()
            lines = answer.aiter_lines()
            assert await anext(lines) == "retry: 1000"

        # To its proper end: a connection that was cut would raise.
        assert all(["error" not in line async for line in lines])
        await stream.__aexit__(None, None, None)


async def test_open_websockets_end_when_the_server_stops(q: Kue) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS), served(q) as place:
        link = f"ws://{HOST}:{place[1]}/api/v1/events/ws"
        listening = await websockets.connect(link)
        assert await listening.recv()

    await listening.wait_closed()
    assert listening.close_code is not None


async def test_an_answer_under_way_is_finished(q: Kue) -> None:
    app = create_app(q, guard=Anyone())
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow(request: Any) -> Any:
        begun.set()
        await go_on.wait()
        return PlainTextResponse("done")

    # Before the pages, which take what nobody else does.
    app.router.routes.insert(0, Route("/slow", slow))
    listener = listen(ListenAddress.of(HOST, 0))
    place = (HOST, listener.getsockname()[1])
    async with serving(app, listener, ServeOptions()):
        asking = asyncio.create_task(get(place, "/slow"))
        await begun.wait()
        asyncio.get_running_loop().call_later(0.2, go_on.set)

    assert (await asking).text == "done"


async def test_no_connection_outlives_the_server(
    q: Kue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve, "GRACE_SECONDS", 0.05)
    app = create_app(q, guard=Anyone())
    much = "x" * 50_000_000
    app.router.routes.insert(0, Route("/much", lambda _: PlainTextResponse(much)))
    listener = listen(ListenAddress.of(HOST, 0))
    place = (HOST, listener.getsockname()[1])
    async with asyncio.timeout(PATIENCE_SECONDS):
        async with serving(app, listener, ServeOptions()):
            reader, writer = await asyncio.open_connection(*place)
            writer.write(b"GET /much HTTP/1.1\r\nHost: localhost\r\n\r\n")
            read = await reader.read(1000)

        with contextlib.suppress(ConnectionResetError):
            while some := await reader.read(1_000_000):
                read += some
    writer.close()
    assert len(read) < len(much)


async def test_a_prefix_may_be_in_the_path_or_not(q: Kue) -> None:
    async with served(q, prefix="/jobs") as place:
        kept = await get(place, f"/jobs{HEALTH}")
        stripped = await get(place)

    assert (kept.status_code, stripped.status_code) == (200, 200)


async def test_headers_that_are_too_long_are_refused(q: Kue) -> None:
    async with served(q) as place:
        text = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Long: " + b"x" * 2 * MAX_HEADERS
        answer = await said(place, text)

    assert answer.startswith(b"HTTP/1.1 400")


async def test_a_client_that_never_gets_to_the_end_of_its_headers_is_hung_up_on(
    q: Kue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SlowClientProtocol, "header_seconds", 0.2)
    async with served(q) as place:
        silent = await said(place, b"")
        half = await said(place, b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ")

    assert (silent, half) == (b"", b"")


async def test_nor_is_a_second_request_waited_for_without_end(
    q: Kue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SlowClientProtocol, "header_seconds", 0.2)
    async with served(q) as place, asyncio.timeout(PATIENCE_SECONDS):
        reader, writer = await asyncio.open_connection(*place)
        writer.write(f"GET {HEALTH} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        assert b"200" in await reader.readline()
        writer.write(b"GET / HTTP/1.1\r\nHos")
        await reader.read()
        writer.close()
        await writer.wait_closed()


async def test_a_stream_outlives_the_time_for_headers(
    q: Kue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SlowClientProtocol, "header_seconds", 0.1)
    async with (
        served(q) as place,
        websockets.connect(f"ws://{HOST}:{place[1]}/api/v1/events/ws") as socket,
        httpx.AsyncClient(timeout=PATIENCE_SECONDS, verify=False) as client,
        client.stream("GET", f"http://{HOST}:{place[1]}/api/v1/events") as answer,
    ):
        lines = answer.aiter_lines()
        assert await anext(lines) == "retry: 1000"
        assert "up" in str(await socket.recv())
        # Time must pass: that nothing happens announces itself to nobody.
        await asyncio.sleep(0.3)
        job = await q.enqueue("email")

        async for line in lines:
            if f'"job_id":{job.id}' in line:
                break
        assert f'"job_id":{job.id}' in str(await socket.recv())


async def test_a_body_that_does_not_come_is_refused() -> None:
    async def stuck() -> Any:
        await asyncio.Event().wait()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()

    async def send(message: Any) -> None:
        raise AssertionError(message)

    prompt = SlowBodyLimit(app, seconds=0.05)

    with pytest.raises(Exception, match="did not arrive within"):
        await prompt({"type": "http"}, stuck, send)


async def test_a_body_that_does_not_come_is_answered_with_408(
    q: Kue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SlowBodyLimit.__init__, "__kwdefaults__", {"seconds": 0.2})
    async with served(q) as place:
        head = (
            "POST /api/v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n"
            "Content-Type: application/json\r\n\r\n{"
        )
        answer = await said(place, head.encode())

    assert answer.startswith(b"HTTP/1.1 408")
    assert b"application/problem+json" in answer


async def test_the_server_does_not_tell_what_it_is(q: Kue) -> None:
    async with served(q) as place:
        answer = await get(place)

    assert "server" not in answer.headers


async def test_a_certificate_makes_it_https(q: Kue, tmp_path: Path) -> None:
    authority = Authority(tmp_path, "ours")
    certificate, key = authority.sign(HOST)
    options = {"certfile": str(certificate), "keyfile": str(key)}
    trust = ssl.create_default_context(cafile=str(authority.certificate))

    async with (
        served(q, **options) as place,
        httpx.AsyncClient(verify=trust) as client,
    ):
        answer = await client.get(f"https://{HOST}:{place[1]}{HEALTH}")

    assert answer.status_code == 200


async def test_a_socket_in_the_file_system_is_served(q: Kue, tmp_path: Path) -> None:
    path = tmp_path / "kue.sock"
    listener = listen(ListenAddress.of(f"unix:{path}", 0))
    transport = httpx.AsyncHTTPTransport(uds=str(path))

    async with (
        serving(create_app(q, guard=Anyone()), listener, ServeOptions()),
        httpx.AsyncClient(transport=transport) as client,
    ):
        answer = await client.get(f"http://localhost{HEALTH}")

    assert answer.status_code == 200


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prefix": "/a b"}, "is not a plain path"),
        ({"proxies": ("nginx",)}, "is not an address"),
        ({"keyfile": "key.pem"}, "give --certfile, too"),
        ({"certfile": "nowhere.pem"}, "the certificate cannot be used"),
    ],
)
def test_what_makes_no_sense_is_told_before_anything_starts(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        check(ServeOptions(**options))


@pytest.mark.parametrize(
    ("proxy", "path", "seen"),
    [
        (HOST, "/api/nothing", "/ops/api/nothing"),
        (HOST, "/ops/api/nothing", "/ops/api/nothing"),
        ("10.0.0.1", "/api/nothing", "/api/nothing"),
    ],
)
async def test_a_proxy_says_where_it_is_if_it_is_believed(
    proxy: str, path: str, seen: str, q: Kue
) -> None:
    headers = {"X-Forwarded-Prefix": "/ops"}
    async with (
        served(q, proxies=(proxy,)) as place,
        httpx.AsyncClient(headers=headers, verify=False) as client,
    ):
        missing = await client.get(f"http://{HOST}:{place[1]}{path}")

    assert missing.json()["detail"] == f"there is no GET {seen}"


# -- S-8: requests that are not what they should be ------------------------------

HEAD = "POST /api/v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\n"
JSON = "Content-Type: application/json\r\n"


async def test_s_8_headers_that_are_too_long_are_refused_even_if_they_come_at_once(
    q: Kue,
) -> None:
    # Each is short, and all come in one piece: no parser waits for the rest.
    many = "".join(f"X-{number}: {'x' * 1000}\r\n" for number in range(84))
    async with served(q) as place:
        text = f"GET {HEALTH} HTTP/1.1\r\nHost: 127.0.0.1\r\n{many}\r\n"
        answer = await said(place, text.encode())

    assert answer.startswith((b"HTTP/1.1 431", b"HTTP/1.1 400"))


async def test_s_8_a_request_with_two_lengths_ends_its_connection(q: Kue) -> None:
    async with served(q) as place:
        both = "Content-Length: 15\r\nTransfer-Encoding: chunked\r\n"
        body = 'f\r\n{"type": "mail"}\r\n0\r\n\r\n'
        smuggled = f"GET {HEALTH} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        # `said` returns once the server has hung up.
        answer = await said(place, f"{HEAD}{JSON}{both}\r\n{body}{smuggled}".encode())

    assert answer.startswith(b"HTTP/1.1 400")
    assert answer.count(b"HTTP/1.1 ") == 1
    assert await q.counts_by_type() == {}


async def test_s_8_a_body_that_is_declared_too_large_is_refused_at_once(
    q: Kue, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nothing of it is waited for: this would be another answer.
    monkeypatch.setattr(SlowBodyLimit.__init__, "__kwdefaults__", {"seconds": 0.0})
    async with served(q) as place:
        length = "Content-Length: 100000000\r\n"
        answer = await said(place, f"{HEAD}{JSON}{length}\r\n{{".encode())

    assert answer.startswith(b"HTTP/1.1 413")
    assert b"connection: close" in answer.lower()


@pytest.mark.parametrize("path", ["/api/v1/jobs", "/kue/job"])
async def test_s_8_a_client_that_leaves_amid_its_body_is_no_fault(
    q: Kue, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with served(q) as place:
        _, writer = await asyncio.open_connection(*place)
        head = HEAD.replace("/api/v1/jobs", path)
        writer.write(f"{head}{JSON}Content-Length: 100\r\n\r\n{{".encode())
        await writer.drain()
        writer.close()
        await writer.wait_closed()
        # Stopping waits for the answer that nobody reads.

    assert [record for record in caplog.records if record.levelname == "ERROR"] == []
    assert (await q.store.acts()).acts == []
