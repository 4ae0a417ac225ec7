"""
Loads the Lua scripts beside this module.

A script may say ``--- @include lib/name``; the text of ``lua/lib/name.lua`` takes the
place of that line.  Includes do not nest: a script that needs more names it itself.
"""

from __future__ import annotations

import hashlib
import re
from functools import cache
from importlib import resources
from typing import NamedTuple

_INCLUDE = re.compile(r"^--- @include (lib/\w+)$", re.MULTILINE)
_LUA = resources.files(__package__) / "lua"


class Script(NamedTuple):
    """A script's text and the digest Redis knows it by."""

    name: str
    source: str
    sha: str


@cache
def load(name: str) -> Script:
    """Return script *name*, includes and all."""
    source = _INCLUDE.sub(lambda match: _read(match[1]), _read(name))
    # SHA-1 because that is how Redis names scripts; nothing rests on its strength.
    sha = hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()
    return Script(name, source, sha)


def names() -> list[str]:
    """Return the name of every script."""
    return sorted(
        file.name.removesuffix(".lua")
        for file in _LUA.iterdir()
        if file.name.endswith(".lua")
    )


def _read(name: str) -> str:
    folder, _, file = name.rpartition("/")
    path = _LUA / folder if folder else _LUA
    return (path / f"{file}.lua").read_text(encoding="utf-8")
