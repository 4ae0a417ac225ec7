"""``kue queue limit``: limits, cap and order of a type."""

from __future__ import annotations

import pytest

from kue.cli.commands.queue_limit import limits_text
from kue.model.job import State
from kue.store.values import Limits, WhenFull
from tests.support.command_line import CommandLine
from tests.support.jobs import add_many, count_of


@pytest.fixture
def kue(kue: CommandLine) -> CommandLine:
    """The command line, on a store with one job."""
    kue.arrange(lambda store: add_many(store, 1))
    return kue


def limits_of(kue: CommandLine) -> Limits | None:
    return kue.arrange(lambda store: store.limits()).get("email")


def test_a_cap_is_set_and_what_is_not_given_stays(kue: CommandLine) -> None:
    kue("queue", "limit", "email", "--concurrency", 5)

    said = kue("queue", "limit", "email", "--max-waiting", 10_000)
    assert said.rows == [
        ["email", "5 at once, at most 10,000 waiting, then refuse"],
    ]
    kue("queue", "limit", "email", "--when-full", "wait", "--full-timeout", "5s")
    kue("queue", "limit", "email", "--concurrency", "none")

    assert limits_of(kue) == Limits(
        max_waiting=10_000, when_full=WhenFull.WAIT, full_timeout=5_000
    )
    [row] = kue("queue", "list").rows
    assert row[-1] == "at most 10,000 waiting, then wait up to 5 s"


def test_a_cap_is_removed_with_what_happens_at_it(kue: CommandLine) -> None:
    kue("queue", "limit", "email", "--max-waiting", 9, "--when-full", "drop-oldest")
    kue("queue", "limit", "email", "--concurrency", 5)

    said = kue("queue", "limit", "email", "--max-waiting", "none")

    assert said.rows == [["email", "5 at once"]]
    assert limits_of(kue) == Limits(concurrency=5)


def test_weights_are_changed_one_by_one(kue: CommandLine) -> None:
    weights = ("--weight", "vip=3", "--weight", "a=b=7", "--weight", "slow=2")
    said = kue("queue", "limit", "email", "--fair", *weights)
    assert said.rows == [["email", "fair (vip 3, a=b 7, slow 2)"]]

    kue("queue", "limit", "email", "--weight", "vip=1", "--weight", "slow=0")
    kue("queue", "limit", "email", "--weight", "a=b=60", "--rate", 9)

    assert limits_of(kue) == Limits(rate=9, fair=True, weights={"a=b": 60})


def test_a_type_that_is_no_longer_fair_has_no_weights(kue: CommandLine) -> None:
    kue("queue", "limit", "email", "--fair", "--weight", "vip=3")

    said = kue("queue", "limit", "email", "--no-fair", "--ageing", "10m")

    assert said.rows == [["email", "ages 10 min a step"]]
    assert limits_of(kue) == Limits(ageing=600_000)


def test_the_last_limit_that_is_removed_leaves_none(kue: CommandLine) -> None:
    kue("queue", "limit", "email", "--ageing", "10m")

    said = kue("queue", "limit", "email", "--ageing", "none", "--json")

    assert said.items == [{"type": "email", "limits": None}]
    assert limits_of(kue) is None


def test_all_of_it_is_removed_at_once(kue: CommandLine) -> None:
    kue("queue", "limit", "email", "--fair", "--max-waiting", 5, "--rate", 1)

    assert kue("queue", "limit", "email", "--none").rows == [["email", "no limits"]]
    assert limits_of(kue) is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("--max-waiting 0", "max_waiting must be 1 or more, not 0"),
        ("--max-waiting many", "'many' is not a number; write 10, or none to remove"),
        ("--when-full wait", "--when-full is for a type with a cap; give --max-wait"),
        ("--full-timeout 5s", "--full-timeout is for a type with a cap"),
        ("--max-waiting 5 --full-timeout 5s", "--full-timeout is for --when-full wait"),
        ("--max-waiting 5 --when-full explode", "'explode' is not one of 'refuse'"),
        ("--weight vip=3", "weights are for groups of a fair type; set fair as well"),
        ("--fair --weight vip", "'vip' is not a weight; write GROUP=N with N from 2"),
        ("--fair --weight =3", "'=3' is not a weight"),
        ("--fair --weight vip=61", "with N from 2 to 60, or 1 to remove it"),
        ("--fair --ageing 10m", "give --no-fair or --ageing none"),
        ("--ageing 8d", "ageing must be at most"),
        ("--ageing soon", "'soon'"),
        ("--ageing 10m --max-waiting 5 --when-full drop-oldest", "'refuse' or 'wait'"),
    ],
)
def test_limits_that_make_no_sense_are_refused(
    kue: CommandLine, given: str, message: str
) -> None:
    said = kue("queue", "limit", "email", *given.split())

    assert said.code == 2
    assert message in said.err
    assert limits_of(kue) is None


@pytest.mark.parametrize(
    ("limits", "text"),
    [
        (None, ""),
        (Limits(), ""),
        (Limits(max_waiting=1), "at most 1 waiting, then refuse"),
        (
            Limits(max_waiting=5, when_full=WhenFull.DROP_OLDEST),
            "at most 5 waiting, then drop the oldest",
        ),
        (Limits(per_key=2, fair=True), "2 of a group at once, fair"),
    ],
)
def test_limits_are_shown_in_words(limits: Limits | None, text: str) -> None:
    assert limits_text(limits) == text


def test_a_job_that_a_full_queue_refuses_is_an_error(kue: CommandLine) -> None:
    kue("queue", "limit", "email", "--max-waiting", 1)

    said = kue("job", "add", "email")

    assert (said.code, said.out) == (1, "")
    [line] = said.err.splitlines()
    assert line.startswith("kue: no job of type 'email' was added: 1 wait already")


def test_of_many_jobs_those_that_fit_are_added(kue: CommandLine) -> None:
    kue("queue", "limit", "email", "--max-waiting", 701)

    said = kue("job", "add", "email", "--count", 1_000)

    assert said.code == 1
    assert len(said.rows) == 500
    added, error = said.err.splitlines()
    assert added == "kue: 700 jobs had been added before this:"
    assert error.startswith("kue: no job of type 'email' was added: 701 wait already")
    counts = kue.arrange(lambda store: count_of(store))
    assert counts == {State.WAITING: 701}


def test_a_job_takes_the_place_of_the_oldest(kue: CommandLine) -> None:
    kue("queue", "limit", "email", "--max-waiting", 1, "--when-full", "drop-oldest")

    said = kue("job", "add", "email")

    assert said.code == 0
    counts = kue.arrange(lambda store: count_of(store))
    assert counts == {State.WAITING: 1, State.CANCELLED: 1}
