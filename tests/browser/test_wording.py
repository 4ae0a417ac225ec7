"""The texts of the dashboard: plain English, with the words of the field."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import pytest

STATIC = Path(str(files("kue.http.dashboard"))) / "static"
#: Texts in quotes; comments and names in code are not looked at.
TEXT = re.compile(r'"[^"\n]*"|`[^`\n]*`')
COMMENT = re.compile(r"^\s*//.*$", re.MULTILINE)
#: What a reader would stumble over, and what is written instead.
ODD = {
    r"\b[Ww]hoever\b": "the user, everyone who …",
    r"\b(in|of) line\b|\bback in line\b": "waiting, requeued",
    r"\bbeat\b": "heartbeat",
    r"\bupkeep\b": "maintenance",
    r"\bfor good\b": "permanently",
    r"\bgoes on\b|\bto go on\b": "resumes, to continue",
    r"\bSuch as\b": "For example",
    r"\b[Ss]o many\b": "how many",
    r"\bhas it\b|\bcannot tell\b|\bnobody\b|\bNobody\b": "say who or what",
    r"\b(jobs|20) a (minute|second)\b": "per minute",
    r"\bis no \w+[;,.]": "is not a …",
    r"\bin their hands\b|\bin its hands\b": "running",
}


def texts() -> list[tuple[str, str]]:
    """Return all texts of the modules, each with its file."""
    found = []
    for path in sorted(STATIC.rglob("*.js")):
        code = COMMENT.sub("", path.read_text())
        name = str(path.relative_to(STATIC))
        found += [(name, text) for text in TEXT.findall(code) if " " in text]
    return found


@pytest.mark.parametrize(("odd", "better"), ODD.items(), ids=ODD.values())
def test_designer_10_texts_are_plain_english(odd: str, better: str) -> None:
    wrong = [(name, text) for name, text in texts() if re.search(odd, text)]
    assert wrong == [], f"write {better}"
