"""Tests stop processes where they hold no lock of a SQLite file."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from kue.supervisor import child_process
from tests.support.freezing import freeze

#: Holds the lock most of the time.
WRITER = """
import sqlite3, sys, time
db = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=60)
db.execute("PRAGMA journal_mode = WAL")
db.execute("CREATE TABLE t (a)")
while True:
    db.execute("BEGIN IMMEDIATE")
    db.execute("INSERT INTO t VALUES (1)")
    print("writing", flush=True)
    time.sleep(0.02)
    db.execute("COMMIT")
    time.sleep(0.01)
"""


def test_others_can_write_while_a_writer_is_frozen(tmp_path: Path) -> None:
    path = tmp_path / "kue.db"
    command = [sys.executable, "-c", WRITER, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        try:
            for _ in range(10):
                # It has the lock now.
                writer.stdout.readline()
                freeze(writer.pid, f"sqlite:///{path}")
                assert child_process.is_frozen(writer.pid)
                with closing(sqlite3.connect(path, timeout=0)) as db, db:
                    db.execute("INSERT INTO t VALUES (2)")
                os.kill(writer.pid, signal.SIGCONT)
        finally:
            writer.kill()
