"""``python -m chaos.lock FILE SECONDS``: holds the write lock of a SQLite file."""

from __future__ import annotations

import sqlite3
import sys
import time
from contextlib import closing

#: Longer than any write takes.
PATIENCE_SECONDS = 10.0


def main(path: str, seconds: float) -> None:
    with closing(sqlite3.connect(path, timeout=PATIENCE_SECONDS)) as database:
        database.isolation_level = None
        database.execute("BEGIN IMMEDIATE")
        # Holding the lock is the fault.
        time.sleep(seconds)
        database.execute("ROLLBACK")


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
