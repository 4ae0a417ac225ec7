"""``kue schedule``: add, list, show, next, pause, resume, run, remove."""

from __future__ import annotations

import json
import shlex
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from kue.model.draft import draft
from kue.model.job import Completed, Ending, Failed, State
from kue.model.schedule import Schedule
from kue.store.contract import Store
from tests.support.command_line import CommandLine
from tests.support.jobs import (
    HOUR,
    MINUTE,
    OOPS,
    claim_one,
    count_of,
    end,
    get_one,
)
from tests.support.schedules import every
from tests.support.upkeep import tend

NIGHTLY = '--cron "0 3 * * *" --tz Europe/Berlin'


def type_in(kue: CommandLine, line: str) -> str:
    """Type a command that succeeds; return its message."""
    said = kue(*shlex.split(line))
    assert (said.code, said.out) == (0, "")
    return said.err


def stored(kue: CommandLine, name: str) -> Schedule:
    """Return a schedule that must exist."""
    [found] = kue.arrange(lambda store: store.schedules(name))
    return found


async def run_three_times(store: Store) -> None:
    """Add a schedule that fired three times; its second job failed."""
    first = await store.now() - 2 * HOUR - 30 * MINUTE
    await store.schedule(every("sweep", "1h", draft("clean"), first_at=first))
    endings: list[Ending] = [Completed(), Failed(OOPS), Completed()]
    for number, ending in enumerate(endings):
        now = first + number * HOUR
        await tend(store, now=now + 20)
        job = await claim_one(store, "clean", now=now + 30)
        await end(store, job, ending, now=now + 280)


async def declare(store: Store) -> None:
    """Add a schedule as a worker does that starts."""
    first = await store.now() + HOUR
    declared = every(
        "digest", "1h", draft("mail"), first_at=first, declared_by="shop.tasks"
    )
    await store.schedule(declared)


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


# -- add -----------------------------------------------------------------------


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
        "kue: digest is declared in code, by shop.tasks; change it there, or choose "
        "another name\n"
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


# -- list ----------------------------------------------------------------------


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


def test_a_time_zone_that_is_not_known_here_does_not_hide_the_list(
    kue: CommandLine,
) -> None:
    kue.arrange(add_elsewhere)
    kue.on_a_terminal()

    listed, shown = kue("schedule", "list"), kue("schedule", "show", "far")

    assert (listed.code, listed.err) == (0, "")
    assert "every day at 9:00, Base" in listed.shown
    assert (shown.code, shown.out) == (2, "")
    assert shown.err.startswith("kue: time zone 'Mars/Base' is not known here; ")


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


# -- show and next -------------------------------------------------------------


def test_a_schedule_is_shown_with_everything(kue: CommandLine) -> None:
    options = "--jitter 10m --overlap skip --expires 2h --priority high --timeout 30"
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
        "attempts": "1",
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


# -- pause, resume, run, remove ------------------------------------------------


def test_schedules_are_paused_and_resumed(kue: CommandLine) -> None:
    type_in(kue, "schedule add sweep clean --every 10m")
    type_in(kue, f"schedule add nightly report {NIGHTLY}")

    paused = kue("schedule", "pause", "sweep", "nightly")
    again = kue("schedule", "pause", "sweep", "--json")
    resumed = kue("schedule", "resume", "sweep", "nightly")

    assert paused.rows == [["sweep", "paused"], ["nightly", "paused"]]
    assert again.items == [{"name": "sweep", "now": "paused", "error": None}]
    assert [row[:2] for row in resumed.rows] == [
        ["sweep", "resumed"],
        ["nightly", "resumed"],
    ]
    assert resumed.rows[0][2].startswith("next run in ")
    assert not stored(kue, "sweep").paused


def test_resuming_what_was_not_paused_exits_with_1(kue: CommandLine) -> None:
    type_in(kue, "schedule add sweep clean --every 10m")

    said = kue("schedule", "resume", "sweep")

    assert (said.code, said.out) == (1, "")
    assert said.err == "kue: sweep was not paused\n"


def test_a_schedule_is_run_now_also_while_it_is_paused(kue: CommandLine) -> None:
    type_in(kue, "schedule add sweep email '[7]' --every 10m --priority high")
    kue("schedule", "pause", "sweep")

    said = kue("schedule", "run", "sweep")

    assert (said.code, said.out, said.err) == (0, "1\n", "")
    job = kue.arrange(lambda store: get_one(store, 1))
    assert (job.type, job.data, job.priority) == ("email", [7], -10)
    assert kue("schedule", "run", "sweep", "--json").items == [
        {"id": 2, "type": "email", "new": True}
    ]


def test_a_run_whose_unique_key_is_held_adds_nothing(kue: CommandLine) -> None:
    type_in(kue, "schedule add sweep email --every 10m --unique k")
    kue("schedule", "run", "sweep")

    said = kue("schedule", "run", "sweep")

    assert (said.code, said.out) == (0, "1\n")
    assert said.err == "kue: job 1 has this unique key already; nothing was added\n"
    assert kue.arrange(count_of) == {State.WAITING: 1}
    assert kue("schedule", "list").rows[0][6] == "o-"


def test_schedules_are_removed_and_their_jobs_stay(kue: CommandLine) -> None:
    type_in(kue, "schedule add sweep email --every 10m")
    kue("schedule", "run", "sweep")

    said = kue("schedule", "remove", "sweep")

    assert (said.code, said.rows, said.err) == (0, [["sweep", "removed"]], "")
    assert kue.arrange(lambda store: store.schedules()) == []
    assert kue.arrange(count_of) == {State.WAITING: 1}


def test_removing_a_schedule_of_code_says_that_it_comes_back(kue: CommandLine) -> None:
    kue.arrange(declare)

    said = kue("schedule", "remove", "digest")

    assert said.rows == [["digest", "removed"]]
    assert said.err == (
        "kue: note: shop.tasks declares digest in code: it comes back when a worker "
        "starts; to stop it, delete it there, or pause it\n"
    )


@pytest.mark.parametrize("verb", ["pause", "remove"])
def test_the_others_are_changed_when_one_is_unknown(
    kue: CommandLine, verb: str
) -> None:
    type_in(kue, "schedule add sweep clean --every 10m")

    said = kue("schedule", verb, "swep", "sweep", "--json")

    message = "no schedule is named 'swep'; did you mean 'sweep'?"
    assert said.code == 1
    assert said.err == f"kue: {message}\n"
    assert said.items == [
        {"name": "swep", "now": None, "error": message},
        {"name": "sweep", "now": f"{verb}d", "error": None},
    ]


@pytest.mark.parametrize("verb", ["show", "next", "pause", "resume", "run", "remove"])
def test_an_unknown_schedule_exits_with_1(kue: CommandLine, verb: str) -> None:
    type_in(kue, "schedule add sweep clean --every 10m")

    said = kue("schedule", verb, "nightly")

    assert (said.code, said.out) == (1, "")
    assert said.err == "kue: no schedule is named 'nightly'; schedules: sweep\n"


# -- audit ---------------------------------------------------------------------


def test_changes_of_schedules_are_in_the_audit_log(kue: CommandLine) -> None:
    added = """schedule add sweep clean '{"password": "hunter2"}' --every 10m"""
    type_in(kue, added)
    type_in(kue, added)
    kue("schedule", "pause", "sweep", "nope")
    kue("schedule", "resume", "sweep")
    kue("schedule", "run", "sweep")
    kue("schedule", "remove", "sweep")
    for looked in ("list", "show sweep", "next sweep"):
        kue("schedule", *looked.split())

    acts = kue.arrange(lambda store: store.acts(500)).acts[::-1]

    assert [(act.what, act.target, act.status) for act in acts] == [
        ("schedule.add", "sweep clean", 200),
        ("schedule.pause", "sweep nope", 409),
        ("schedule.resume", "sweep", 200),
        ("schedule.run", "sweep", 200),
        ("schedule.remove", "sweep", 200),
    ]
    assert json.loads(acts[0].detail) == {"every": "0:10:00"}
    assert "hunter2" not in repr(acts)
