"""Log records of supervisor and children: a line each, and never in the way."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from kue.supervisor import log_format
from kue.supervisor.options import LogFormat
from tests.support.root_logger import lent

logger = logging.getLogger("shop")


@pytest.fixture(autouse=True)
def root() -> Iterator[None]:
    """Take from the root logger what the test gave it."""
    with lent():
        yield


def configure(format: LogFormat = "text") -> logging.Handler:
    return log_format.configure("#1", format=format, level="INFO")


def test_a_text_record_says_when_who_and_what(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure()

    logger.info("sent %d", 3, extra={"job_id": 17})
    logger.debug("not shown")

    [line] = capsys.readouterr().err.splitlines()
    time, _, rest = line.partition(" ")
    assert time.endswith("Z")
    assert rest == "INFO    [#1] shop: job 17: sent 3"


def test_no_line_of_a_message_can_pose_as_a_record(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure()

    logger.warning("quoted: %s", "x\n2026-11-15T00:00:00.000Z INFO all is well")

    first, second = capsys.readouterr().err.splitlines()
    assert first.endswith("quoted: x")
    assert second.startswith("    2026")


def raise_and_log() -> None:
    try:
        raise KeyError("missing")
    except KeyError:
        logger.exception("it broke")


def test_a_traceback_follows_a_text_record(capsys: pytest.CaptureFixture[str]) -> None:
    configure()

    raise_and_log()

    lines = capsys.readouterr().err.splitlines()
    assert lines[0].endswith("shop: it broke")
    assert lines[-1] == "KeyError: 'missing'"


def test_a_json_record_is_one_line_with_everything(
    capsys: pytest.CaptureFixture[str],
) -> None:
    handler = configure("json")
    log_format.name_worker(handler, "host-1")

    logger.info("two\nlines", extra={"job_id": 17, "secret": "not shown"})
    raise_and_log()

    records: list[dict[str, Any]] = [
        json.loads(line) for line in capsys.readouterr().err.splitlines()
    ]
    time = records[0].pop("time")
    assert time.endswith("Z")
    assert records[0] == {
        "level": "info",
        "logger": "shop",
        "message": "two\nlines",
        "process": "#1",
        "worker": "host-1",
        "job_id": 17,
    }
    assert records[1]["exception"].endswith("KeyError: 'missing'")


def test_the_traceback_of_a_child_is_shown_like_ones_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure()

    logger.error("it broke", extra={"detail": "Traceback\nKeyError: 'x'\n"})

    assert capsys.readouterr().err.splitlines()[1:] == ["Traceback", "KeyError: 'x'"]


class Stuck(logging.Handler):
    """Whoever reads what it writes has stopped reading."""

    def __init__(self) -> None:
        super().__init__()
        self.freed = threading.Event()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.freed.wait()
        self.records.append(record)


def test_a_reader_that_stopped_reading_holds_nobody_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log_format, "BACKLOG", 10)
    monkeypatch.setattr(log_format, "FLUSH_SECONDS", 0.01)
    configure()
    stuck = Stuck()

    with log_format.unblocked(stuck):
        for number in range(100):
            logger.info("%d", number)

    stuck.freed.set()
    logging.getLogger().removeHandler(stuck)


def test_what_was_logged_is_written_before_the_end(
    capsys: pytest.CaptureFixture[str],
) -> None:
    handler = configure()

    with log_format.unblocked(handler):
        logger.info("the last word")

    assert "the last word" in capsys.readouterr().err
