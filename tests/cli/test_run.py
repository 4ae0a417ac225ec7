"""``kue run``: verticles from the command line."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from kue.runtime import Verticle
from tests.support.command_line import CommandLine
from tests.support.engines import engine_at
from tests.support.servers import RedisServer


class Recorded(Verticle):
    """Remembers its life; the last instance stops the command."""

    seen: ClassVar[list[Any]] = []

    async def start(self) -> None:
        self.seen.append(dict(self.config))
        if len(self.seen) == self.config.get("instances", 1):
            os.kill(os.getpid(), signal.SIGTERM)

    async def stop(self) -> None:
        self.seen.append("stopped")


class Node(Verticle):
    """Remembers on which node it runs."""

    seen: ClassVar[list[Any]] = []

    async def start(self) -> None:
        bus = self.runtime.bus
        assert bus is not None
        assert bus.cluster is not None
        self.seen.append(bus.cluster.node)
        os.kill(os.getpid(), signal.SIGINT)


class Broken(Verticle):
    async def start(self) -> None:
        raise ValueError("no database")


RECORDED, BROKEN = f"{__name__}:Recorded", f"{__name__}:Broken"


@pytest.fixture
def kue(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[CommandLine]:
    # The command names the queue for its verticles.
    monkeypatch.setenv("KUE_URL", "")
    engine = engine_at("sqlite", f"sqlite:///{tmp_path / 'kue.db'}")
    Recorded.seen.clear()
    yield CommandLine(engine, capsys, monkeypatch)
    Node.seen.clear()


def test_verticles_are_deployed_with_their_config_until_a_signal(
    kue: CommandLine, tmp_path: Path
) -> None:
    config = {"instances": 2, "to": "ann"}
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config))

    said = kue("run", RECORDED, "--conf", str(file), "--instances", "2")

    assert said.code == 0
    assert Recorded.seen == [config, config, "stopped", "stopped"]
    assert "Recorded is deployed, 2 instances; Ctrl-C stops" in said.err
    assert "undeploying (signal again to end at once)" in said.err


def test_the_config_may_be_json_itself(kue: CommandLine) -> None:
    assert kue("run", RECORDED, "--conf", '{"to": "ann"}').code == 0

    assert Recorded.seen == [{"to": "ann"}, "stopped"]


def test_a_config_that_is_no_text_is_explained(
    kue: CommandLine, tmp_path: Path
) -> None:
    file = tmp_path / "config.json"
    file.write_bytes(b'{"to": "\xff"}')

    said = kue("run", RECORDED, "--conf", str(file))

    assert said.code == 2
    assert "--conf is not a JSON object" in said.err


def test_a_verticle_that_cannot_start_undeploys_the_others(kue: CommandLine) -> None:
    said = kue("run", RECORDED, BROKEN, "--conf", '{"instances": 9}')

    assert said.code == 1
    assert Recorded.seen[-1] == "stopped"
    assert "Broken could not be deployed: ValueError: no database" in said.err


def test_nodes_of_a_cluster_share_a_bus(
    redis_server: RedisServer,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KUE_URL", "")
    kue = CommandLine(engine_at("redis", redis_server.url), capsys, monkeypatch)

    said = kue("run", f"{__name__}:Node", "--ha", "--group", "a", "--quorum", "1")

    assert (said.code, len(Node.seen)) == (0, 1)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((f"{__name__}:Nobody",), "has no 'Nobody'"),
        (("nowhere:Verticle",), "there is no module 'nowhere'"),
        (("nowhere",), "write module:Class"),
        ((RECORDED, "--cluster"), "give --url redis://…, or no --cluster"),
        ((RECORDED, "--ha"), "give --url redis://…, or no --cluster"),
        ((RECORDED, "--group", "a"), "--group is for verticles that fail over: add"),
        ((RECORDED, "--quorum", "2"), "--quorum is for verticles that fail over"),
        ((RECORDED, "--conf", "nothing.json"), "there is no file 'nothing.json'"),
        ((RECORDED, "--conf", '{"a": '), "--conf is not a JSON object"),
        ((RECORDED, "--instances", "0"), "instances"),
        ((), "VERTICLE"),
    ],
)
def test_misuse_is_explained(
    kue: CommandLine, words: tuple[str, ...], message: str
) -> None:
    said = kue("run", *words)

    assert said.code == 2
    assert message in said.err
    assert not Recorded.seen
