"""
Lua scripts: loads those beside this module, or of another package.

A line ``--- @include lib/name`` in a script is replaced with ``lua/lib/name.lua``.
Includes do not nest: a script lists everything that it needs.
"""

from __future__ import annotations

import hashlib
import re
from functools import cache
from importlib import resources
from typing import NamedTuple

_INCLUDE = re.compile(r"^--- @include (lib/\w+)$", re.MULTILINE)
_HOME = "kue.store.redis"


class Script(NamedTuple):
    """A script's text, and the digest by which Redis identifies it."""

    name: str
    source: str
    sha: str


@cache
def load(name: str, package: str = _HOME) -> Script:
    """Return script *name* of a *package*, with its includes."""
    text = _read(package, name)
    source = _INCLUDE.sub(lambda match: _read(package, match[1]), text)
    # Redis identifies scripts by SHA-1; this is not a matter of security.
    sha = hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()
    return Script(name, source, sha)


def names(package: str = _HOME) -> list[str]:
    """Return the name of every script of a *package*."""
    return sorted(
        file.name.removesuffix(".lua")
        for file in (resources.files(package) / "lua").iterdir()
        if file.name.endswith(".lua")
    )


def _read(package: str, name: str) -> str:
    path = resources.files(package).joinpath("lua", *f"{name}.lua".split("/"))
    return path.read_text(encoding="utf-8")
