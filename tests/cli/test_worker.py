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
        *("--target-wait", "2s", "--cooldown", "1m"),
        *("--strict", "--burst", "--max-jobs", "100", "--max-age", "6h"),
        *("--max-memory", "512MB", "--grace", "90", "--stuck-after", "0", "--reload"),
        *("--health-file", "up", "--health-port", "8080", "--health-host", "::1"),
        *("--log-format", "json", "--log-level", "warning"),
    )

    assert given == SupervisorOptions(
        target="app:q",
        processes=4,
        target_wait=2,
        cooldown=60,
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


def test_queues_and_a_connection_are_passed_on() -> None:
    given = options("app:q", "--queues", "mail, mail-*,!bulk", "--connection", "spare")

    assert given.queues == ("mail", "mail-*", "!bulk")
    assert given.connection == "spare"
    for name in ("--queues", "--types"):
        with pytest.raises(click.UsageError, match="no name is given; leave"):
            options("app:q", name, " ")
    with pytest.raises(click.UsageError, match="--types or --queues, not both"):
        options("app:q", "--queues", "mail", "--types", "email")


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
    ("given", "least", "most"),
    [
        (("--processes", "1:8"), 1, 8),
        (("--processes", "2:3", "--balance"), 2, 3),
        (("--processes", "4:4"), 4, None),
        (("--processes", "4"), 4, None),
        ((), 1, None),
    ],
)
def test_a_range_of_processes_follows_the_backlog(
    given: tuple[str, ...], least: int, most: int | None
) -> None:
    found = options("app:q", *given)

    assert (found.processes, found.most_processes) == (least, most)
    assert found.is_scaling == (most is not None)


def test_a_range_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUE_WORKER_PROCESSES", "2:6")

    found = options("app:q")

    assert (found.processes, found.most) == (2, 6)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--processes", "many"), "'many' is not a number of processes; write 4, or"),
        (("--processes", "1:"), "'1:' is not a number of processes; write 4, or 1:8"),
        (("--processes", "-1"), "'-1' is not a number of processes"),
        (("--processes", "8:1"), "'8:1' has the most first; write 1:8"),
        (("--processes", "0"), "'0' is not from 1 to 1000 processes"),
        (("--processes", "0:8"), "'0:8' is not from 1 to 1000 processes"),
        (("--processes", "1:1001"), "'1:1001' is not from 1 to 1000 processes"),
        (("--processes", "4", "--balance"), "--balance needs a range, such as"),
        (("--balance",), "--balance needs a range, such as --processes 1:8"),
        (("--processes", "1:8", "--target-wait", "0"), "--target-wait must be more"),
    ],
)
def test_a_range_that_makes_no_sense_is_refused(
    given: tuple[str, ...], message: str
) -> None:
    with pytest.raises(click.UsageError) as refused:
        options("app:q", *given)

    assert message in refused.value.format_message()


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
