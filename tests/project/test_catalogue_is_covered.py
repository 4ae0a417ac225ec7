"""
Every known defect of the systems Kue comes from is a test of ours.

A test says which by its number in the docstring: ``D-17: …``.  D are those of Vert.x
Kue, U those of Automattic's Kue, K those of KMQueue.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent
NUMBER = re.compile(r"\b([DUK]-\d+)\b")

NUMBERS = [
    *(f"D-{n}" for n in range(1, 50)),
    *(f"U-{n}" for n in range(1, 12)),
    *(f"K-{n}" for n in range(1, 13)),
]
#: What belongs to a part that is built later, and to which.
LATER: dict[str, str] = {}


@cache
def named_in_tests() -> set[str]:
    """Return the numbers that the docstrings of tests and their modules name."""
    named: set[str] = set()
    for path in TESTS.rglob("test_*.py"):
        tree = ast.parse(path.read_text())
        tests = [
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            and node.name.startswith("test_")
        ]
        for node in [tree, *tests]:
            named.update(NUMBER.findall(ast.get_docstring(node) or ""))
    return named


@pytest.mark.parametrize("number", [n for n in NUMBERS if n not in LATER])
def test_the_defect_has_a_test(number: str) -> None:
    assert number in named_in_tests()


def test_nothing_is_put_off_that_is_there() -> None:
    """A reason in LATER is removed when the test is written."""
    assert not LATER.keys() & named_in_tests()


def test_no_test_names_a_defect_that_is_not_known() -> None:
    assert set(NUMBERS) >= named_in_tests()
