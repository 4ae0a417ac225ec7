"""What ``kue worker`` shows of itself: banner, names, logs, health, systemd."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sqlite3
from contextlib import closing
from pathlib import Path

from tests.faults.conftest import NewServer
from tests.faults.supervised import Shift, get, patiently
from tests.support.patience import PATIENCE_SECONDS


async def test_the_banner_shows_what_is_worked_on_and_how_to_stop(
    lone: Shift,
) -> None:
    async with lone.start("--burst", "--processes", "2", "--types", "nap") as workers:
        await workers.ended()

    shown = "\n".join(workers.log)
    for text in (
        "works on",
        "SQLite",
        "jobs survive a crash",
        "2 × 20 jobs at once",
        "nap × 20 (loop)",
        "Ctrl-C or SIGTERM: jobs may end within 30 s",
    ):
        assert text in shown
    assert "hold ×" not in shown


async def test_processes_have_names_in_the_process_list(lone: Shift) -> None:
    async with lone.start(target=f"{lone.write()}:q") as workers:
        await workers.up()
        [child] = workers.children()
        names = [title(workers.pid), title(child)]

    assert names == ["kue worker small.py:q (supervisor)", "kue worker small.py:q #1"]


def title(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").decode()


async def test_health_is_reported_by_a_port_and_a_file(
    lone: Shift, unused_tcp_port: int
) -> None:
    file = lone.folder / "healthy"
    options = ("--health-file", str(file), "--health-port", str(unused_tcp_port))
    async with lone.start(*options) as workers:
        await workers.up()
        await patiently(file.exists)
        ready = await get(unused_tcp_port, "/readyz")
        [child] = workers.children()

        lone.freeze(child)
        await patiently(lambda: not file.exists())
        frozen = await get(unused_tcp_port, "/readyz")
        live = await get(unused_tcp_port, "/healthz")
        unknown = await get(unused_tcp_port, "/secrets")

        os.kill(child, signal.SIGCONT)
        await patiently(file.exists)
        assert await workers.stopped() == 0

    assert (ready[0], ready[1]["ready"], ready[1]["reasons"]) == (200, True, [])
    [condition] = ready[1]["children"]
    assert (condition["pid"], condition["state"]) == (child, "working")
    assert condition["status"]["pid"] == child
    assert (frozen[0], frozen[1]["reasons"]) == (503, ["process #1 is frozen"])
    assert (live[0], unknown[0]) == (200, 404)
    assert not file.exists()


async def test_a_damaged_store_makes_it_unready_and_is_logged(
    lone: Shift, unused_tcp_port: int
) -> None:
    """R-6: one garbled row of limits is neither an outage nor silence."""
    file = lone.folder / "healthy"
    options = ("--health-file", str(file), "--health-port", str(unused_tcp_port))
    async with lone.start(*options) as workers:
        await workers.up()
        await patiently(file.exists)

        change(lone, "INSERT INTO limits VALUES ('nap', '{\"rate\": \"many\"}', 0, 0)")
        [job_id] = await lone.add("nap")
        await patiently(lambda: not file.exists())
        damaged = await get(unused_tcp_port, "/readyz")
        said = await workers.logged("ERROR", "StoreCorrupt")

        change(lone, "DELETE FROM limits")
        await lone.ended(job_id)
        await patiently(file.exists)
        assert await workers.stopped() == 0

    assert damaged[0] == 503
    assert any("process #1 fails: " in reason for reason in damaged[1]["reasons"])
    assert "is repeated until it succeeds" in said
    # With the first traceback in full, and not again and again.
    assert sum("Traceback" in line for line in workers.log) <= 4


def change(lone: Shift, sql: str) -> None:
    path = lone.url.removeprefix("sqlite:///")
    with closing(sqlite3.connect(path, timeout=30)) as db, db:
        db.execute(sql)


async def test_systemd_is_notified_of_every_turn(lone: Shift) -> None:
    path = str(lone.folder / "notify")
    environ = {"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "1000000"}
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(path)
        systemd.setblocking(False)
        async with lone.start(environ=environ) as workers:
            await received(systemd, "READY=1")
            await received(systemd, "STATUS=1 processes, 0 jobs running, 0 done")
            await received(systemd, "WATCHDOG=1")
            workers.signal(signal.SIGHUP)
            await received(systemd, "RELOADING=1\nMONOTONIC_USEC=")
            await received(systemd, "READY=1")
            workers.signal(signal.SIGTERM)
            await received(systemd, "STOPPING=1")
            assert await workers.ended() == 0


async def received(systemd: socket.socket, state: str) -> None:
    """Wait for a datagram that begins with *state*."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not (await loop.sock_recv(systemd, 4096)).decode().startswith(state):
            pass


async def test_logs_can_be_json(lone: Shift) -> None:
    await lone.add("nap")
    async with lone.start("--burst", "--log-format", "json", "-v") as workers:
        await workers.ended()

    records = [json.loads(line) for line in workers.log]
    assert {record["level"] for record in records} >= {"info", "debug"}
    assert {record["process"] for record in records} == {"supervisor", "#1"}
    [started] = [r for r in records if "works on" in r["message"]]
    assert "nap × 20 (loop)" in started["message"]
    assert all(r["worker"] for r in records if r["process"] == "#1")


async def test_credentials_are_neither_shown_nor_logged(
    lone: Shift, new_server: NewServer
) -> None:
    server = new_server()
    with closing(server.client()) as client:
        client.acl_setuser(
            "ann",
            enabled=True,
            passwords=["+open-sesame"],
            keys=["*"],
            channels=["*"],
            categories=["+@all"],
        )
    url = server.url.replace("redis://", "redis://ann:open-sesame@")
    async with lone.start("-v", environ={"KUE_URL": url}) as workers:
        await workers.up()
        shown = [title(pid) for pid in (workers.pid, *workers.children())]
        assert await workers.stopped() == 0

    assert "open-sesame" not in "\n".join([*shown, *workers.log])
