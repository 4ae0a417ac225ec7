"""``kue schedule add``: what becomes a schedule, and what cannot be one."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.cli.schedules import NIGHTLY, declare, run_three_times, stored, type_in
from tests.support.command_line import CommandLine
from tests.support.jobs import HOUR, MINUTE


def test_a_schedule_is_added_and_its_next_run_is_named(kue: CommandLine) -> None:
    said = type_in(kue, """schedule add sweep clean '{"days": 7}' --every 10m""")

    assert said.startswith("kue: added sweep: every 10 minutes; next run in ")
    schedule = stored(kue, "sweep")
    assert (schedule.every, schedule.draft.type) == (10 * MINUTE, "clean")
    assert schedule.draft.spec.data == {"days": 7}
    assert (schedule.missed, schedule.overlap, schedule.tz) == ("once", "allow", "UTC")


def test_the_next_run_of_a_cron_expression_is_a_clock_time_of_its_zone(
    kue: CommandLine,
) -> None:
    said = type_in(kue, f"schedule add nightly report {NIGHTLY}")

    assert said.startswith("kue: added nightly: every day at 3:00, Berlin; next run in")
    assert said.endswith("03:00)\n")


def test_a_single_run_may_be_far_away(kue: CommandLine) -> None:
    said = type_in(kue, "schedule add launch announce --at 2097-12-24T18:00+01:00")

    assert "added launch: once, on 2097-12-24 at 17:00:00 UTC; next run in" in said
    assert "(2097-12-24 1" in said
    assert stored(kue, "launch").is_one_off


def test_a_time_may_be_relative(kue: CommandLine) -> None:
    type_in(kue, "schedule add launch announce --at 2h")

    due = stored(kue, "launch").due_at
    now = kue.arrange(lambda store: store.now())
    assert due == pytest.approx(now + 2 * HOUR, abs=MINUTE)


def test_every_option_of_a_schedule_arrives(kue: CommandLine) -> None:
    options = "--start 2097-01-01T00:00Z --end 2098-01-01T00:00Z --jitter 30s "
    options += "--missed all --overlap queue-one --priority high --attempts 3 "
    options += "--backoff 1s,10s --timeout 30 --ttl 5s --expires 2h --unique k "
    options += "--unique-for 1h --group g --tag a --tag b"

    type_in(kue, f"schedule add nightly report {NIGHTLY} {options}")

    schedule = stored(kue, "nightly")
    assert (schedule.cron, schedule.tz) == ("0 3 * * *", "Europe/Berlin")
    assert (schedule.starts_at, schedule.ends_at) == (4007836800000, 4039372800000)
    assert (schedule.jitter, schedule.missed) == (30_000, "all")
    assert schedule.overlap == "queue-one"
    job = schedule.draft
    assert (job.priority, job.spec.max_attempts, job.spec.timeout) == (-10, 3, 30_000)
    assert (job.ttl, job.expires, job.unique) == (5_000, 2 * HOUR, "k")
    assert (job.unique_for, job.group, job.spec.tags) == (HOUR, "g", ("a", "b"))
    assert getattr(job.spec.backoff, "delays", None) == (1_000, 10_000)


def test_a_schedule_that_exists_is_changed_and_keeps_its_pause(
    kue: CommandLine,
) -> None:
    type_in(kue, "schedule add sweep clean --every 10m --tag old")
    kue("schedule", "pause", "sweep")

    again = type_in(kue, "schedule add sweep clean --every 10m --tag old")
    changed = type_in(kue, "schedule add sweep clean --every 1h")

    assert again == "kue: nothing to change in sweep: every 10 minutes; paused\n"
    assert changed == "kue: changed sweep: every hour; paused\n"
    assert stored(kue, "sweep").draft.spec.tags == ()


def test_a_schedule_without_a_run_left_is_said_to_be_over(kue: CommandLine) -> None:
    said = type_in(kue, "schedule add x clean --every 1h --end 2020-01-01T00:00Z")

    assert said == "kue: added x: every hour; no run is left\n"


def test_a_single_run_in_the_past_is_due(kue: CommandLine) -> None:
    said = type_in(kue, "schedule add x clean --at 2020-01-01T00:00Z")

    assert said.startswith("kue: added x: once, on 2020-01-01 at 00:00:00 UTC; due ")
    assert said.endswith(" ago\n")


def test_what_was_added_can_be_json(kue: CommandLine) -> None:
    said = kue("schedule", "add", "sweep", "clean", "[1]", "--every", "10m", "--json")

    [item] = said.items
    assert (item["name"], item["every"], item["data"]) == ("sweep", 600_000, [1])
    assert said.err.startswith("kue: added sweep")


def test_a_schedule_of_code_is_not_changed(kue: CommandLine) -> None:
    kue.arrange(declare)

    said = kue("schedule", "add", "digest", "mail", "--every", "5m")

    assert (said.code, said.out) == (1, "")
    assert said.err == (
        "kue: schedule 'digest' is declared in code, by shop.tasks; change it there, "
        "or choose another name\n"
    )
    assert stored(kue, "digest").every == HOUR


def test_a_type_that_no_worker_knows_is_added_with_a_note(kue: CommandLine) -> None:
    kue.arrange(run_three_times)

    said = type_in(kue, "schedule add more claen --every 1h")

    assert said.splitlines()[1] == (
        "kue: note: no worker has ever handled jobs of type 'claen'; "
        "did you mean 'clean'?"
    )


def test_a_schedule_may_be_the_first_thing_in_a_store(
    tmp_path: Path, kue: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUE_URL", "sqlite:///new.db")
    monkeypatch.delenv("KUE_PREFIX")

    assert kue("schedule", "list").code == 2
    assert "added sweep" in type_in(kue, "schedule add sweep clean --every 10m")
    assert [row[0] for row in kue("schedule", "list").rows] == ["sweep"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("x clean", "a schedule needs one of every, cron and at"),
        ("x clean --every 1m --cron '* * * * *'", "needs one of every, cron and at"),
        ("x clean --every 50ms", "every must be at least 100 ms, not 0:00:00.05"),
        ("x clean --every often", "every 'often' cannot be read; write a number with"),
        ("x clean --every 1m --jitter 1m", "jitter must be shorter than the interval"),
        ("x clean --cron '0 9 * *'", "cannot be read (wrong number of fields); write"),
        ("x clean --cron '0 9 * * *' --tz Mars", "time zone 'Mars' is not known here"),
        ("x clean --at noon", "'noon' is not a time; write 2026-11-15T09:30:00Z"),
        ("x clean --at 2026-12-24T18:00", "has no time zone, so it is ambiguous"),
        ("x clean --at 2h --end 3h", "end goes with every or cron, not with at"),
        ("x clean --every 1m --start 2h --end 1h", "end must not be before start"),
        ("x clean --every 1m --missed no", "'no' is not one of 'skip', 'once', 'all'"),
        ("x clean --every 1m --overlap no", "'no' is not one of 'allow', 'skip', 'que"),
        ("x clean { --every 1m", "data is not JSON"),
        ("x clean --every 1m --attempts 0", "attempts must be from 1 to 1,000,000"),
        ("x clean --every 1m --delay 1m", "No such option"),
        (".. clean --every 1m", "schedule name must not be '..'"),
        ("x", "Missing argument 'TYPE'"),
    ],
)
def test_what_makes_no_sense_adds_no_schedule(
    kue: CommandLine, arguments: str, message: str
) -> None:
    said = kue("schedule", "add", *shlex.split(arguments))

    assert (said.code, said.out) == (2, "")
    [line] = said.err.splitlines()
    assert message in line
    assert line.endswith("(kue schedule add --help shows how)")
    assert kue.arrange(lambda store: store.schedules()) == []
