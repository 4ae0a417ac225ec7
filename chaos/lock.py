"""``python -m chaos.lock FILE SECONDS``: keeps others from writing to a SQLite file."""

from __future__ import annotations

import sqlite3
import sys
import time
from contextlib import closing

#: Longer than it takes any writer to be done.
PATIENCE_SECONDS = 10.0


def main(path: str, seconds: float) -> None:
    with closing(sqlite3.connect(path, timeout=PATIENCE_SECONDS)) as database:
        database.isolation_level = None
        database.execute("BEGIN IMMEDIATE")
        # The wait is the fault.
        time.sleep(seconds)
        database.execute("ROLLBACK")


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
