"""
Write the tables of Redis keys and SQLite tables in docs/reference from the code.

    python tools/make_key_tables.py            writes them
    python tools/make_key_tables.py --check    exits with 1 if they are stale

A table stands behind a comment that names its source, such as
``<!-- table: kue.store.redis.keys.KEYS -->``, and ends at the next blank line.
"""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "docs" / "reference"
_TABLE = re.compile(
    r"(<!-- table: ([\w.]+)\.(\w+) -->\n\n)(.*?)(?=\n\n|\n*\Z)", re.DOTALL
)


def main() -> int:
    stale = [path for path in sorted(FOLDER.glob("*.md")) if _is_stale(path)]
    for path in stale:
        print(f"{path.name} is stale: run python tools/make_key_tables.py")
    return bool(stale) and "--check" in sys.argv


def _is_stale(path: Path) -> bool:
    """Return whether a page differs from the code; write it unless only checking."""
    text = path.read_text()
    current = _TABLE.sub(lambda found: found[1] + _table(found[2], found[3]), text)
    if "--check" not in sys.argv:
        path.write_text(current)
        return False
    return current != text


def _table(module: str, name: str) -> str:
    rows = getattr(import_module(module), name)
    heads = ("table", "holds") if len(rows[0]) == 2 else ("key", "type", "holds")
    lines = [heads, ("---",) * len(heads), *((f"`{row[0]}`", *row[1:]) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    sys.exit(main())
