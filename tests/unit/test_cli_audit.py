"""S-5: changes that are made on the command line are in the audit log."""

from __future__ import annotations

import getpass
import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from kue.store.base import Store
    from kue.store.values import Act
    from tests.support.command_line import CommandLine


def acts(kue: CommandLine) -> list[Act]:
    """Return what was done, the oldest first."""

    async def read(store: Store) -> list[Act]:
        return (await store.acts(500)).acts[::-1]

    return kue.arrange(read)


def test_a_pause_is_noted_with_who_what_and_why(kue: CommandLine) -> None:
    kue("job", "add", "email")
    kue("queue", "pause", "email", "--reason", "moving")

    [_, act] = acts(kue)

    assert act.who == f"cli:{getpass.getuser()}"
    assert (act.what, act.target, act.status) == ("queue.pause", "email", 200)
    assert json.loads(act.detail) == {"reason": "moving"}
    assert act.address


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
