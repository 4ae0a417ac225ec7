"""
Nothing that is read from a store is ever executed or unpickled.

A store is written by every producer; a client that can write to it must not be able
to run code in a worker.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import kue

PACKAGE = Path(kue.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))

BANNED_IMPORTS = {
    "cloudpickle",
    "dill",
    "joblib",
    "jsonpickle",
    "marshal",
    "pickle",
    "shelve",
    "yaml",
}
BANNED_NAMES = {"eval", "exec", "compile", "__import__"}
BANNED_ATTRIBUTES = {"os.system", "os.popen", "builtins.eval", "builtins.exec"}


def findings(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                modules = [alias.name for alias in names]
            case ast.ImportFrom(module=str(module)):
                modules = [module]
            case _:
                modules = []
        yield from (m for m in modules if m.partition(".")[0] in BANNED_IMPORTS)
        match node:
            case ast.Name(id=name) if name in BANNED_NAMES:
                yield name
            case ast.Attribute() if ast.unparse(node) in BANNED_ATTRIBUTES:
                yield ast.unparse(node)


def test_no_module_can_run_what_it_reads() -> None:
    """U-5: a backoff is data or a registered name; no text is ever run."""
    found = {path: list(findings(path.read_text())) for path in MODULES}

    assert {path: names for path, names in found.items() if names} == {}


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "import os, marshal as m",
        "from yaml import load",
        "from dill.source import x",
        "def f(text):\n    return eval(text)",
        "run = exec",
        "import os\nos.system('ls')",
    ],
)
def test_the_search_finds_what_it_looks_for(source: str) -> None:
    assert list(findings(source))
    assert len(MODULES) > 10
