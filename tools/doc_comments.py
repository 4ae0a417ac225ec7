"""
A griffe extension: ``#:`` comments are the docstrings of the fields below them.

The documentation is built with it, so that fields of structs and constants are
explained where the source explains them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import griffe

if TYPE_CHECKING:
    import ast

MARK = "#:"


class DocComments(griffe.Extension):
    """Gives attributes without a docstring the comment that stands above them."""

    def on_attribute_instance(
        self,
        *,
        node: ast.AST | griffe.ObjectNode,
        attr: griffe.Attribute,
        agent: griffe.Visitor | griffe.Inspector,
        **kwargs: Any,
    ) -> None:
        path = attr.filepath
        if attr.docstring or attr.lineno is None or not isinstance(path, Path):
            return
        if text := _comment_above(attr.lines_collection[path], attr.lineno):
            attr.docstring = griffe.Docstring(text, parent=attr)


def _comment_above(lines: list[str], lineno: int) -> str:
    found: list[str] = []
    for line in reversed(lines[: lineno - 1]):
        if not line.lstrip().startswith(MARK):
            break
        found.append(line.lstrip().removeprefix(MARK).strip())
    return " ".join(reversed(found))
