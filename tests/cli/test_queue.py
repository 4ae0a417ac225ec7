"""``kue queue``: list, pause, resume, limit, clear, stats."""

from __future__ import annotations

import os
import pty
import time
from datetime import UTC, datetime

import pytest

from kue.model.histogram import Timing
from kue.model.job import Completed, Failed, State
from kue.store.contract import Store
from kue.store.values import Limits
from tests.cli.processes import run_kue
from tests.support.command_line import CommandLine
from tests.support.jobs import (
    HOUR,
    OOPS,
    add_many,
    add_one,
    count_of,
    end,
    job_in,
    start_one,
)


def test_types_are_listed_with_their_counts(kue: CommandLine) -> None:
    kue("job", "add", "email")
    kue("job", "add", "email", "--delay", "1h")
    kue.arrange(lambda store: job_in(store, State.FAILED, "report"))

    email, report = kue("queue", "list").rows

    assert email[:8] == ["email", "1", "0", "1", "0", "0", "0", "0"]
    assert email[8].startswith("20")
    assert report == ["report", "0", "0", "0", "0", "0", "1", "0", "", "", ""]


def test_a_list_tells_of_pauses_and_limits(kue: CommandLine) -> None:
    kue("job", "add", "email")
    kue("queue", "pause", "email", "--reason", "moving", "--by", "ann")
    kue("queue", "limit", "email", "--rate", 100, "--per", "1m", "--concurrency", 5)

    [row] = kue("queue", "list").rows
    [item] = kue("queue", "list", "--json").items
    kue.on_a_terminal()
    shown = kue("queue", "list").shown

    assert row[9:] == ["yes, moving, by ann", "5 at once, 100 each 1 min"]
    assert (item["type"], item["waiting"]) == ("email", 1)
    assert (item["paused"]["reason"], item["limits"]["rate"]) == ("moving", 100)
    assert item["next_since"] > 1_700_000_000_000
    assert "next waits" in shown
    assert "moving" in shown


def test_the_next_job_waits_since_the_time_it_was_added_for(kue: CommandLine) -> None:
    added = int(time.time() * 1000) - 2 * HOUR
    due = added + HOUR

    async def add_for_later(store: Store) -> None:
        at = datetime.fromtimestamp(due / 1000, UTC)
        await add_one(store, at=at, now=added)
        await store.tend(now=due)

    kue.arrange(add_for_later)

    [item] = kue("queue", "list", "--json").items
    assert (item["waiting"], item["next_since"]) == (1, due)


def test_a_job_that_was_promoted_does_not_wait_since_the_time_it_was_due(
    kue: CommandLine,
) -> None:
    kue("job", "add", "email", "--delay", "1h")
    kue("job", "move", "1", "--to", "waiting")

    [item] = kue("queue", "list", "--json").items

    assert item["waiting"] == 1
    assert item["next_since"] < 1000 * time.time() + HOUR // 2


def test_a_list_of_nothing_says_how_to_begin(kue: CommandLine) -> None:
    kue.arrange(lambda store: store.open())

    said = kue("queue", "list")

    assert (said.code, said.out) == (0, "")
    assert said.err == "kue: there are no jobs yet; kue job add adds one\n"


def test_a_type_is_paused_and_resumed(kue: CommandLine) -> None:
    kue("job", "add", "email")

    paused = kue("queue", "pause", "email", "--until", "2h")
    [pause] = kue.arrange(lambda store: store.paused())
    resumed = kue("queue", "resume", "email")

    assert paused.rows[0][:2] == ["email", "paused"]
    assert paused.rows[0][2].startswith("until 20")
    assert (pause.type, pause.by != "") == ("email", True)
    assert pause.until == pytest.approx(pause.at + 7_200_000, abs=60_000)
    assert resumed.rows == [["email", "resumed"]]
    assert kue.arrange(lambda store: store.paused()) == []


def test_every_type_is_paused_by_all(kue: CommandLine) -> None:
    kue("job", "add", "email")

    said = kue("queue", "pause", "--all", "--json")

    assert said.items == [{"type": None, "paused": True, "until": None}]
    assert kue("queue", "list").rows[0][9].startswith("all, by ")
    assert kue("queue", "resume", "--all").rows == [["every type", "resumed"]]


def test_resuming_tells_what_is_still_paused(kue: CommandLine) -> None:
    kue("job", "add", "email")
    kue("queue", "pause", "email")

    said = kue("queue", "resume", "--all")

    assert said.code == 1
    assert said.err.splitlines() == [
        "kue: there is no pause of every type",
        "kue: still paused: email; kue queue resume 'email'",
    ]
    assert kue("queue", "resume", "report").err == "kue: report was not paused\n"


def test_a_pause_of_a_type_that_has_no_jobs_yet_is_made_with_a_note(
    kue: CommandLine,
) -> None:
    kue("job", "add", "email")

    said = kue("queue", "pause", "emails")

    assert said.code == 0
    assert said.err == (
        "kue: note: no job of type 'emails' is known; did you mean 'email'?\n"
    )
    assert [row[0] for row in kue("queue", "list").rows] == ["email", "emails"]


def test_limits_are_changed_one_by_one_and_lifted(kue: CommandLine) -> None:
    kue("job", "add", "email")

    assert kue("queue", "limit", "email").rows == [["email", "no limits"]]
    kue("queue", "limit", "email", "--rate", 10, "--per", "1m")
    said = kue("queue", "limit", "email", "--concurrency", 2, "--per-key", 1, "--json")

    assert said.items == [
        {
            "type": "email",
            "limits": {
                "concurrency": 2,
                "rate": 10,
                "per": 60_000,
                "per_key": 1,
                "max_waiting": None,
                "when_full": "refuse",
                "full_timeout": 30_000,
                "fair": False,
                "ageing": None,
                "weights": {},
            },
        }
    ]
    assert kue.arrange(lambda store: store.limits()) == {
        "email": Limits(concurrency=2, rate=10, per=60_000, per_key=1)
    }
    assert kue("queue", "limit", "email", "--none").rows == [["email", "no limits"]]
    assert kue.arrange(lambda store: store.limits()) == {}


def test_all_jobs_of_a_state_are_cleared(kue: CommandLine) -> None:
    kue.arrange(lambda store: add_many(store, 1_100))
    kue("job", "add", "email", "--delay", "1h")
    kue.on_a_terminal()

    said = kue("queue", "clear", "email", "--state", "waiting", "--json")

    assert said.items == [{"removed": 1_100}]
    assert "Removing jobs" in said.err
    assert said.err.endswith("kue: removed 1,100 jobs\n")
    assert kue.arrange(count_of) == {State.DELAYED: 1}


@pytest.mark.parametrize(
    ("answer", "code", "left"), [("n", 130, 1), ("", 130, 1), ("y", 0, 0)]
)
def test_a_person_is_asked_before_jobs_are_gone(
    kue: CommandLine, answer: str, code: int, left: int
) -> None:
    kue("job", "add", "email")
    ours, theirs = pty.openpty()
    os.write(ours, f"{answer}\n".encode())

    done = run_kue("queue", "clear", "email", "--state", "waiting", stdin=theirs)
    os.close(ours)
    os.close(theirs)

    assert done.returncode == code
    assert "kue: Remove 1 waiting job of type email? [y/N]:" in done.stderr
    assert kue.arrange(count_of).get(State.WAITING, 0) == left


async def a_busy_minute(store: Store) -> None:
    now = await store.now()
    good = await start_one(store, "email", now=now - 500)
    await end(store, good, Completed(), now=now - 400)
    bad = await start_one(store, "email", now=now - 300)
    await end(store, bad, Failed(OOPS), now=now)
    await job_in(store, State.WAITING, "report", now=now - 500)


def test_stats_count_what_happened(kue: CommandLine) -> None:
    kue.arrange(a_busy_minute)

    totals = kue("queue", "stats", "--total")
    minutes = kue("queue", "stats", "email", "--minutes", 5, "--json")

    assert totals.rows == [
        ["email", "2", "1", "1", "200"],
        ["report", "1", "0", "0", ""],
    ]
    assert {item["type"] for item in minutes.items} == {"email"}
    assert sum(item["complete"] for item in minutes.items) == 1
    kue.on_a_terminal()
    assert "mean run" in kue("queue", "stats").shown


def test_totals_have_the_histograms_of_all_minutes(kue: CommandLine) -> None:
    async def two_minutes(store: Store) -> None:
        now = await store.now()
        await a_busy_minute(store)
        await store.measure([Timing("email", {1: 2}, {10: 1})], now=now - 60_000)
        await store.measure([Timing("email", {1: 1, 75: 4}, {10: 1})], now=now)

    kue.arrange(two_minutes)

    email, report = kue("queue", "stats", "--total", "--json").items

    assert (email["waits"], email["runs"]) == ({"1": 3, "75": 4}, {"10": 2})
    assert (report["waits"], report["runs"]) == ({}, {})


def test_stats_of_an_idle_queue_say_so(kue: CommandLine) -> None:
    kue.arrange(lambda store: add_many(store, 1, now=1_700_000_000_000))

    said = kue("queue", "stats", "email", "--minutes", 90)

    assert (said.code, said.out) == (0, "")
    assert said.err == "kue: nothing happened in the last 1 h 30 min\n"


@pytest.mark.parametrize("width", [80, 60])
def test_titles_and_numbers_are_whole_where_there_is_little_room(
    kue: CommandLine, width: int
) -> None:
    """Friction 7: what does not fit is left out, and named."""
    for _ in range(2):
        kue("job", "add", "thumbnail-of-video")
    kue("job", "add", "email", "--delay", "1h")
    kue.on_a_terminal(width=width)

    lines = kue("queue", "list").shown.splitlines()

    assert lines[1].split()[:3] == ["type", "waiting", "active"]
    assert "…" not in "".join(lines)
    assert any(line.split()[:2] == ["thumbnail-of-video", "2"] for line in lines)
    assert max(map(len, lines)) <= width
