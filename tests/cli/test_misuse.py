"""Commands that make no sense: an exit code, a message, and nothing is done."""

from __future__ import annotations

import shlex

import pytest

from tests.support.command_line import CommandLine


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("completion tcsh", "'tcsh' is not one of 'bash', 'zsh', 'fish'"),
        ("failed retry", "give job ids, or --all"),
        ("failed retry 7 --all", "give job ids, or --all"),
        ("failed retry 7 --type email", "--type, --error and --since go with --all"),
        ("job edit 1", "give something to change, such as --priority high"),
        ("job edit 1 --attempts 0", "attempts must be from 1 to 1,000,000, not 0"),
        ("job edit 1 --data {", "data is not JSON"),
        ("job edit - --data -", "ids and data cannot both come from standard input"),
        ("job edit seven", "'seven' is not a job id; ids are whole numbers such as 7"),
        ("job edit 0", "'0' is not a job id"),
        ("job list --data user.id", "PATH=VALUE"),
        ("job list --data =42", "PATH=VALUE"),
        ("job list --data ''", "PATH=VALUE"),
        ("job list --state asleep", "state 'asleep' is unknown; there are waiting"),
        ("job list --cursor x", "cursor 'x' did not come from a page; leave it out"),
        ("job list --since noon", "'noon' is not a time; write 2026-11-15T09:30:00Z"),
        ("job list --limit 0", "0 is not in the range x>=1"),
        ("job move 1 --to delayed", "--to delayed needs one of --at and --delay"),
        ("job move 1 --to waiting --delay 1s", "--at and --delay go with --to delayed"),
        ("job move 1 --to failed", "'failed' is not one of 'waiting', 'delayed'"),
        ("job move 1", "Missing option '--to'"),
        ("queue clear email", "Missing option '--state'"),
        ("queue clear email --state active", "running jobs are not cleared; cancel"),
        ("queue limit email --rate 0", "rate must be 1 or more, not 0; or pause"),
        ("queue limit email --rate 5 --per 0", "per must be at least a millisecond"),
        ("queue limit email --none --rate 5", "--none removes all limits; give no oth"),
        ("limit set stripe", "give --concurrency or --rate"),
        ("limit set stripe --concurrency 1 --rate 1/s", "give --concurrency or --rate"),
        ("limit set stripe --concurrency 0", "concurrency must be at least 1, not 0"),
        ("limit set stripe --concurrency 1 --burst 2", "--burst is part of a rate"),
        ("limit set stripe --rate 5", "a rate is written as number/time, such as"),
        ("limit set stripe --rate 5/0s", "the time of a rate must be more than 0"),
        ("limit set .. --rate 5/s", "limit must not be '..'"),
        ("job add email --limited-by =7", "limit must"),
        ("job add email --limited-by a=1 --limited-by a=2", "one key of a limit"),
        ("queue pause", "give a type, or --all"),
        ("queue pause email --all", "give a type, or --all"),
        ("queue pause email --until 2020-01-01T00:00Z", "is a time that has passed"),
        ("queue resume", "give a type, or --all"),
        ("queue resume email --all", "give a type, or --all"),
    ],
)
def test_wrong_use_exits_with_2(kue: CommandLine, command: str, message: str) -> None:
    kue("job", "add", "email")

    said = kue(*shlex.split(command))

    assert (said.code, said.out) == (2, "")
    assert message in said.err


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("job list --type emial", "no job of type 'emial' is known; did you mean"),
        ("job list --type zzz", "is known; types: email"),
        ("queue clear emai --state failed", "did you mean 'email'?"),
    ],
)
def test_an_unknown_type_exits_with_1(
    kue: CommandLine, command: str, message: str
) -> None:
    kue("job", "add", "email")

    said = kue(*shlex.split(command))

    assert (said.code, said.out) == (1, "")
    assert message in said.err
