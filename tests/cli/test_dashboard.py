"""``kue dashboard``: it serves the right queue, stops in order, and is not exposed."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from http import HTTPStatus
from pathlib import Path

import click
import httpx
import pytest

import kue
from kue.cli.commands.dashboard import dashboard
from kue.http.auth import Role
from kue.http.auth.users import UserAccounts
from kue.http.server.address import ListenAddress
from kue.http.server.serve import listen
from tests.cli.test_main import exit_code
from tests.support.patience import PATIENCE_SECONDS
from tests.support.site import APP, Command, command, get


@pytest.fixture
async def folder(tmp_path: Path) -> Path:
    """A folder with an app and a store that has one job."""
    (tmp_path / "app.py").write_text(APP)
    async with kue.Kue(f"sqlite:///{tmp_path}/kue.db") as q:
        await q.enqueue("email", {"to": "ann"})
    return tmp_path


def dashboard_of(folder: Path, *options: str) -> AbstractAsyncContextManager[Command]:
    """Serve a dashboard on a free port, in *folder*."""
    return command("dashboard", *options, "--port", "0", folder=folder)


async def add_user(folder: Path) -> None:
    async with kue.Kue(f"sqlite:///{folder}/kue.db") as q:
        await UserAccounts(q.store).add("ann", "correct horse battery", Role.ADMIN)


@asynccontextmanager
async def client_of(site: Command) -> AsyncIterator[httpx.AsyncClient]:
    """Yield a client that has the start-up token."""
    headers = await site.headers()
    async with httpx.AsyncClient(
        timeout=PATIENCE_SECONDS, headers=headers, verify=False
    ) as client:
        yield client


@pytest.mark.parametrize(
    "target", [(), ("sqlite:///kue.db",), ("--url", "sqlite:///kue.db"), ("app:q",)]
)
async def test_the_queue_is_found_as_by_every_command(
    target: tuple[str, ...], folder: Path
) -> None:
    async with dashboard_of(folder, *target) as site:
        jobs = await site.get("api/v1/jobs?state=waiting")
        code = await site.end()

    assert [job["type"] for job in jobs.json()["jobs"]] == ["email"]
    assert code == 0
    assert "Traceback" not in site.said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_ends_it_with_its_streams(
    number: signal.Signals, folder: Path
) -> None:
    async with (
        dashboard_of(folder) as site,
        client_of(site) as client,
        client.stream("GET", f"{await site.url()}api/v1/events") as stream,
    ):
        lines = stream.aiter_lines()
        assert await anext(lines) == "retry: 1000"

        code = await site.end(number)

        # To its proper end: one that was cut would raise.
        assert all(["error" not in line async for line in lines])
    assert code == 0


async def test_a_prefix_is_part_of_the_address(folder: Path) -> None:
    async with dashboard_of(folder, "--prefix", "ops/jobs") as site:
        url = await site.url()
        health = await get(f"{url}api/v1/health")

    assert url.endswith("/ops/jobs/")
    assert health.status_code == 200


@pytest.mark.parametrize("options", [(), ("--access-log",)])
async def test_requests_are_logged_on_request(
    options: tuple[str, ...], folder: Path
) -> None:
    async with dashboard_of(folder, *options) as site:
        await get(f"{await site.url()}api/v1/health")
        await site.end()

    assert ('"GET /api/v1/health HTTP/1.1" 200' in site.said) is bool(options)


async def test_read_only_refuses_changes(folder: Path) -> None:
    async with (
        dashboard_of(folder, "--read-only") as site,
        client_of(site) as client,
    ):
        url = await site.url()
        changed = await client.post(f"{url}api/v1/jobs", json={"type": "email"})
        seen = await client.get(f"{url}api/v1/jobs")

    assert (changed.status_code, seen.status_code) == (403, 200)


async def test_a_store_that_is_away_is_waited_for(folder: Path) -> None:
    url = "redis://ann:secret@127.0.0.1:1/0"
    async with dashboard_of(folder, url) as site:
        queues = await site.get("api/v1/queues")

    assert queues.status_code == 503
    assert "the dashboard waits for it" in site.said
    assert "secret" not in site.said


def test_an_address_that_others_reach_needs_a_user(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder)

    assert exit_code("dashboard", "--host", "0.0.0.0", "--port", "0") == 2

    told = capfd.readouterr().err
    assert "other machines can reach 0.0.0.0" in told
    assert (
        "\n       kue user add NAME --role admin\n       kue dashboard --host" in told
    )
    assert "kue dashboard --host 0.0.0.0\n" in told


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--prefix", "/a b"), "is not a plain path"),
        (("--proxy", "nginx"), "is not an address"),
        (("--keyfile", "key.pem"), "give --certfile, too"),
        (("--host", "nobody.invalid"), "there is no host 'nobody.invalid'"),
        (("nothing:q",), "there is no module 'nothing'"),
        (("sqlite:///nothing.db",), "there is no store"),
        (("--port", "99999"), "99999 is not in the range"),
    ],
)
def test_wrong_use_is_told_in_a_line_and_exits_with_2(
    arguments: tuple[str, ...],
    message: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder)

    assert exit_code("dashboard", *arguments) == 2

    [line] = capsys.readouterr().err.splitlines()
    assert message in line


async def test_a_port_that_is_taken_is_told(folder: Path) -> None:
    with listen(ListenAddress.of("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        async with command("dashboard", "--port", port, folder=folder) as site:
            code = await site.ended()

    assert code == 2
    assert f"kue: port {port} is taken; choose another with --port" in site.said


async def test_code_that_fails_is_shown(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("import kue\nq = kue.Kue()\n1 / 0\n")
    async with command("dashboard", "app:q", folder=tmp_path) as site:
        code = await site.ended()

    assert code == 2
    assert "    1 / 0" in site.said
    assert "kue: importing 'app' failed: ZeroDivisionError" in site.said


def test_every_option_has_a_variable_and_help() -> None:
    options = [
        param
        for param in dashboard.params
        if isinstance(param, click.Option)
        and param.name not in ("url_option", "connection_option")
    ]

    assert [option.name for option in options if not option.help] == []
    for option in options:
        name = option.opts[0].removeprefix("--").replace("-", "_").upper()
        assert option.envvar == f"KUE_DASHBOARD_{name}"


async def eventually(site: Command, path: str, status: HTTPStatus) -> None:
    """Ask until the answer has *status*."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        answer = await site.get(path)
        while answer.status_code != status:
            answer = await site.get(path)


async def test_once_there_are_users_they_log_in_wherever_it_listens(
    folder: Path,
) -> None:
    await add_user(folder)
    async with dashboard_of(folder, "--host", "0.0.0.0") as site:
        queues = await get(f"{await site.url()}api/v1/queues")

    assert queues.status_code == 401


async def test_the_first_user_closes_a_dashboard_that_was_open_to_this_machine(
    folder: Path,
) -> None:
    async with dashboard_of(folder) as site:
        before = await site.get("api/v1/queues")
        await add_user(folder)
        await eventually(site, "api/v1/queues", HTTPStatus.UNAUTHORIZED)

    assert before.status_code == HTTPStatus.OK


@pytest.mark.parametrize(
    ("options", "where"),
    [
        (("--proxy", "127.0.0.1"), "can reach the proxy 127.0.0.1"),
        (("--allow-host", "ops.example.com"), "can reach ops.example.com"),
    ],
)
async def test_behind_a_proxy_there_must_be_a_user(
    folder: Path, options: tuple[str, ...], where: str
) -> None:
    """It is on this machine, and so is the proxy; those who ask need not be."""
    async with dashboard_of(folder, *options) as site:
        code = await site.ended()

    assert code == 2
    assert where in site.said
    assert f"kue dashboard {' '.join(options)}" in site.said


async def test_a_name_that_was_not_allowed_is_refused(folder: Path) -> None:
    await add_user(folder)
    async with (
        dashboard_of(folder, "--allow-host", "ops.example.com") as site,
        httpx.AsyncClient(timeout=PATIENCE_SECONDS, verify=False) as client,
    ):
        url = f"{await site.url()}api/v1/queues"
        known = await client.get(url, headers={"Host": "ops.example.com"})
        unknown = await client.get(url, headers={"Host": "evil.example"})

    assert (known.status_code, unknown.status_code) == (401, 421)


async def test_two_of_them_can_watch_one_store(folder: Path) -> None:
    async with (
        dashboard_of(folder) as one,
        dashboard_of(folder) as other,
    ):
        answers = [await site.get("api/v1/queues") for site in (one, other)]

    assert [answer.status_code for answer in answers] == [200, 200]
