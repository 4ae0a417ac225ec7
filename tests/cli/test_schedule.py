"""``kue schedule``: list, show, next."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from kue.model.draft import draft
from kue.store.contract import Store
from tests.cli.schedules import NIGHTLY, declare, run_three_times, stored, type_in
from tests.support.command_line import CommandLine
from tests.support.jobs import HOUR, MINUTE
from tests.support.schedules import every


async def neglect(store: Store) -> None:
    """Add a schedule that nobody fired."""
    first = await store.now() - 5 * MINUTE
    await store.schedule(every("late", "1h", draft("clean"), first_at=first))


async def add_elsewhere(store: Store) -> None:
    """Add a schedule on a machine that knows more time zones."""
    now = await store.now()
    here = every("far", "1h", draft("clean"), first_at=now + HOUR)
    await store.schedule(replace(here, every=0, cron="0 9 * * *", tz="Mars/Base"))


async def end_one(store: Store) -> None:
    """Add a schedule whose time is over."""
    over = datetime(2020, 1, 1, tzinfo=UTC)
    await store.schedule(every("over", "1h", draft("clean"), first_at=0, end=over))
    await store.tend(now=await store.now())


def test_schedules_are_listed_with_the_next_run_and_the_last_outcomes(
    kue: CommandLine,
) -> None:
    kue.arrange(run_three_times)
    type_in(kue, f"schedule add nightly report {NIGHTLY}")

    nightly, sweep = kue("schedule", "list").rows

    assert nightly[:2] == ["nightly", "every day at 3:00, Berlin"]
    assert nightly[3:] == ["", "", "", ""]
    assert sweep[:2] == ["sweep", "every hour"]
    assert sweep[2] > sweep[3] > "2026"
    assert sweep[4:] == ["complete", "250", "+x+"]


def test_on_a_terminal_times_are_relative_and_outcomes_are_signs(
    kue: CommandLine,
) -> None:
    kue.arrange(run_three_times)
    kue("schedule", "run", "sweep")
    kue.on_a_terminal()

    shown = kue("schedule", "list").shown

    assert "every hour" in shown
    assert "ago   unfinished" in shown
    assert "✓✗✓○" in shown
    assert stored(kue, "sweep").ticks[-1].is_manual


def test_there_is_a_clock_time_where_there_is_room(kue: CommandLine) -> None:
    type_in(kue, f"schedule add nightly report {NIGHTLY}")

    kue.on_a_terminal(width=100)
    assert "03:00" in kue("schedule", "list").shown
    kue.on_a_terminal(width=80)
    assert "03:00" not in kue("schedule", "list").shown


def test_paused_and_ended_schedules_are_marked(kue: CommandLine) -> None:
    kue.arrange(end_one)
    type_in(kue, "schedule add sweep clean --every 10m")
    kue("schedule", "pause", "sweep")

    over, sweep = kue("schedule", "list").rows

    assert (over[0], over[2]) == ("over", "ended")
    assert (sweep[0], sweep[2]) == ("sweep", "paused")


def test_a_schedule_that_nobody_fires_is_noted(kue: CommandLine) -> None:
    kue.arrange(neglect)

    listed = kue("schedule", "list")
    shown = kue("schedule", "show", "late")

    assert listed.code == 0
    assert listed.err == (
        "kue: note: late should have run; schedules fire only while a worker runs "
        "(kue workers lists them)\n"
    )
    assert "state\tdue 5 min" in shown.out
    assert "ago; it fires when a worker runs" in shown.out
    kue.on_a_terminal()
    assert "due 5 min" in kue("schedule", "list").shown


def test_a_list_of_no_schedules_says_how_to_begin(kue: CommandLine) -> None:
    kue.arrange(lambda store: store.open())

    said = kue("schedule", "list")

    assert (said.code, said.out) == (0, "")
    assert said.err == "kue: there are no schedules yet; kue schedule add adds one\n"


def test_a_list_is_written_as_json(kue: CommandLine) -> None:
    kue.arrange(run_three_times)

    [item] = kue("schedule", "list", "--json").items

    assert (item["name"], item["words"]) == ("sweep", "every hour")
    assert [tick["status"] for tick in item["ticks"]] == [
        "complete",
        "failed",
        "complete",
    ]
    assert item["next_at"] == item["upcoming"][0]
    assert "data" not in item


def test_a_time_zone_that_is_not_known_here_hides_no_schedule(
    kue: CommandLine,
) -> None:
    kue.arrange(add_elsewhere)

    shown = dict(kue("schedule", "show", "far").rows)
    tried = kue("schedule", "next", "far")
    kue.on_a_terminal()
    listed = kue("schedule", "list")

    assert (listed.code, listed.err) == (0, "")
    assert "every day at 9:00, Base" in listed.shown
    assert shown["time zone"] == "Mars/Base (not known here)"
    assert "next" not in shown
    assert (tried.code, tried.out) == (2, "")
    assert tried.err.startswith("kue: time zone 'Mars/Base' is not known here; ")


@pytest.mark.parametrize("width", [80, 60])
def test_a_list_of_schedules_fits_where_there_is_little_room(
    kue: CommandLine, width: int
) -> None:
    kue.arrange(run_three_times)
    type_in(kue, "schedule add quarters report --cron '*/15 9-17 * * mon-fri'")
    kue.on_a_terminal(width=width)

    said = kue("schedule", "list")

    lines = said.shown.splitlines()
    assert lines[1].split()[:3] == ["name", "when", "next"]
    assert "…" not in said.shown
    assert max(map(len, lines)) <= width


def test_a_schedule_is_shown_with_everything(kue: CommandLine) -> None:
    options = "--jitter 10m --overlap skip --expires 2h --priority high --timeout 30 "
    options += "--attempts unlimited --retry-until 1d"
    type_in(kue, f"""schedule add 'the night' report '["eu"]' {NIGHTLY} {options}""")

    rows = kue("schedule", "show", "the night").rows

    times = [row[1] for row in rows if row[0] == "next"]
    assert [time[14:25] for time in times] == ["T03:00:00+0"] * 5
    assert times[4].partition("(in ")[2].startswith("4 d")
    assert dict(rows) | {"next": ""} == {
        "name": "the night",
        "when": "every day at 3:00, Berlin",
        "cron": "0 3 * * *",
        "time zone": "Europe/Berlin",
        "next": "",
        "jitter": "up to 10 min later",
        "missed": "one job for all times that were missed (once)",
        "overlap": "adds no job while an earlier one is unfinished (skip)",
        "type": "report",
        "data": '["eu"]',
        "priority": "high (-10)",
        "attempts": "unlimited",
        "retried for": "1 d",
        "timeout": "30 s",
        "expires": "after 2 h",
        "jobs": "kue job list --tag 'schedule:the night'",
    }


def test_the_ticks_of_a_schedule_are_shown_with_their_jobs(kue: CommandLine) -> None:
    kue.arrange(run_three_times)
    kue("schedule", "run", "sweep")

    rows = kue("schedule", "show", "sweep").rows
    kue.on_a_terminal()
    shown = kue("schedule", "show", "sweep").shown

    ticks = [row[2:] for row in rows if row[0] == "tick"]
    assert ticks == [
        ["20", "1", "complete", "250"],
        ["20", "2", "failed", "250"],
        ["20", "3", "complete", "250"],
        ["by hand", "4", "unfinished", ""],
    ]
    assert "20 ms     2   failed       250 ms" in shown
    assert kue("job", "list", "--tag", "schedule:sweep").code == 0


def test_a_schedule_shows_its_pause_and_where_it_is_declared(kue: CommandLine) -> None:
    kue.arrange(declare)
    kue("schedule", "pause", "digest")

    shown = dict(row for row in kue("schedule", "show", "digest").rows)

    assert shown["state"] == "paused; kue schedule resume digest ends that"
    assert shown["declared"] == "in code, by shop.tasks; change it there"
    assert "(in 59 min" in shown["starts"]


def test_a_schedule_is_shown_as_json(kue: CommandLine) -> None:
    type_in(kue, f"""schedule add nightly report '["eu"]' {NIGHTLY}""")

    [item] = kue("schedule", "show", "nightly", "--json").items

    assert (item["data"], item["delivery"]) == (["eu"], "at-least-once")
    assert len(item["upcoming"]) == 5


def test_a_name_cannot_control_the_terminal(kue: CommandLine) -> None:
    name = "night\u202e\u200b[red]"
    type_in(kue, f"schedule add {name} report --every 1h")
    kue.on_a_terminal()

    for said in (kue("schedule", "list"), kue("schedule", "show", name)):
        assert r"night\u202e\u200b[red]" in said.shown


def test_the_coming_times_of_a_schedule_are_listed(kue: CommandLine) -> None:
    type_in(kue, f"schedule add nightly report {NIGHTLY}")

    said = kue("schedule", "next", "nightly", "--count", 3)

    assert [row[0][10:19] for row in said.rows] == ["T03:00:00"] * 3
    assert said.rows[2][1].startswith("in 2 d")
    assert len(kue("schedule", "next", "nightly").rows) == 10


def test_the_coming_times_of_a_pause_have_a_note(kue: CommandLine) -> None:
    kue.arrange(end_one)
    type_in(kue, "schedule add sweep clean --every 10m")
    kue("schedule", "pause", "sweep")

    paused, ended = kue("schedule", "next", "sweep"), kue("schedule", "next", "over")

    assert len(paused.rows) == 10
    assert paused.err == (
        "kue: note: sweep is paused: it runs only after it is resumed\n"
    )
    assert (ended.out, ended.err) == ("", "kue: over has ended: no run is left\n")


def test_an_expression_is_tried_without_a_store(
    kue: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUE_URL", "sqlite:////nowhere/kue.db")
    typed = ("schedule", "next", "--cron", "0 9 * * mon-fri", "--tz", "Asia/Tokyo")

    items = kue(*typed, "--count", 5, "--json").items
    kue.on_a_terminal()
    shown = kue(*typed, "--count", 5).shown

    times = [datetime.fromtimestamp(item["at"] / 1000, UTC) for item in items]
    assert {time.hour for time in times} == {0}
    assert sorted(time.weekday() for time in times) == [0, 1, 2, 3, 4]
    assert shown.count("T09:00:00+09:00") == 5
    assert shown.count("Mon ") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "give the name of a schedule, or --cron"),
        ("nightly --cron '0 9 * * *'", "give the name of a schedule, or --cron"),
        ("nightly --tz UTC", "--tz goes with --cron; a schedule has its own"),
        ("--cron '0 9 * *'", "cannot be read (wrong number of fields)"),
        ("--cron '0 0 30 2 *'", "cron expression '0 0 30 2 *'"),
        ("--cron '0 9 * * *' --tz Mars", "time zone 'Mars' is not known here"),
        ("--cron '0 9 * * *' --count 0", "0 is not in the range 1<=x<=1000"),
    ],
)
def test_times_of_nothing_exit_with_2(
    kue: CommandLine, arguments: str, message: str
) -> None:
    said = kue("schedule", "next", *shlex.split(arguments))

    assert (said.code, said.out) == (2, "")
    assert message in said.err
