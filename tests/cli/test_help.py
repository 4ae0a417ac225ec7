"""Every command, however deep: its help teaches, and the reference has it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from kue.cli import group
from tests.cli.test_main import exit_code
from tests.support.command_line import CommandLine

ROOT = Path(__file__).parents[2]


def commands(
    command: click.Command, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield every command there is with the words that call it."""
    if path:
        yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from commands(inner, (*path, name))


EVERY = dict(commands(group))
OURS = {
    path: command
    for path, command in EVERY.items()
    if path[0]
    in (
        *("job", "queue", "failed", "workers", "bus", "completion", "doctor"),
        *("limit", "schedule", "user", "token", "circuit", "alert", "tag"),
    )
}


@pytest.mark.parametrize(
    "path", [*OURS, ("demo",), ("top",), ("flow", "add")], ids=" ".join
)
def test_the_help_of_a_command_has_an_example_and_the_exit_codes(
    path: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(*path, "--help") == 0

    shown = capsys.readouterr().out
    assert re.search(rf"^ +(\w+: +)?kue {' '.join(path)}\b", shown, re.MULTILINE)
    assert "3  the store cannot be reached" in shown


@pytest.mark.parametrize("path", OURS, ids=" ".join)
def test_every_option_has_help(path: tuple[str, ...]) -> None:
    options = [p for p in OURS[path].params if isinstance(p, click.Option)]

    assert [option.name for option in options if not option.help] == []


@pytest.mark.parametrize("path", OURS, ids=" ".join)
def test_a_command_that_asks_a_queue_takes_a_url_and_speaks_json(
    path: tuple[str, ...],
) -> None:
    if path == ("completion",):
        return
    given = {name for param in OURS[path].params for name in param.opts}

    assert "--url" in given
    assert "--json" in given or isinstance(OURS[path], click.Group)


@pytest.mark.parametrize(
    "noun", ["job", "queue", "failed", "limit", "schedule", "bus", "circuit"]
)
def test_a_noun_alone_shows_its_verbs(
    noun: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(noun) == 0

    assert "Commands:" in capsys.readouterr().out


@pytest.mark.parametrize("path", [*OURS, ("top",)], ids=" ".join)
def test_the_reference_has_every_command_with_its_options(
    path: tuple[str, ...],
) -> None:
    text = (ROOT / "docs" / "reference" / "cli.md").read_text()
    heading = f"{'#' * (len(path) + 1)} kue {' '.join(path)}\n"
    _, found, part = text.partition(f"\n{heading}")
    part = re.split(r"^#", part, maxsplit=1, flags=re.MULTILINE)[0]

    assert found
    names = [name for param in EVERY[path].params for name in param.opts]
    # Said once for all of them, at the top.
    common = {"--url", "--connection", "--json", "url_option"}
    assert [n for n in names if n not in common and n.lower() not in part.lower()] == []


def test_the_examples_of_the_guide_are_commands_there_are() -> None:
    text = (ROOT / "docs" / "guides" / "command-line.md").read_text()
    typed = re.findall(r"\bkue ((?:[a-z]+ ?)+)", text)

    unknown = [
        words for words in typed if not any(_calls(words, path) for path in EVERY)
    ]
    assert len(typed) > 20
    assert unknown == []


def _calls(words: str, path: tuple[str, ...]) -> bool:
    return tuple(words.split()[: len(path)]) == path


def test_jobs_are_added_and_read_from_a_shell_that_completes(kue: CommandLine) -> None:
    [made] = kue("job", "add", "email", '{"to": "ann"}').out.split()

    [job] = kue("job", "list", "--json").items

    assert (job["id"], job["data"]) == (int(made), {"to": "ann"})
    assert kue("job", "show", made).rows[0][0] == "id"
    assert "bash_complete" in kue("completion", "bash").out


#: Its exit codes are those of monitoring systems (test_alert.py).
MONITOR = ("queue", "monitor")


@pytest.mark.parametrize(
    "path", [path for path in OURS if len(path) > 1 and path != MONITOR], ids=" ".join
)
def test_a_store_that_cannot_be_reached_exits_with_3(
    path: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KUE_BUDGET", "50ms")
    monkeypatch.setenv("KUE_URL", "redis://ann:secret@127.0.0.1:1/0")
    needed = {
        "alert set": ["email", "--backlog", "1"],
        "failed rule": ["email", "--dead-letter", "dead"],
        "failed retry": ["7"],
        "failed flush": [],
        "failed prune": ["--older-than", "1d"],
        "job edit": ["7", "--priority", "1"],
        "job move": ["7", "--to", "waiting"],
        "queue clear": ["email", "--state", "failed"],
        "queue limit": ["email", "--rate", "1"],
        "limit set": ["stripe", "--concurrency", "5"],
        "schedule add": ["nightly", "report", "--every", "1d"],
        "user role": ["ann", "admin"],
        "user remove": ["ann"],
        "token add": ["shop", "--scope", "read"],
        "token revoke": ["0123456789ab"],
    }
    arguments = needed.get(" ".join(path), _plain(EVERY[path]))

    assert exit_code(*path, *arguments) == 3

    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("kue: redis://127.0.0.1:1")
    assert "secret" not in captured.err


def _plain(command: click.Command) -> list[str]:
    """Return something for each argument."""
    return ["7" for param in command.params if isinstance(param, click.Argument)]
