"""Telling systemd: paths, abstract names, and nobody there."""

from __future__ import annotations

import os
import socket
import uuid
from pathlib import Path

import pytest

from kue.supervisor.systemd import SystemdNotifier


@pytest.fixture(params=["path", "abstract"])
def name(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "path":
        return str(tmp_path / "notify")
    return f"@kue-{uuid.uuid4().hex}"


def test_states_are_written_to_the_socket(name: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(name.replace("@", "\0", 1))
        notifier = SystemdNotifier({"NOTIFY_SOCKET": name})

        notifier.ready()
        notifier.status("all is well")
        notifier.status("all is well")
        notifier.alive()
        notifier.stopping()

        heard = [systemd.recv(100) for _ in range(3)]
        systemd.setblocking(False)
        with pytest.raises(BlockingIOError):
            systemd.recv(100)

    # The same status is not said twice, and nobody had asked for signs of life.
    assert heard == [b"READY=1", b"STATUS=all is well", b"STOPPING=1"]


@pytest.mark.parametrize("name", ["", "nonsense", "/nobody/listens/here"])
def test_without_a_listener_nothing_happens(name: str) -> None:
    SystemdNotifier({"NOTIFY_SOCKET": name}).ready()


@pytest.mark.parametrize(
    ("environ", "seconds"),
    [
        ({"WATCHDOG_USEC": "30000000"}, 30.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}, 30.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
        ({}, None),
    ],
)
def test_the_watchdog_is_that_of_this_process(
    environ: dict[str, str], seconds: float | None
) -> None:
    assert SystemdNotifier(environ).watchdog == seconds
