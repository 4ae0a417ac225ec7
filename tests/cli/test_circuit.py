"""``kue circuit``: list, open, close."""

from __future__ import annotations

import os
import pwd
import re

import pytest

from kue.client.circuit_records import CircuitRecords
from kue.model.circuit import CircuitPolicy, CircuitRecord, CircuitRun, after_failure
from kue.store.contract import Store
from tests.support.command_line import CommandLine
from tests.support.jobs import HOUR

POLICY = CircuitPolicy.of(failures=2, within="1h", open_for="1h", max_open_for=None)


def fail(kue: CommandLine, name: str, times: int) -> None:
    """Let runs fail under a circuit."""

    async def change(store: Store) -> None:
        now = await store.now()

        def failed(record: CircuitRecord) -> CircuitRecord:
            run = CircuitRun(7, 7)
            return after_failure(record, POLICY, "ProviderDown: 503", run, now)

        for _ in range(times):
            await CircuitRecords(store).change(name, failed, now)

    kue.arrange(change)


def test_circuits_are_listed_with_their_state_and_last_error(kue: CommandLine) -> None:
    fail(kue, "stripe", 2)
    fail(kue, "paypal", 1)

    paypal, stripe = kue("circuit", "list").rows
    items = kue("circuit", "list", "--json").items
    kue.on_a_terminal(width=160)
    shown = kue("circuit", "list").shown

    assert paypal[:6] == ["paypal", "closed", "", "1", "", ""]
    assert stripe[:2] == ["stripe", "open"]
    assert stripe[2].startswith("20")
    assert stripe[3:6] == ["2", "2 failures in 1 hour", ""]
    assert stripe[6].startswith("20")
    assert stripe[7] == "ProviderDown: 503"
    assert [one["state"] for one in items] == ["closed", "open"]
    assert items[1]["until"] - items[1]["opened_at"] == HOUR
    assert re.search(r"in \d+ min", shown)
    assert "ProviderDown: 503" in shown


def test_a_list_of_nothing_says_so(kue: CommandLine) -> None:
    kue.arrange(lambda store: store.open())

    said = kue("circuit", "list")

    assert (said.code, said.out) == (0, "")
    assert said.err == (
        "kue: no circuit has opened, or had a failure, in the last day\n"
    )


def test_a_circuit_is_opened_and_closed(kue: CommandLine) -> None:
    fail(kue, "stripe", 1)

    opened = kue("circuit", "open", "stripe", "--for", "1h", "--reason", "moves")
    [item] = kue("circuit", "list", "--json").items
    closed = kue("circuit", "close", "stripe")
    again = kue("circuit", "close", "stripe")

    who = pwd.getpwuid(os.getuid()).pw_name
    assert (opened.code, opened.err) == (0, "")
    assert opened.rows[0][:2] == ["stripe", "open"]
    assert opened.rows[0][2].startswith("until 20")
    assert (item["cause"], item["by"]) == (f"opened by {who}: moves", who)
    assert item["until"] - item["opened_at"] == HOUR
    assert (closed.code, closed.rows) == (0, [["stripe", "closed"]])
    assert (again.code, again.out) == (1, "")
    assert again.err == "kue: stripe was not open\n"


def test_both_speak_json(kue: CommandLine) -> None:
    kue("job", "add", "pay")

    [opened] = kue("circuit", "open", "stripe", "--by", "ann", "--json").items
    [closed] = kue("circuit", "close", "stripe", "--json").items

    assert (opened["name"], opened["state"], opened["by"]) == ("stripe", "open", "ann")
    assert opened["until"] - opened["opened_at"] == 300_000
    assert closed == {"name": "stripe", "closed": True}


def test_a_name_that_may_be_mistyped_is_noted(kue: CommandLine) -> None:
    fail(kue, "stripe", 1)

    closed = kue("circuit", "close", "strype")
    opened = kue("circuit", "open", "strype")

    unknown = "no circuit 'strype' has opened or failed in the last day"
    assert closed.code == 1
    assert closed.err == f"kue: {unknown}; did you mean 'stripe'?\n"
    assert opened.code == 0
    assert opened.err == f"kue: note: {unknown}; did you mean 'stripe'?\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("open", "stripe", "--for", "0"), "--for must be longer than 0 and at most"),
        (("open", "stripe", "--for", "soon"), "'soon' cannot be read"),
        (("open", ".."), "circuit name must not be"),
        (("close", ""), "circuit name must have 1 to 200 bytes"),
    ],
)
def test_nonsense_is_refused(
    kue: CommandLine, arguments: tuple[str, ...], message: str
) -> None:
    kue("job", "add", "pay")

    said = kue("circuit", *arguments)

    assert said.code == 2
    assert message in said.err
    assert kue("circuit", "list").out == ""
