"""``kue job add``: one job, many, and what cannot be one."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from kue.model.job import State
from tests.cli.processes import start_kue
from tests.support.command_line import CommandLine
from tests.support.jobs import count_of, get_one


def test_the_id_of_a_job_that_was_added_is_all_that_is_written(
    kue: CommandLine,
) -> None:
    said = kue("job", "add", "email", '{"to": "ann"}')

    assert (said.code, said.out, said.err) == (0, "1\n", "")
    job = kue.arrange(lambda store: get_one(store, 1))
    assert (job.type, job.data, job.state) == ("email", {"to": "ann"}, State.WAITING)


def test_every_option_arrives(kue: CommandLine) -> None:
    options = "--priority high --delay 10m --attempts 3 --backoff 1s,10s --timeout 30 "
    options += "--ttl 5s --expires 2h --unique k --unique-for 1h --group g "
    options += "--max-exceptions 2 --retry-until 1h"
    options += " --limited-by stripe --limited-by customer=42"

    kue("job", "add", "email", *options.split(), "--tag", "a", "--tag", "b")

    job = kue.arrange(lambda store: get_one(store, 1))
    assert (job.priority, job.spec.delay, job.max_attempts) == (-10, 600_000, 3)
    assert (job.spec.timeout, job.ttl, job.expires) == (30_000, 5_000, 7_200_000)
    assert (job.unique, job.unique_for, job.group) == ("k", 3_600_000, "g")
    assert (job.spec.max_exceptions, job.spec.retry_for) == (2, 3_600_000)
    assert job.tags == ("a", "b")
    assert job.limited_by == (("stripe", ""), ("customer", "42"))
    assert getattr(job.spec.backoff, "delays", None) == (1_000, 10_000)


def test_a_job_waits_for_others(kue: CommandLine) -> None:
    kue("job", "add", "load", "--count", 2)

    said = kue("job", "add", "report", "--after", 1, "--after", 2)
    other = kue("job", "add", "mail", "--after=3", "--on-parent-failure", "only")

    assert (said.out, other.out) == ("3\n", "4\n")
    report = kue.arrange(lambda store: get_one(store, 3))
    mail = kue.arrange(lambda store: get_one(store, 4))
    assert (report.state, report.spec.after) == (State.BLOCKED, (1, 2))
    assert (mail.state, mail.spec.after) == (State.BLOCKED, (3,))
    assert (report.on_parent_failure, mail.on_parent_failure) == ("block", "only")


@pytest.mark.parametrize("more", [[], ["--count", 3]])
def test_a_parent_that_was_never_added_is_named(
    kue: CommandLine, more: list[str | int]
) -> None:
    kue("job", "add", "email")

    said = kue("job", "add", "email", "--after", 1, "--after", 9, *more)

    assert (said.code, said.out) == (1, "")
    assert "job 9, which one should wait for, was never added" in said.err
    assert kue.arrange(count_of) == {State.WAITING: 1}


def test_what_cannot_be_a_parent_is_refused(kue: CommandLine) -> None:
    word = kue("job", "add", "report", "--after", "load")
    policy = kue("job", "add", "report", "--after", 1, "--on-parent-failure", "wait")
    alone = kue("job", "add", "report", "--on-parent-failure", "run")

    assert (word.code, policy.code, alone.code) == (2, 2, 2)
    assert "'load' is not a job id; ids are whole numbers such as 7" in word.err
    assert "'block', 'cancel', 'run', 'only'" in policy.err
    assert "--on-parent-failure needs --after" in alone.err


def test_attempts_may_be_unlimited_until_a_moment(kue: CommandLine) -> None:
    given = ["--attempts", "unlimited", "--retry-until", "2099-01-01T00:00:00Z"]

    kue("job", "add", "email", *given)

    job = kue.arrange(lambda store: get_one(store, 1))
    assert (job.max_attempts, job.retry_until) == (0, 4_070_908_800_000)


@pytest.mark.parametrize("at", ["2099-01-01T00:00:00Z", "2098-12-31T19:00:00-05:00"])
def test_a_job_can_be_due_at_a_moment(kue: CommandLine, at: str) -> None:
    kue("job", "add", "email", "--at", at)

    job = kue.arrange(lambda store: get_one(store, 1))
    assert (job.state, job.promote_at) == (State.DELAYED, 4_070_908_800_000)


def test_data_may_come_from_standard_input(kue: CommandLine) -> None:
    kue("job", "add", "email", "-", stdin='{\n  "to": "ann"\n}\n')

    assert kue.arrange(lambda store: get_one(store, 1)).data == {"to": "ann"}


def test_many_of_the_same_are_added(kue: CommandLine) -> None:
    said = kue("job", "add", "email", "7", "--count", 1_100)

    assert said.rows == [[str(number)] for number in range(1, 1_101)]
    assert said.err == "kue: added 1,100 jobs\n"
    assert kue.arrange(count_of) == {State.WAITING: 1_100}


def test_each_line_of_standard_input_becomes_a_job(kue: CommandLine) -> None:
    said = kue("job", "add", "email", "--stdin", "--json", stdin='{"i": 1}\n\n[2]\n"é"')

    assert said.items == [
        {"id": number, "type": "email", "new": True, "replaced": False}
        for number in (1, 2, 3)
    ]
    assert kue.arrange(lambda store: get_one(store, 3)).data == "é"


def test_what_has_arrived_is_added_while_more_is_waited_for(kue: CommandLine) -> None:
    words = ("job", "add", "email", "--stdin")
    with start_kue(*words, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write('{"i": 1}\n{"i": 2}\n{"i"')
        process.stdin.flush()
        added = [process.stdout.readline() for _ in range(2)]
        # It waits for the rest of the third line.
        process.send_signal(signal.SIGINT)
        complaints = process.stderr.read() if process.stderr else ""
        process.stdin.close()

    assert added == ["1\n", "2\n"]
    assert process.returncode == 130
    assert "Traceback" not in complaints
    assert kue.arrange(count_of) == {State.WAITING: 2}


def test_on_a_terminal_many_jobs_are_counted_not_listed(kue: CommandLine) -> None:
    kue.on_a_terminal()

    said = kue("job", "add", "email", "--count", 600)

    assert said.out == ""
    assert "Adding jobs" in said.err
    assert said.err.endswith("kue: added 600 jobs\n")


def test_a_line_that_is_no_json_is_named_and_what_came_before_is_kept(
    kue: CommandLine,
) -> None:
    lines = "1\n" * 501 + "{oops}\n"

    said = kue("job", "add", "email", "--stdin", stdin=lines)

    assert said.code == 2
    first, second = said.err.splitlines()
    assert first == "kue: 500 jobs had been added before this:"
    assert "line 502 of standard input is not JSON" in second
    assert kue.arrange(count_of) == {State.WAITING: 500}


def test_a_unique_key_that_is_held_answers_with_its_holder(kue: CommandLine) -> None:
    kue("job", "add", "email", "--unique", "k")

    said = kue("job", "add", "email", "--unique", "k")

    assert (said.code, said.out) == (0, "1\n")
    assert said.err == ("kue: job 1 has this unique key already; nothing was added\n")


def test_a_rejected_job_fails_with_the_id_of_the_holder(kue: CommandLine) -> None:
    kue("job", "add", "email", "--unique", "k")

    said = kue("job", "add", "email", "--unique", "k", "--on-conflict", "reject")

    assert (said.code, said.out) == (1, "")
    assert "no job was added: job 1 holds the unique key 'k'" in said.err
    assert kue.arrange(count_of) == {State.WAITING: 1}


def test_a_job_that_has_not_started_is_replaced(kue: CommandLine) -> None:
    kue("job", "add", "email", "1", "--unique", "k")

    said = kue("job", "add", "email", "2", "--unique", "k", "--on-conflict", "replace")

    assert (said.code, said.out) == (0, "1\n")
    assert said.err == "kue: job 1 had this unique key; it was replaced\n"
    assert kue.arrange(lambda store: get_one(store, 1)).data == 2


def test_options_of_a_unique_key_arrive_and_are_shown(kue: CommandLine) -> None:
    given = "--unique-until start --unique-at-most 2h --unique-for 1h"
    kue("job", "add", "email", "--unique", "k", *given.split())
    bounced = ("--debounce", "5m", "--debounce-max", "1h")
    kue("job", "add", "sms", "--unique", "k", *bounced)
    kue("job", "add", "fax", "--unique", "k", "--throttle", "1h")

    email = kue.arrange(lambda store: get_one(store, 1))
    assert (email.unique_until, email.unique_at_most) == ("start", 7_200_000)
    sms = kue.arrange(lambda store: get_one(store, 2))
    assert (sms.state, sms.spec.delay) == (State.DELAYED, 300_000)
    fax = kue.arrange(lambda store: get_one(store, 3))
    assert (fax.unique_for, fax.unique_at_most) == (3_600_000, 3_600_000)
    shown = kue("job", "show", "1").out
    assert "unique until" in shown
    assert "unique at most" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{to: 1}"], "data is not JSON: object keys must be strings at character 2"),
        (['{"é": 1,}'], "trailing comma in object at character 9, near"),
        (["["], "data is not JSON: Input data was truncated, near '['"),
        (["--priority", "urgent"], "priority 'urgent' is unknown; there are critical"),
        (["--priority", "5000"], "priority must be from -1024 to 1023, not 5000"),
        (["--attempts", "many"], "'many' is not a number of attempts; write 5, or un"),
        (["--max-exceptions", "21"], "max_exceptions must be from 1 to 20, not 21"),
        (["--retry-until", "soon"], "'soon' is not a time; write 2026-11-15T09:30:00Z"),
        (["--attempts", "0"], "attempts must be from 1 to 1,000,000, not 0"),
        (["--delay", "soon"], "delay 'soon' cannot be read; write a number with a uni"),
        (["--delay", "1m", "--at", "2099-01-01T00:00Z"], "give --delay or --at, not "),
        (["--at", "2099-01-01T00:00"], "has no time zone, so it is ambiguous; write "),
        (["--at", "tomorrow"], "'tomorrow' is not a time; write 2026-11-15T09:30:00Z"),
        (["--backoff", "{}", "--ttl", "0"], "ttl must be more than 0; leave it out"),
        (["--backoff", '{"type": "magic"}'], "backoff type 'magic' is unknown"),
        (["--unique-for", "1h"], "unique_for is how long a unique key is held"),
        (["--tag", "a\nb"], "must not contain control characters"),
        (["1", "--stdin"], "--stdin cannot be combined with DATA or --count"),
        (["1", "2"], "Got unexpected extra argument (2)"),
    ],
)
def test_what_makes_no_sense_adds_nothing(
    kue: CommandLine, arguments: list[str], message: str
) -> None:
    said = kue("job", "add", "email", *arguments)

    assert (said.code, said.out) == (2, "")
    [line] = said.err.splitlines()
    assert line.startswith("kue: ")
    assert message in line
    assert line.endswith("(kue job add --help shows how)")
    assert kue.arrange(count_of) == {}


def test_only_adding_makes_a_store(
    tmp_path: Path, kue: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KUE_URL")
    monkeypatch.delenv("KUE_PREFIX")

    looked = kue("job", "list")
    added = kue("job", "add", "email")

    assert looked.code == 2
    assert looked.err.startswith(f"kue: there is no store {tmp_path / 'kue.db'}")
    assert (added.code, added.out) == (0, "1\n")
    assert kue("job", "list").rows[0][:3] == ["1", "email", "waiting"]


def test_the_url_may_stand_at_the_noun_or_at_the_verb(
    kue: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUE_URL", "sqlite:///nowhere.db")

    at_noun = kue("job", "--url", kue.url, "add", "email")
    at_verb = kue("job", "add", "email", "--url", kue.url)

    assert (at_noun.out, at_verb.out) == ("1\n", "2\n")
