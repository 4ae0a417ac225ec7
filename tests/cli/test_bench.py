"""``kue bench``: it measures a real store, and leaves it as it was."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from kue import Kue
from tests.cli.processes import start_kue
from tests.cli.test_main import exit_code
from tests.support.patience import PATIENCE_SECONDS
from tests.support.servers import RedisCluster, RedisServer, wait_until

NAMES = {
    *("add_bulk", "add_gather", "add_one", "drain", "io"),
    *("p50_ms", "p99_ms", "bytes"),
}


@pytest.fixture(autouse=True)
def few_pings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kue.cli.commands.bench.PINGS", 5)
    monkeypatch.setattr("kue.cli.commands.bench_store.WEIGHED", 200)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    """A Redis with somebody's key in it."""
    server = RedisServer(tmp_path)
    with closing(server.client()) as client:
        client.set("theirs", "1")
    yield server
    server.stop()


def keys(server: RedisServer) -> set[bytes]:
    # A scan may return a key twice.
    with closing(server.client()) as client:
        return {bytes(key) for key in client.scan_iter()}


def test_a_redis_is_measured_and_left_as_it_was(
    redis_server: RedisServer, capsys: pytest.CaptureFixture[str]
) -> None:
    before = keys(redis_server)

    assert exit_code("bench", redis_server.url, "--jobs", "60", "--json") == 0

    captured = capsys.readouterr()
    result = json.loads(captured.out)
    assert result["store"] == f"redis://{redis_server.address}"
    assert result["figures"].keys() == NAMES
    assert all(value > 0 for value in result["figures"].values())
    assert 150 < result["figures"]["bytes"] < 400
    assert result["figures"]["p50_ms"] <= result["figures"]["p99_ms"]
    assert "this puts load on it for up to a minute" in captured.err
    assert keys(redis_server) == before


def test_shards_and_clusters_are_measured_and_cleared_alike(
    redis_cluster: RedisCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {key for server in redis_cluster.servers for key in keys(server)}

    assert exit_code("bench", redis_cluster.url(shards=3), "--jobs", "20") == 0

    # Some of what other tests left there ends by itself.
    assert {key for server in redis_cluster.servers for key in keys(server)} <= before


def test_a_file_is_measured_beside_the_store_and_removed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path / 'kue.db'}"

    assert exit_code("bench", url, "--jobs", "60") == 0

    captured = capsys.readouterr()
    lines = [line.split("\t") for line in captured.out.splitlines()]
    assert {name for name, *_ in lines} == NAMES
    assert all(float(value) > 0 for _, value, _ in lines)
    assert f"kue: {url}: SQLite" in captured.err
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_known_is_said_to_be_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert exit_code("bench", "memory://", "--jobs", "20", "--json") == 0

    assert json.loads(capsys.readouterr().out)["figures"]["bytes"] is None


def test_jobs_of_others_wait_undisturbed(
    redis_server: RedisServer, capsys: pytest.CaptureFixture[str]
) -> None:
    async def add_and_count(jobs: int) -> int:
        async with Kue(redis_server.url, prefix="theirs") as q:
            await q.enqueue_many("noop", range(jobs))
            return await q.inactive_count("noop")

    before = asyncio.run(add_and_count(3))

    assert exit_code("bench", redis_server.url, "--jobs", "20") == 0

    assert asyncio.run(add_and_count(0)) == before


def test_ctrl_c_removes_what_was_added(server: RedisServer) -> None:
    with start_kue("bench", server.url, "--jobs", "500000") as process:
        wait_until(lambda: len(keys(server)) > 20, "jobs are being added")
        process.send_signal(signal.SIGINT)
        output, complaints = process.communicate(timeout=PATIENCE_SECONDS)

    assert process.returncode == 130
    assert output == ""
    assert "stopping; what was added is being removed" in complaints
    assert "Traceback" not in complaints
    assert keys(server) == {b"theirs"}


def test_a_server_that_goes_away_is_told_with_what_may_be_left(
    server: RedisServer, tmp_path: Path
) -> None:
    # Enough for a busy machine: the calls before the end must not fail.
    environ = {"KUE_BUDGET": "5s"}
    with start_kue("bench", server.url, "--jobs", "500000", env=environ) as process:
        wait_until(lambda: len(keys(server)) > 20, "jobs are being added")
        server.kill()
        _, complaints = process.communicate(timeout=PATIENCE_SECONDS)

    assert process.returncode == 3
    assert "kue: not everything was removed" in complaints
    assert "look for kue-bench: its keys begin with {kue-bench-" in complaints
