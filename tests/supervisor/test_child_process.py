"""Child process: what its supervisor reads of it."""

from __future__ import annotations

import asyncio
import socket

import pytest

from kue.supervisor import child_process
from kue.supervisor.child_process import ChildProcess
from kue.supervisor.protocol import MAX_LINE, Bye, encode
from tests.support.patience import PATIENCE_SECONDS


@pytest.fixture(autouse=True)
def _patient_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read for as long as a busy machine takes to write."""
    monkeypatch.setattr(child_process, "READ_SECONDS", PATIENCE_SECONDS)


async def exited_child() -> tuple[ChildProcess, socket.socket]:
    """Return a child that nobody has listened to so far, and its end of the link."""
    ours, theirs = socket.socketpair()
    process = await asyncio.create_subprocess_exec("true")
    theirs.setblocking(False)
    return ChildProcess(1, process, ours), theirs


async def test_the_last_message_is_read_of_a_child_that_cannot_be_written_to() -> None:
    child, link = await exited_child()
    with link:
        link.sendall(encode(Bye("asked")))

    child.leave(None)
    await child.serve()

    assert child.bye == Bye("asked")
    assert child.code == 0


async def test_a_message_is_read_that_arrives_in_parts() -> None:
    child, link = await exited_child()
    message = encode(Bye("drained"))

    serving = asyncio.create_task(child.serve())
    with link:
        for place in range(len(message)):
            link.sendall(message[place : place + 1])
            await asyncio.sleep(0)
    await serving

    assert child.bye == Bye("drained")


async def test_a_message_without_an_end_is_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    child, link = await exited_child()

    serving = asyncio.create_task(child.serve())
    with link:
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(link, b"x" * (MAX_LINE + 1))
    await serving

    assert "sent an invalid message" in caplog.text
    assert f"a message is longer than {MAX_LINE:,} bytes" in caplog.text
