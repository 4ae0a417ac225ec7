"""Health checks: what is answered, and to whom."""

from __future__ import annotations

import asyncio
import logging
import socket
from pathlib import Path

import pytest

from kue.model.errors import ConfigError
from kue.supervisor import health_endpoints as module
from kue.supervisor.health_check import SupervisorHealth
from kue.supervisor.health_endpoints import HealthFile, health_server
from kue.supervisor.options import ProcessCount

ONE = ProcessCount(now=1, least=1, most=1)
WELL = SupervisorHealth(live=True, ready=True, reasons=(), children=(), processes=ONE)
UNREADY = SupervisorHealth(
    live=True, ready=False, reasons=("stopping",), children=(), processes=ONE
)
DEAD = SupervisorHealth(
    live=False, ready=False, reasons=("no one is up",), children=(), processes=ONE
)


async def ask(port: int, request: str) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request.encode())
    writer.write_eof()
    answer = (await reader.read()).decode()
    writer.close()
    return answer


@pytest.mark.parametrize(
    ("condition", "request_line", "status"),
    [
        (WELL, "GET /healthz HTTP/1.1", "200 OK"),
        (WELL, "GET /readyz HTTP/1.1", "200 OK"),
        (WELL, "GET /readyz?verbose HTTP/1.1", "200 OK"),
        (UNREADY, "GET /healthz HTTP/1.1", "200 OK"),
        (UNREADY, "GET /readyz HTTP/1.1", "503 Service Unavailable"),
        (DEAD, "GET /healthz HTTP/1.1", "503 Service Unavailable"),
        (WELL, "GET / HTTP/1.1", "404 Not Found"),
        (WELL, "POST /healthz HTTP/1.1", "405 Method Not Allowed"),
        (WELL, "nonsense", "405 Method Not Allowed"),
    ],
)
async def test_the_answer_tells_how_it_is(
    condition: SupervisorHealth, request_line: str, status: str, unused_tcp_port: int
) -> None:
    async with health_server("127.0.0.1", unused_tcp_port, lambda: condition):
        answer = await ask(unused_tcp_port, f"{request_line}\r\nHost: a\r\n\r\n")

    assert answer.startswith(f"HTTP/1.1 {status}\r\n")


async def test_head_is_answered_without_a_body(unused_tcp_port: int) -> None:
    async with health_server("127.0.0.1", unused_tcp_port, lambda: WELL):
        answer = await ask(unused_tcp_port, "HEAD /readyz HTTP/1.1\r\n\r\n")

    assert answer.startswith("HTTP/1.1 200 OK")
    assert answer.endswith("\r\n\r\n")


async def test_a_client_that_says_nothing_is_let_go(
    unused_tcp_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "REQUEST_SECONDS", 0.05)
    async with health_server("127.0.0.1", unused_tcp_port, lambda: WELL):
        reader, writer = await asyncio.open_connection("127.0.0.1", unused_tcp_port)
        assert await reader.read() == b""
        writer.close()


async def test_a_port_that_is_taken_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(ConfigError, match="give another --health-port"):
            async with health_server("127.0.0.1", port, lambda: WELL):
                pass


def test_the_file_is_there_while_all_is_well(tmp_path: Path) -> None:
    path = tmp_path / "healthy"
    file = HealthFile(str(path))

    seen = []
    for condition in (WELL, UNREADY, UNREADY, WELL):
        file.show(condition)
        seen.append(path.exists())
    file.remove()

    assert seen == [True, False, False, True]
    assert not path.exists()


def test_a_file_that_cannot_be_written_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = HealthFile(str(tmp_path / "no such folder" / "healthy"))

    with caplog.at_level(logging.ERROR):
        file.show(WELL)
        file.show(WELL)

    [record] = caplog.records
    assert "the health file cannot be written" in record.getMessage()
