"""``kue bus``: looked at, spoken to and listened to from the command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kue.bus import RequestFailed
from tests.cli.processes import start_kue
from tests.support.command_line import CommandLine
from tests.support.engines import engine_at
from tests.support.node import Other
from tests.support.patience import PATIENCE_SECONDS
from tests.support.servers import RedisServer


@pytest.fixture
def kue(
    redis_server: RedisServer,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> CommandLine:
    return CommandLine(engine_at("redis", redis_server.url), capsys, monkeypatch)


@pytest.fixture
def other(kue: CommandLine) -> Iterator[Other]:
    other = Other(kue.url, kue.engine.settings.prefix)
    yield other
    other.close()


def rows_when(
    kue: CommandLine, is_so: Callable[[list[list[str]]], bool], *words: str
) -> list[list[str]]:
    """Ask until the answer is what is waited for: nodes tell with their beats."""
    end = time.monotonic() + 45
    while not ((rows := kue(*words).rows) and is_so(rows)):
        assert time.monotonic() < end, rows
    return rows


# -- looking -------------------------------------------------------------------


def test_nodes_are_listed(kue: CommandLine, other: Other) -> None:
    [row] = rows_when(kue, lambda rows: rows[0][4] == "5", "bus", "nodes")
    [item] = kue("bus", "nodes", "--json").items
    kue.on_a_terminal()

    assert row[0] == other.bus.node
    assert row[2] == str(os.getpid())
    assert row[7:] == ["0", "0", "0"]
    assert (item["node"], item["pid"], item["consumers"]) == (row[0], os.getpid(), 5)
    assert (item["lost"], item["waiting"], item["waits"]) == (0, 0, {})
    assert other.bus.node in kue("bus", "nodes").shown


def test_a_bus_without_nodes_is_told(kue: CommandLine) -> None:
    nodes, addresses = kue("bus", "nodes"), kue("bus", "addresses")

    assert (nodes.code, nodes.out) == (0, "")
    assert nodes.err == "kue: no process has joined the bus\n"
    assert (addresses.code, addresses.err) == (0, "kue: the bus has no traffic\n")


def test_addresses_are_listed_with_their_latency_and_failures(
    kue: CommandLine, other: Other
) -> None:
    async def ask() -> None:
        await other.bus.request("greeter")
        with pytest.raises(RequestFailed):
            await other.bus.request("nobody")

    other.run(ask)

    # It asked there last.
    words = ("bus", "addresses", "--find", "nobody")
    [nobody] = rows_when(kue, lambda rows: rows[0][8] != "", *words)
    [greeter] = kue("bus", "addresses", "--find", "GREE").rows
    [item] = kue("bus", "addresses", "--find", "greeter", "--json").items

    assert greeter[:3] == ["greeter", "1", "1"]
    assert greeter[6].endswith("ms")
    assert nobody[1:3] == ["0", "0"]
    assert nobody[8] == "1 NO_HANDLERS"
    assert item["nodes"] == [other.bus.node]
    assert sum(item["waits"].values()) == 1


def test_the_list_of_addresses_ends_at_its_limit(
    kue: CommandLine, other: Other
) -> None:
    rows_when(kue, lambda rows: len(rows) == 5, "bus", "addresses")

    some = kue("bus", "addresses", "--limit", "2")
    none = kue("bus", "addresses", "--find", "nothing like it")

    assert len(some.rows) == 2
    assert some.err == "kue: 3 more are less busy; --limit shows more\n"
    assert none.err == "kue: no node reports such an address\n"


# -- talking -------------------------------------------------------------------


def test_a_message_is_sent_or_published(kue: CommandLine, other: Other) -> None:
    sent = kue("bus", "send", "news", '{"title": "rain"}')
    published = kue("bus", "send", "news", "--publish", "--json")

    assert (sent.code, sent.rows) == (0, [["news", "send", "1"]])
    assert published.items == [
        {"address": "news", "kind": "publish", "nodes": [other.bus.node]}
    ]
    assert other.hears(2) == [{"title": "rain"}, None]
    assert [message.is_send for message in other.heard] == [True, False]


def test_text_headers_and_standard_input_are_sent(
    kue: CommandLine, other: Other
) -> None:
    kue("bus", "send", "news", "hello", "--text", "-H", "Lang: en", "-H", "a:b:c")
    kue("bus", "send", "news", "-", stdin="[1, 2]")

    assert other.hears(2) == ["hello", [1, 2]]
    headers = other.heard[0].headers
    assert (headers["lang"], headers["a"]) == ("en", "b:c")


def test_a_message_that_nobody_hears_exits_with_1(
    kue: CommandLine, other: Other
) -> None:
    said = kue("bus", "send", "nobody")

    assert (said.code, said.out) == (1, "")
    assert said.err == "kue: nobody listens at nobody\n"


def test_a_request_prints_the_reply(kue: CommandLine, other: Other) -> None:
    patient = ("--timeout", "45s")
    plain = kue("bus", "request", "greeter", '"ann"', "-H", "lang:en", *patient)
    [item] = kue("bus", "request", "greeter", "--json", *patient).items

    assert (plain.code, plain.items) == (0, [{"hello": "ann", "lang": "en"}])
    assert item["body"] == {"hello": None, "lang": ""}
    assert item["headers"] == {"from": ["other"]}
    assert item["took_ms"] > 0


def test_a_reply_of_bytes_is_printed_in_base64(kue: CommandLine, other: Other) -> None:
    said = kue("bus", "request", "odd", "--timeout", "45s")

    assert said.items == [{"base64": "AAE="}]


@pytest.mark.parametrize(
    ("address", "timeout", "message"),
    [
        ("nobody", "45s", "NO_HANDLERS: No handlers for address nobody\n"),
        ("deaf", "0.1s", "TIMEOUT: Timed out after waiting 100(ms) for a reply. "),
        ("broken", "45s", "RECIPIENT_FAILURE: no room (code 7)\n"),
    ],
)
def test_a_request_without_reply_says_why_and_exits_with_1(
    kue: CommandLine, other: Other, address: str, timeout: str, message: str
) -> None:
    said = kue("bus", "request", address, "--timeout", timeout)

    assert (said.code, said.out) == (1, "")
    assert said.err.startswith(f"kue: {message}")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["send", "news", "{"], "BODY is not JSON"),
        (["send", "news", "-H", "nothing"], "a header is NAME:VALUE, not 'nothing'"),
        (["send", "news", "-H", ":x"], "a header is NAME:VALUE, not ':x'"),
        (["send", "x" * 1001], "an address must be text of 1 to 1000 characters"),
        (["request", "news", "--timeout", "0"], "timeout must be more than 0"),
        (["listen", "news", "--reply", "{"], "BODY is not JSON"),
    ],
)
def test_wrong_use_is_told(
    kue: CommandLine, other: Other, arguments: list[str], message: str
) -> None:
    said = kue("bus", *arguments)

    assert said.code == 2
    assert message in said.err


@pytest.mark.parametrize("verb", ["nodes", "addresses", "send", "request", "listen"])
def test_without_redis_there_is_no_bus(
    verb: str, kue: CommandLine, tmp_path: Path
) -> None:
    words = [] if verb in ("nodes", "addresses") else ["news"]

    said = kue("bus", verb, *words, "--url", f"sqlite:///{tmp_path}/kue.db")

    assert (said.code, said.out) == (2, "")
    assert "meets in Redis" in said.err
    assert not (tmp_path / "kue.db").exists()


# -- listening -----------------------------------------------------------------


@contextmanager
def listening(*words: str) -> Iterator[subprocess.Popen[str]]:
    """Run ``kue bus listen`` in a process of its own; it listens by then."""
    with start_kue("bus", "listen", *words) as process:
        assert process.stderr is not None
        try:
            assert process.stderr.readline() == f"kue: listening at {words[0]}\n"
            yield process
        finally:
            process.kill()


def test_messages_are_printed_until_ctrl_c(kue: CommandLine, other: Other) -> None:
    with listening("weather") as process:
        assert process.stdout is not None
        kue("bus", "send", "weather", '"rain\u202e"', "--publish", "-H", "a:b")
        line = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        rest, complaints = process.communicate(timeout=PATIENCE_SECONDS)

    assert line == 'publish\t"rain\\u202e"\ta:b\n'
    assert (process.returncode, rest, complaints) == (0, "", "")


def test_listening_ends_after_a_count_and_answers(
    kue: CommandLine, other: Other
) -> None:
    with listening("stock", "--count", "2", "--reply", "42", "--json") as process:
        kue("bus", "send", "stock", "1")
        said = kue("bus", "request", "stock", "2", "--timeout", "45s")
        out, complaints = process.communicate(timeout=PATIENCE_SECONDS)

    assert said.items == [42]
    heard = [json.loads(line) for line in out.splitlines()]
    assert [(one["kind"], one["body"]) for one in heard] == [
        ("send", 1),
        ("request", 2),
    ]
    assert heard[0]["headers"] == {}
    assert (process.returncode, complaints) == (0, "")
