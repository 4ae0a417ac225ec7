"""
One script and one style sheet made of the dashboard's files, so that a first visit
takes a few requests instead of a hundred.

The modules keep to two forms: ``import { a, b as c } from "./other.js";``, and
``export`` before a function, a class or a constant.  Each becomes a function that
returns what it exports, and runs after those that it imports from.
"""

from __future__ import annotations

import re
from posixpath import dirname, join, normpath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_IMPORT = re.compile(r'^import \{([^}]*)\} from "([^"]+)";\n', re.MULTILINE)
_EXPORT = re.compile(
    r"^export ((?:async )?function\*?|class|const) ([\w$]+)", re.MULTILINE
)
_LEFT = re.compile(r"^(?:import\b.* from\b|export\b).*", re.MULTILINE)


class BadModule(ValueError):
    """A module that cannot be bundled; the message says why."""


def bundle_modules(modules: Mapping[str, str], entry: str) -> str:
    """
    Return *entry* and all that it imports as one script; names are paths.

    Raises:
        BadModule: One has another form, is missing, or imports itself in a circle.
    """
    written: dict[str, str] = {}
    under_way: list[str] = []

    def write(name: str) -> None:
        if name in written:
            return
        if name in under_way:
            raise BadModule(f"modules import each other: {' → '.join(under_way)}")
        if name not in modules:
            raise BadModule(f"{under_way[-1]} imports {name}, which does not exist")
        under_way.append(name)
        for _, path in _IMPORT.findall(modules[name]):
            write(_resolved(name, path))
        written[name] = _wrapped(name, modules[name])
        under_way.pop()

    write(entry)
    return "\n".join(['"use strict";', *written.values()])


def bundle_styles(sheets: Mapping[str, str]) -> str:
    """Return all sheets as one; those in folders may override the others."""
    names = sorted(sheets, key=lambda name: ("/" in name, name))
    return "\n".join(sheets[name] for name in names)


def _wrapped(name: str, source: str) -> str:
    def imported(match: re.Match[str]) -> str:
        names = re.sub(r"\bas\b", ":", match[1]).replace(" : ", ": ")
        return f"const {{{names}}} = {_variable(_resolved(name, match[2]))};\n"

    exports = [exported for _, exported in _EXPORT.findall(source)]
    body = _EXPORT.sub(r"\1 \2", _IMPORT.sub(imported, source))
    if left := _LEFT.search(body):
        raise BadModule(f"{name} has a form that is not bundled: {left[0]}")
    returned = f"return {{ {', '.join(exports)} }};"
    return f"// {name}\nconst {_variable(name)} = (() => {{\n{body}\n{returned}\n}})();"


def _resolved(name: str, path: str) -> str:
    return normpath(join(dirname(name), path))


def _variable(name: str) -> str:
    return "$" + re.sub(r"\W", "_", name.removesuffix(".js"))
