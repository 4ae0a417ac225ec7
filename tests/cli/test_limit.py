"""``kue limit``: list, show, set and clear; and jobs that wait for a limit."""

from __future__ import annotations

import re

import pytest

from kue.model.job import Job
from kue.model.named_limits import LimitRule, StoredLimit
from kue.store.contract import Store
from tests.cli.test_audit import acts
from tests.support.command_line import CommandLine
from tests.support.jobs import add_one, claim_ids, claim_one, get_one

FIVE = LimitRule(concurrency=5)


@pytest.fixture(autouse=True)
def store_with_a_job(kue: CommandLine) -> None:
    """Have a store: a first job creates it."""
    kue("job", "add", "report")


def stored(kue: CommandLine) -> dict[str, StoredLimit]:
    return kue.arrange(lambda store: store.named_limits())


async def declare(store: Store) -> None:
    """Have a limit as a worker writes it that starts."""
    await store.set_named_limit("stripe", StoredLimit(FIVE, FIVE))


async def hold_one(store: Store) -> int:
    """Have one job of ann running and another one held, whose id is returned."""
    await store.set_named_limit("stripe", StoredLimit(LimitRule(concurrency=1)))
    await add_one(store, type="email", limited_by={"stripe": "ann"})
    await claim_one(store, "email", now=await store.now())
    held = await add_one(store, type="email", limited_by={"stripe": "ann"})
    assert await claim_ids(store, "email", now=await store.now()) == []
    return held


async def hold_by_rate(store: Store) -> Job:
    """Have a job that waits until an hourly rate lets it start."""
    rule = LimitRule(rate=1, per=3_600_000)
    await store.set_named_limit("mail", StoredLimit(rule))
    await add_one(store, type="email", limited_by={"mail": ""})
    await claim_one(store, "email", now=await store.now())
    held = await add_one(store, type="email", limited_by={"mail": ""})
    assert await claim_ids(store, "email", now=await store.now()) == []
    return await get_one(store, held)


# -- set and clear -------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "rule", "words"),
    [
        ("--concurrency 5", FIVE, "5 at once"),
        ("--rate 10/s", LimitRule(rate=10), "10 per second"),
        ("--rate 100/5m", LimitRule(rate=100, per=300_000), "100 per 5 minutes"),
        (
            "--rate 10/s --burst 20",
            LimitRule(rate=10, burst=20),
            "10 per second, bursts of 20",
        ),
    ],
)
def test_a_limit_is_set(
    kue: CommandLine, options: str, rule: LimitRule, words: str
) -> None:
    said = kue("limit", "set", "stripe", *options.split())

    assert (said.code, said.rows, said.err) == (0, [["stripe", words]], "")
    assert stored(kue) == {"stripe": StoredLimit(rule)}


def test_a_limit_that_was_set_is_written_as_json(kue: CommandLine) -> None:
    [item] = kue("limit", "set", "mail", "--rate", "10/s", "--json").items

    assert item == {
        "name": "mail",
        "rule": {
            "words": "10 per second",
            "concurrency": None,
            "rate": 10,
            "per": 1_000,
            "burst": None,
        },
        "declared": None,
        "is_changed": False,
        "running": 0,
        "waiting": 0,
    }


def test_setting_what_programs_declare_keeps_the_declared_rule(
    kue: CommandLine,
) -> None:
    kue.arrange(declare)

    said = kue("limit", "set", "stripe", "--concurrency", 9)

    assert said.rows == [["stripe", "9 at once"]]
    assert "note: programs declare 5 at once for stripe" in said.err
    assert stored(kue)["stripe"] == StoredLimit(LimitRule(concurrency=9), FIVE)
    assert kue("limit", "list").rows == [["stripe", "9 at once", "5 at once", "0", "0"]]
    assert ["declared", "5 at once; it was changed at run time"] in kue(
        "limit", "show", "stripe"
    ).rows


def test_a_new_name_like_a_known_one_is_pointed_out(kue: CommandLine) -> None:
    kue("limit", "set", "stripe", "--concurrency", 5)

    said = kue("limit", "set", "strpe", "--concurrency", 5)

    assert said.code == 0
    assert said.err == "kue: note: limit 'strpe' is new; did you mean 'stripe'?\n"


def test_a_rule_that_is_in_force_already_is_not_noted(kue: CommandLine) -> None:
    for _ in range(2):
        assert kue("limit", "set", "stripe", "--concurrency", 5).code == 0

    assert [act.what for act in acts(kue)] == ["job.add", "limit.set"]


def test_a_limit_is_cleared(kue: CommandLine) -> None:
    kue("limit", "set", "stripe", "--concurrency", 5)
    kue("limit", "set", "mail", "--concurrency", 5)

    assert kue("limit", "clear", "stripe").rows == [["stripe", "cleared"]]
    assert kue("limit", "clear", "mail", "--json").items == [
        {"name": "mail", "cleared": True}
    ]
    assert stored(kue) == {}


def test_clearing_a_declared_limit_says_that_it_comes_back(kue: CommandLine) -> None:
    kue.arrange(declare)

    said = kue("limit", "clear", "stripe")

    assert said.code == 0
    assert "it comes back when a worker starts" in said.err


@pytest.mark.parametrize("verb", ["show", "clear"])
def test_an_unknown_name_is_refused_with_a_suggestion(
    kue: CommandLine, verb: str
) -> None:
    none = kue("limit", verb, "stripe")
    kue("limit", "set", "stripe", "--concurrency", 5)
    said = kue("limit", verb, "stirpe")

    assert (none.code, said.code) == (1, 1)
    assert none.err == "kue: no limit is named 'stripe'; there are no limits yet\n"
    assert said.err == "kue: no limit is named 'stirpe'; did you mean 'stripe'?\n"


# -- list and show -------------------------------------------------------------


def test_without_limits_the_list_says_how_to_set_one(kue: CommandLine) -> None:
    said = kue("limit", "list")

    assert (said.code, said.out) == (0, "")
    assert said.err == "kue: there are no named limits yet; kue limit set sets one\n"


def test_the_list_has_what_runs_and_what_waits(kue: CommandLine) -> None:
    kue.arrange(hold_one)
    kue("limit", "set", "mail", "--rate", "10/s")

    assert kue("limit", "list").rows == [
        ["mail", "10 per second", "", "0", "0"],
        ["stripe", "1 at once", "", "1", "1"],
    ]
    assert [one["waiting"] for one in kue("limit", "list", "--json").items] == [0, 1]


def test_a_limit_shows_its_keys(kue: CommandLine) -> None:
    kue.arrange(hold_one)

    assert kue("limit", "show", "stripe").rows == [
        ["name", "stripe"],
        ["rule", "1 at once"],
        ["declared", "nowhere; it was set at run time"],
        ["running", "1"],
        ["waiting", "1"],
        ["key", "ann", "1", "1", ""],
    ]


def test_a_rate_shows_when_the_next_may_start(kue: CommandLine) -> None:
    held = kue.arrange(hold_by_rate)

    [item] = kue("limit", "show", "mail", "--json").items
    [key] = item["keys"]
    assert (key["running"], key["waiting"]) == (1, 1)
    assert key["opens_at"] == held.held_until

    kue.on_a_terminal()
    shown = kue("limit", "show", "mail").shown
    assert "next start" in shown
    assert re.search(r"in \d+ (h|min)", shown)


def test_a_held_job_says_why_and_until_when(kue: CommandLine) -> None:
    held = kue.arrange(hold_by_rate)

    said = kue("job", "show", held.id)

    facts = {row[0]: row[1] for row in said.rows if len(row) == 2}
    assert facts["state"] == "waiting (waits for limit 'mail', 1 per hour)"
    assert facts["held until"].endswith(")")
    assert facts["limited by"] == "mail"
    [item] = kue("job", "show", held.id, "--json").items
    assert (item["limited_by"], item["held_until"]) == ({"mail": ""}, held.held_until)


def test_a_job_that_waits_for_a_run_has_no_time(kue: CommandLine) -> None:
    held = kue.arrange(hold_one)

    facts = {row[0]: row[1] for row in kue("job", "show", held).rows if len(row) == 2}

    assert facts["state"] == "waiting (waits for limit 'stripe' of 'ann', 1 running)"
    assert facts["limited by"] == "stripe=ann"
    assert "held until" not in facts
