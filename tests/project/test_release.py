"""What a release must agree on."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_the_newest_heading_of_the_changelog_is_this_version() -> None:
    headings = re.findall(
        r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE
    )

    assert headings[0] == PROJECT["project"]["version"]


def test_the_installed_package_is_this_version() -> None:
    assert version("kue") == PROJECT["project"]["version"]


@pytest.mark.parametrize("name", ["dev.txt", "run.txt"])
def test_every_requirement_is_pinned_with_hashes_and_without_an_address(
    name: str,
) -> None:
    text = (ROOT / "requirements" / name).read_text()
    lines = re.sub(r" *#.*\n|\\\n", "", text).splitlines()

    assert "://" not in text
    assert lines
    for line in lines:
        assert re.match(r"[\w.-]+==[\w.]+ .*--hash=sha256:[0-9a-f]{64}", line)


def test_what_the_demo_runs_is_what_the_tests_saw() -> None:
    pins = {
        name: set(
            re.findall(
                # Without where it applies: that differs with who asks for it.
                r"^[\w.-]+==[\w.]+",
                (ROOT / "requirements" / name).read_text(),
                re.MULTILINE,
            )
        )
        for name in ("run.txt", "dev.txt")
    }

    assert pins["run.txt"] < pins["dev.txt"]
