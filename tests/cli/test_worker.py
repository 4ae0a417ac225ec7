"""``kue worker``: how its options are read."""

from __future__ import annotations

from typing import Any

import click
import pytest

from kue.cli.commands.worker import options_of, worker
from kue.supervisor.options import SupervisorOptions


def options(*arguments: str) -> SupervisorOptions:
    """Return what the arguments mean."""
    given = worker.make_context("worker", list(arguments)).params
    return options_of(**given)


def test_only_the_target_must_be_given() -> None:
    assert options("app:q") == SupervisorOptions(target="app:q")


def test_every_option_is_passed_on() -> None:
    given = options(
        *("app:q", "--processes", "4", "--concurrency", "10", "--types", "a, b,c"),
        *("--strict", "--burst", "--max-jobs", "100", "--max-age", "6h"),
        *("--max-memory", "512MB", "--grace", "90", "--stuck-after", "0", "--reload"),
        *("--health-file", "up", "--health-port", "8080", "--health-host", "::1"),
        *("--log-format", "json", "--log-level", "warning"),
    )

    assert given == SupervisorOptions(
        target="app:q",
        processes=4,
        concurrency=10,
        types=("a", "b", "c"),
        strict=True,
        burst=True,
        max_jobs=100,
        max_age=6 * 3600,
        max_memory=512_000_000,
        grace=90,
        stuck_after=0,
        reload=True,
        health_file="up",
        health_port=8080,
        health_host="::1",
        log_format="json",
        log_level="WARNING",
    )


def test_every_option_has_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    without: list[Any] = [
        param.name
        for param in worker.params
        if isinstance(param, click.Option)
        and param.envvar != f"KUE_WORKER_{str(param.name).upper()}"
    ]
    monkeypatch.setenv("KUE_APP", "shop:q")
    monkeypatch.setenv("KUE_WORKER_PROCESSES", "3")
    monkeypatch.setenv("KUE_WORKER_MAX_MEMORY", "1GiB")

    given = options()

    assert without == []
    assert (given.target, given.processes) == ("shop:q", 3)
    assert given.max_memory == 1024**3


@pytest.mark.parametrize(
    ("flags", "level"),
    [
        ((), "INFO"),
        (("-v",), "DEBUG"),
        (("-q",), "WARNING"),
        (("-qq",), "ERROR"),
        (("-qqqq",), "ERROR"),
        (("-q", "--log-level", "debug"), "DEBUG"),
    ],
)
def test_the_least_that_is_logged(flags: tuple[str, ...], level: str) -> None:
    assert options("app:q", *flags).log_level == level


@pytest.mark.parametrize(
    ("text", "size"),
    [("1000", 1000), ("1.5kB", 1500), ("2 MB", 2_000_000), ("1GiB", 1024**3)],
)
def test_memory_is_given_as_people_write_it(text: str, size: int) -> None:
    assert options("app:q", "--max-memory", text).max_memory == size
