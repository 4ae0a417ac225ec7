"""``kue alert``, ``kue tag`` and ``kue queue monitor``: thresholds and exit codes."""

from __future__ import annotations

import pytest

from kue.worker import alert_monitor
from tests.support.command_line import CommandLine

SECRET_URL = "https://chat.example.com/hooks/private"


@pytest.fixture(autouse=True)
def _always_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alert_monitor, "TURN_MS", 0)


def test_the_exit_code_says_whether_a_stored_threshold_is_reached(
    kue: CommandLine,
) -> None:
    kue("job", "add", "email")
    kue("alert", "set", "email", "--backlog", "2")
    fine = kue("queue", "monitor")
    kue("job", "add", "email")
    reached = kue("queue", "monitor")
    other = kue("queue", "monitor", "report")
    [item] = kue("queue", "monitor", "email", "--json").items

    assert (fine.code, fine.out, fine.err) == (0, "", "")
    message = "2 jobs wait in queue 'email' (threshold 2)"
    assert (reached.code, reached.rows) == (
        1,
        [["email", "backlog", "2", "2", message]],
    )
    assert reached.err == ""
    assert (other.code, other.out) == (0, "")
    assert (item["type"], item["kind"], item["message"]) == (
        "email",
        "backlog",
        message,
    )


def test_thresholds_of_the_command_are_checked_for_every_type(kue: CommandLine) -> None:
    kue("job", "add", "email")
    kue("job", "add", "report")

    reached = kue("queue", "monitor", "--no-worker", "1ms", "--failures", "20%")
    fine = kue("queue", "monitor", "--oldest", "1h", "--backlog", "2")

    assert reached.code == 1
    assert [row[:2] for row in reached.rows] == [
        ["email", "no_worker"],
        ["report", "no_worker"],
    ]
    assert (fine.code, fine.out) == (0, "")


def test_what_could_not_be_checked_exits_with_2(
    kue: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    kue("job", "add", "email")
    monkeypatch.setenv("KUE_BUDGET", "50ms")
    away = "redis://ann:secret@127.0.0.1:1/0"

    stored = kue("queue", "monitor", "--url", away)
    given = kue("queue", "monitor", "--oldest", "5m", "--url", away)
    monkeypatch.delenv("KUE_BUDGET")
    wrong = kue("queue", "monitor", "--failures", "often")

    assert (stored.code, given.code, wrong.code) == (2, 2, 2)
    assert "could not be checked: redis://127.0.0.1:1" in stored.err
    assert "secret" not in stored.err + given.err
    assert "failures must be a share" in wrong.err


def test_without_thresholds_the_command_says_so(kue: CommandLine) -> None:
    kue("job", "add", "email")

    said = kue("queue", "monitor")

    assert (said.code, said.out) == (0, "")
    assert "there are no thresholds to check" in said.err


def test_thresholds_are_set_listed_and_cleared(kue: CommandLine) -> None:
    kue("job", "add", "email")
    options = ("--oldest", "5m", "--failures", "20%", "--no-worker", "1m")
    kue("alert", "set", "email", *options, "--webhook", SECRET_URL)
    kue("alert", "set", "--backlog", "1000")
    kue("alert", "set", "quiet", "--none")

    default, email, quiet = kue("alert", "list").rows
    items = kue("alert", "list", "--json").items
    cleared = kue("alert", "clear", "email")
    again = kue("alert", "clear", "email")

    assert default[:2] == ["(default)", "backlog 1,000"]
    assert email[1:3] == [
        "oldest 5 min, failures 20%, no worker 1 min",
        "https://chat.example.com/…",
    ]
    assert quiet[:2] == ["quiet", "none"]
    assert (items[0]["type"], items[1]["thresholds"]["oldest"]) == (None, 300_000)
    assert "private" not in str(items)
    assert (cleared.code, again.code) == (0, 1)
    assert "email had no thresholds" in again.err


def test_the_url_of_a_webhook_is_not_in_the_audit_log(kue: CommandLine) -> None:
    kue("job", "add", "email")
    kue("alert", "set", "email", "--backlog", "1", "--webhook", SECRET_URL)

    page = kue.arrange(lambda store: store.acts())

    assert next(act.what for act in page.acts) == "alert.set"
    assert "private" not in str(page.acts)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "give thresholds, or --none"),
        (["--none", "--backlog", "1"], "give thresholds, or --none"),
        (["--backlog", "0"], "backlog must be from 1"),
        (["--backlog", "1", "--webhook", "ftp://x"], "begins with https://"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    kue: CommandLine, options: list[str], message: str
) -> None:
    kue("job", "add", "email")

    said = kue("alert", "set", "email", *options)

    assert said.code == 2
    assert message in said.err


def test_types_and_tags_are_silenced(kue: CommandLine) -> None:
    kue("job", "add", "email")
    kue("alert", "silence", "email")
    kue("alert", "silence", "noisy", "--tag")

    listed = kue("alert", "list")
    quiet = kue("queue", "monitor", "--backlog", "1")
    done, again = kue("alert", "unsilence", "email"), kue("alert", "unsilence", "email")

    assert "silenced types: email" in listed.err
    assert "silenced tags: noisy" in listed.err
    assert (quiet.code, done.code, again.code) == (0, 0, 1)
    assert kue("alert", "unsilence", "noisy", "--tag").code == 0


def test_tags_are_monitored_and_counted(kue: CommandLine) -> None:
    kue("job", "add", "email", "--tag", "vip")
    kue("job", "add", "email")
    kue("tag", "monitor", "vip")

    rows = kue("tag", "list").rows
    [item] = kue("tag", "list", "--json").items
    done, again = kue("tag", "unmonitor", "vip"), kue("tag", "unmonitor", "vip")

    assert rows == [["vip", "1", "0"]]
    assert item == {"tag": "vip", "jobs": 1, "failed": 0}
    assert (done.code, again.code) == (0, 1)
    assert "no tag is monitored" in kue("tag", "list").err
