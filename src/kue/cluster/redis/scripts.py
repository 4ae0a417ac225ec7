"""Loads the Lua scripts beside this module; ``--- @include lib/name`` is replaced."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources

_INCLUDE = re.compile(r"^--- @include (lib/\w+)$", re.MULTILINE)
_LUA = resources.files(__package__) / "lua"


@cache
def source(name: str) -> str:
    """Return the text of script *name*."""
    return _INCLUDE.sub(lambda match: _read(match[1]), _read(name))


def names() -> list[str]:
    """Return the name of every script."""
    return sorted(
        file.name.removesuffix(".lua")
        for file in _LUA.iterdir()
        if file.name.endswith(".lua")
    )


def _read(name: str) -> str:
    path = _LUA
    for part in f"{name}.lua".split("/"):
        path = path / part
    return path.read_text(encoding="utf-8")
