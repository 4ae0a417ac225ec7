"""``kue schedule``: pause, resume, run, remove, and what the audit log has."""

from __future__ import annotations

import json

import pytest

from kue.model.job import State
from tests.cli.schedules import NIGHTLY, declare, stored, type_in
from tests.support.command_line import CommandLine
from tests.support.jobs import count_of, get_one


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
        {"id": 2, "type": "email", "new": True, "replaced": False}
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
