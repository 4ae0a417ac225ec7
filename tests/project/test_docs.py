"""Documentation that is complete, and whose examples run."""

from __future__ import annotations

import ast
import os
import re
import shlex
import sqlite3
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from contextlib import closing, suppress
from pathlib import Path
from types import CoroutineType
from typing import Any, NamedTuple

import click
import pytest

import kue
from kue.cli import COMMANDS, group
from kue.model import errors
from kue.model.events import Kind
from kue.model.settings import Settings
from kue.store.sqlite import schema
from tests.support.patience import PATIENCE_SECONDS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
#: Those whose examples need another place: ordinary code (test_sync_guide.py,
#: test_laravel_guide.py and tests/km/test_guide.py), a server
#: (tests/http/test_rest_guide.py), Redis (tests/runtime/test_shared_guide.py).
ELSEWHERE = {"sync.md", "kmqueue.md", "laravel.md", "rest-api.md", "shared-data.md"}
PAGES = [
    DOCS / "index.md",
    *(
        page
        for page in sorted((DOCS / "guides").glob("*.md"))
        if page.name not in ELSEWHERE
    ),
]
FENCE = re.compile(
    r"^```python(?: title=\"(.+?)\")?\n(.*?)^```$", re.MULTILINE | re.DOTALL
)


class Example(NamedTuple):
    title: str
    source: str


def examples(page: Path) -> list[Example]:
    return [Example(*found) for found in FENCE.findall(page.read_text())]


TUTORIAL = {example.title: example for example in examples(DOCS / "tutorial.md")}
#: Those that end by themselves.
SCRIPTS = TUTORIAL.keys() - {"app.py"}
KUE = str(Path(sys.executable).with_name("kue"))


def write(found: Iterable[Example], folder: Path) -> None:
    """Save the examples that have a name, as readers are asked to."""
    for example in found:
        if example.title:
            (folder / example.title).write_text(example.source)


def start(folder: Path, *command: str) -> subprocess.Popen[str]:
    """Start a program in *folder*, with nothing of ours in its environment."""
    environ = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("KUE_", "REDIS_"))
    }
    return subprocess.Popen(
        command,
        cwd=folder,
        # A busy machine would be reported as a handler that holds the loop.
        env=environ | {"PYTHONUNBUFFERED": "1", "KUE_BLOCKED": "0s"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(folder: Path, *command: str) -> str:
    """Run a program that must not complain, and return what it wrote."""
    with start(folder, *command) as program:
        output, complaints = program.communicate(timeout=PATIENCE_SECONDS)
    assert (program.returncode, complaints) == (0, "")
    return output


@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_a_program_of_the_tutorial_does_what_is_said(name: str, tmp_path: Path) -> None:
    write(TUTORIAL.values(), tmp_path)

    output = run(tmp_path, sys.executable, "-W", "error", name)

    assert output
    assert output == (shown(DOCS / "tutorial.md", f"python {name}") or output)


def shown(page: Path, command: str) -> str:
    """Return what *page* shows below *command*, which may be nothing."""
    pattern = rf"^\$ {re.escape(command)}\n((?:[^$`].*\n)+)"
    match = re.search(pattern, page.read_text(), re.MULTILINE)
    return "" if match is None else match[1]


def test_the_worker_of_the_tutorial_greets_until_it_is_stopped(tmp_path: Path) -> None:
    write(TUTORIAL.values(), tmp_path)
    run(tmp_path, sys.executable, "add.py")

    with start(tmp_path, KUE, "worker", "app:q") as worker:
        assert worker.stdout is not None
        greeted = {worker.stdout.readline().strip() for _ in range(3)}
        worker.terminate()
        worker.communicate(timeout=PATIENCE_SECONDS)

    assert greeted == {"hello, ann", "hello, bob", "hello, cleo"}
    assert worker.returncode == 0
    assert run(tmp_path, KUE, "job", "log", "1").endswith("hello, ann\n")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
async def test_the_examples_of_a_page_run_one_after_the_other(
    page: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    async with kue.Kue("memory://") as q:
        scope: dict[str, Any] = {"q": q, "kue": kue}
        for example in examples(page):
            code = compile(
                example.source,
                page.name,
                "exec",
                ast.PyCF_ALLOW_TOP_LEVEL_AWAIT,
                # A reader's program has no __future__ of ours.
                dont_inherit=True,
            )
            running = eval(code, scope)
            if isinstance(running, CoroutineType):
                await running


def test_the_list_of_sqlite_tables_is_that_of_the_code() -> None:
    with closing(sqlite3.connect(":memory:")) as db:
        schema.migrate(db, "memory://")
        rows = db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
        tables = {name for (name,) in rows if not name.startswith("sqlite_")}

    assert {name for name, _ in schema.TABLES} == tables


def test_the_architecture_lists_the_folders_in_the_order_of_the_layers() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    named = re.findall(r"^\| `(\w+)/` \|", text, re.MULTILINE)
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())
    [layers] = [
        contract["layers"]
        for contract in contracts["tool"]["importlinter"]["contracts"]
        if contract.get("containers") == ["kue"]
    ]

    assert named == re.findall(r"\w+", " ".join(layers))
    folders = {path.name for path in (ROOT / "src/kue").iterdir() if path.is_dir()}
    assert set(named) == folders - {"__pycache__"}


def test_every_file_that_the_architecture_names_exists() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    named = re.findall(r"`([a-z_0-9]+/[a-z_0-9/]+\.(?:py|lua))`", text)

    assert len(named) > 50
    assert [name for name in named if not (ROOT / "src/kue" / name).exists()] == []


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("events", [f"`{kind}`" for kind in Kind]),
        ("settings", [f"`{name}`" for name in Settings.__struct_fields__]),
        (
            "errors",
            [
                name
                for name, value in vars(errors).items()
                if isinstance(value, type) and issubclass(value, Exception)
            ],
        ),
    ],
)
def test_the_reference_names_everything(page: str, names: list[str]) -> None:
    text = (DOCS / "reference" / f"{page}.md").read_text()

    assert [name for name in names if name not in text] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_the_reference_names_every_command_with_its_options(name: str) -> None:
    command = group.get_command(click.Context(group), name)
    assert command is not None
    text = (DOCS / "reference" / "cli.md").read_text()
    _, _, part = text.partition(f"## kue {name}\n")
    part = part.partition("\n## ")[0]

    options = [name for param in command.params for name in param.opts]
    assert part
    assert [name for name in options if name not in part.lower()] == []


def commands() -> list[str]:
    """Return every call of the command line that a page shows."""
    pages = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
    texts = [page.read_text() for page in pages]
    found = [re.findall(r"^\$ .*?\b(kue .+)$", text, re.MULTILINE) for text in texts]
    return sorted({line for lines in found for line in lines})


@pytest.mark.parametrize("line", commands())
def test_a_command_that_is_shown_exists_with_its_options(line: str) -> None:
    # What follows is the shell's, or a comment.
    words = shlex.split(re.split(r"[|<>;&)]| #", line.replace("$id", "7"))[0])[1:]
    command: click.Command = group
    while isinstance(command, click.Group):
        options = [word for word in words if not word.startswith("-")]
        context = click.Context(command)
        found = command.get_command(context, options[0]) if options else None
        if found is None:
            assert command.invoke_without_command, line
            break
        command = found
        words.remove(options[0])

    # Help is shown, and that is all.
    with suppress(click.exceptions.Exit):
        command.make_context(line, words)


@pytest.mark.parametrize("record", sorted((DOCS / "decisions").glob("0*.md")))
def test_every_decision_is_listed_and_has_its_three_parts(record: Path) -> None:
    text = record.read_text()

    assert re.findall(r"^## (.+)", text, re.MULTILINE) == [
        "Context",
        "Decision",
        "Consequences",
    ]
    assert f"({record.name})" in (DOCS / "decisions" / "index.md").read_text()
    assert f"decisions/{record.name}" in (ROOT / "mkdocs.yml").read_text()
