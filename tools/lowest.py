"""
Print the lowest version that pyproject.toml allows of each package Kue needs.

The tools that test it are pinned as in requirements/dev.txt, without those packages.
With --names, print what to install instead: the packages and the tools by name.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
#: Tools that need newer packages than Kue does; Makefile leaves their tests out.
NEWER = {"import-linter", "mkdocs-material", "mkdocstrings[python]", "schemathesis"}
#: A name, its lowest version, and whatever else is said of it.
_BOUND = re.compile(r"([\w.-]+)(?:\[\w+\])?>=([\w.]+)(?:,[^;]*)?(;.*)?")
_PIN = re.compile(r"^([\w.-]+)==([^\\\n]+)", re.MULTILINE)


def bounds() -> dict[str, str]:
    """Return the lower bounds of what Kue needs, as exact versions."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found: dict[str, str] = {}
    for text in _needed(project):
        match = _BOUND.fullmatch(text)
        if match is None:
            raise SystemExit(f"{text!r} in pyproject.toml has no lower bound")
        name, lowest, marker = match.groups()
        found[name] = f"{name}=={lowest}{marker or ''}"
    return found


def tools(known: dict[str, str]) -> list[str]:
    """Return the pins of all other packages."""
    pins = _PIN.findall((ROOT / "requirements" / "dev.txt").read_text())
    return [f"{name}=={pin.strip()}" for name, pin in pins if name not in known]


def names() -> list[str]:
    """Return what to install: what Kue needs, and what its tests need."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    tools = set(project["dependency-groups"]["dev"]) - NEWER
    return [*_needed(project["project"]), *sorted(tools)]


def _needed(project: dict[str, Any]) -> list[str]:
    """Return what Kue needs, that of its extras included."""
    extras = project["optional-dependencies"].values()
    return [*project["dependencies"], *(text for extra in extras for text in extra)]


if __name__ == "__main__":
    lowest = bounds()
    constraints = [*lowest.values(), *tools(lowest)]
    print(*(names() if "--names" in sys.argv else constraints), sep="\n")
