"""S-5: changes that are made on the command line are in the audit log."""

from __future__ import annotations

import asyncio
import json
import os
import pwd
import signal
from typing import Any

import pytest

from kue import Kue
from kue.store.contract import Store
from kue.store.values import AuditEntry
from tests.support.command_line import CommandLine


def acts(kue: CommandLine) -> list[AuditEntry]:
    """Return what was done, the oldest first."""

    async def read(store: Store) -> list[AuditEntry]:
        return (await store.acts(500)).acts[::-1]

    return kue.arrange(read)


def test_a_pause_is_noted_with_who_what_and_why(
    kue: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Anybody may set it; it says nothing of who they are.
    monkeypatch.setenv("LOGNAME", "somebody-else")
    kue("job", "add", "email")
    kue("queue", "pause", "email", "--reason", "moving")

    [_, act] = acts(kue)

    assert act.who == f"cli:{pwd.getpwuid(os.getuid()).pw_name}"
    assert (act.what, act.target, act.status) == ("queue.pause", "email", 200)
    assert json.loads(act.detail) == {"reason": "moving"}
    assert act.address


def test_a_user_without_a_name_is_noted_by_number(
    kue: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 2**31 - 5)
    kue("job", "add", "email")

    [act] = acts(kue)

    assert act.who == f"cli:{2**31 - 5}"


@pytest.mark.parametrize(
    ("arguments", "what", "target"),
    [
        (("job", "add", "email", '{"password": "hunter2"}'), "job.add", "email"),
        (("job", "edit", "1", "--priority", "high"), "job.edit", "1"),
        (("job", "cancel", "1"), "job.cancel", "1"),
        (("job", "remove", "1"), "job.remove", "1"),
        (("queue", "resume", "email"), "queue.resume", "email"),
        (("queue", "limit", "email", "--rate", "5"), "queue.limit", "email"),
        (
            ("queue", "clear", "email", "--state", "waiting", "--yes"),
            "queue.clear",
            "email",
        ),
        (("circuit", "open", "stripe"), "circuit.open", "stripe"),
        (("circuit", "close", "stripe"), "circuit.close", "stripe"),
        (("limit", "set", "stripe", "--concurrency", "5"), "limit.set", "stripe"),
        (("token", "add", "shop", "--scope", "read"), "token.add", "shop"),
        (("doctor", "--repair"), "doctor", ""),
    ],
)
def test_every_kind_of_change_is_noted(
    kue: CommandLine, arguments: tuple[str, ...], what: str, target: str
) -> None:
    kue("job", "add", "email")

    kue(*arguments)

    last = acts(kue)[-1]
    assert (last.what, last.target) == (what, target)
    assert "hunter2" not in repr(acts(kue))


def test_looking_is_not_noted(kue: CommandLine) -> None:
    kue("job", "add", "email")
    for arguments in (
        ("job", "list"),
        ("job", "show", "1"),
        ("queue", "list"),
        ("queue", "limit", "email"),
        ("limit", "list"),
        ("token", "list"),
        ("doctor",),
    ):
        kue(*arguments)

    assert [act.what for act in acts(kue)] == ["job.add"]


def test_a_password_is_never_noted(kue: CommandLine) -> None:
    kue("user", "add", "ann", "--role", "admin", stdin="correct horse")

    [act] = acts(kue)

    assert (act.what, act.target) == ("user.add", "ann")
    assert json.loads(act.detail) == {"role": "admin"}


def test_a_change_that_was_interrupted_is_noted(
    kue: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    pause = Kue.pause

    async def interrupted(q: Kue, *given: Any, **options: Any) -> None:
        await pause(q, *given, **options)
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.Event().wait()

    monkeypatch.setattr(Kue, "pause", interrupted)
    kue("job", "add", "email")

    assert kue("queue", "pause", "email").code == 130

    assert [(act.what, act.status) for act in acts(kue)] == [
        ("job.add", 200),
        ("queue.pause", 409),
    ]
