"""Stores that lose their last writes."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Protocol

from tests.support.servers import RedisServer


class Forgetful(Protocol):
    """A store that can be put back to an earlier moment."""

    url: str

    def remember(self) -> None: ...
    def lose_writes(self) -> None: ...


class ForgetfulRedis:
    """A Redis that has a snapshot, and dies."""

    def __init__(self, server: RedisServer) -> None:
        self._server = server
        self.url = server.url

    def remember(self) -> None:
        with closing(self._server.client()) as client:
            client.save()

    def lose_writes(self) -> None:
        self._server.restart()


class ForgetfulFile:
    """A file that is restored from an older copy."""

    def __init__(self, folder: Path) -> None:
        self._file, self._copy = folder / "kue.db", folder / "copy.db"
        self.url = f"sqlite:///{self._file}"

    def remember(self) -> None:
        self._overwrite(self._file, self._copy)

    def lose_writes(self) -> None:
        self._overwrite(self._copy, self._file)

    def _overwrite(self, source: Path, target: Path) -> None:
        with (
            closing(sqlite3.connect(source)) as good,
            closing(sqlite3.connect(target)) as bad,
        ):
            good.backup(bad)
