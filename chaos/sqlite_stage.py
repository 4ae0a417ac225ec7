"""A SQLite file that other processes lock and checkpoint."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import sys
from typing import TYPE_CHECKING

from chaos.stage import Stage

if TYPE_CHECKING:
    from pathlib import Path

    from chaos.plan import Fault
    from chaos.processes import Household

PATIENCE_SECONDS = 2.0
#: Longer than writes take, as a rule.
LOCKED_SECONDS = 0.1


class SqliteStage(Stage):
    """The file, and its faults."""

    def __init__(self, household: Household, folder: Path) -> None:
        super().__init__()
        self._household = household
        self._folder = folder
        self._path = folder / "kue.db"
        self.url = self.direct = f"sqlite:///{self._path}"

    async def __aenter__(self) -> SqliteStage:
        return self

    async def __aexit__(self, *exc: object) -> None:
        pass

    async def heal(self) -> None:
        pass

    async def strike(self, fault: Fault) -> None:
        if fault.kind == "lock":
            with self.absence():
                await self._hold_lock(fault.seconds)
        else:
            await asyncio.to_thread(self._check_point)

    async def pause(self, seconds: float) -> None:
        """Record the store as unavailable if the stopped process holds the lock."""
        is_halted = await asyncio.to_thread(self._is_locked)
        with self.absence() if is_halted else contextlib.nullcontext():
            await super().pause(seconds)

    def _is_locked(self) -> bool:
        database = sqlite3.connect(self._path, timeout=LOCKED_SECONDS)
        with contextlib.closing(database):
            try:
                database.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                return True
        return False

    async def _hold_lock(self, seconds: float) -> None:
        command = (sys.executable, "-m", "chaos.lock", str(self._path), str(seconds))
        holder = self._household.start(command, os.environ, self._folder / "lock.log")
        try:
            await asyncio.to_thread(holder.wait)
        finally:
            holder.kill()

    def _check_point(self) -> None:
        database = sqlite3.connect(self._path, timeout=PATIENCE_SECONDS)
        # Busy is not an error: readers keep it from truncating.
        busy = contextlib.suppress(sqlite3.OperationalError)
        with contextlib.closing(database), busy:
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
