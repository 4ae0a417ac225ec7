"""
Find words that the project does not use, and say what to write instead.

    python tools/plain_words.py    exits with 1 if there are any
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

#: What is searched: prose, and the comments, texts and names in code.
FILES = ("src/kue", "docs", "examples", "*.md")
SUFFIXES = frozenset({".py", ".lua", ".js", ".md"})
#: Regular expressions, and what to write instead.
WORDS = {
    r"whoever": "the caller, the client, the worker that …",
    r"anew": "again",
    r"for ever": "forever",
    r"meanwhile": "in the meantime",
    r"tells? whether": "return whether",
    r"mend(s|ed|ing)?": "repair",
    r"ails": "is damaged",
    r"mourn(s|ed|ing)?": "notify of a failure",
    r"upkeep": "maintenance",
    r"robbed": "reclaimed",
    r"in hand": "running",
    r"back in line": "requeued",
    r"ended (well|badly)": "succeeded, failed",
    r"pacemaker|pulse": "heartbeat",
    r"(takes?|took|taking) (its|their) leave": "deregister",
    r"looked after": "supervised",
    r"(?<!there )(?<!here )(is|are) no(?! longer| more\b)": "is not a, has no",
}
_ANY = re.compile(
    r"\b(?:" + "|".join(f"(?P<w{i}>{word})" for i, word in enumerate(WORDS)) + r")\b",
    re.IGNORECASE,
)


def main() -> int:
    listed = subprocess.run(
        ["git", "ls-files", *FILES], stdout=subprocess.PIPE, text=True, check=True
    )
    found = [hit for name in listed.stdout.split() for hit in _hits(Path(name))]
    print("\n".join(found), end="\n" if found else "")
    return bool(found)


def _hits(path: Path) -> list[str]:
    if path.suffix not in SUFFIXES:
        return []
    hits: list[str] = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        for match in _ANY.finditer(line):
            instead = WORDS[list(WORDS)[int(str(match.lastgroup)[1:])]]
            hits.append(f'{path}:{number}: "{match[0].strip()}"; write: {instead}')
    return hits


if __name__ == "__main__":
    sys.exit(main())
