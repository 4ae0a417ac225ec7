"""Reloader: notices that code has changed, for ``--reload``."""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

POLL_SECONDS = 0.5
#: Folders with files that nobody edits.
IGNORED = frozenset({"__pycache__", "node_modules", "site-packages"})


class Reloader:
    """Polls the modification times of Python files under some folders."""

    def __init__(self, folder: str) -> None:
        self._folders = [folder]
        self._seen: dict[str, int] = {}

    async def begin(self) -> None:
        """Remember the files as they are now."""
        self._seen = await asyncio.to_thread(_snapshot, self._folders)

    async def add(self, folder: str) -> None:
        """Watch *folder*, too; its files as they are now are not a change."""
        if not any(Path(folder).is_relative_to(known) for known in self._folders):
            self._folders.append(folder)
            self._seen |= await asyncio.to_thread(_snapshot, [folder])

    async def changes(self) -> list[str]:
        """Return the files that were changed, added or removed, once there are any."""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            # A large tree takes its time; heartbeats do not wait for it.
            now = await asyncio.to_thread(_snapshot, self._folders)
            before, self._seen = self._seen, now
            if before != now:
                return sorted({path for path, _ in before.items() ^ now.items()})


def _snapshot(folders: Sequence[str]) -> dict[str, int]:
    return dict(file for folder in folders for file in _python_files(folder))


def _python_files(folder: str) -> Iterator[tuple[str, int]]:
    for parent, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not _is_ignored(parent, name)]
        for name in files:
            if name.endswith(".py"):
                path = os.path.join(parent, name)
                # It may be gone since it was listed.
                with contextlib.suppress(OSError):
                    yield path, os.stat(path).st_mtime_ns


def _is_ignored(parent: str, name: str) -> bool:
    return (
        name.startswith(".")
        or name in IGNORED
        or os.path.exists(os.path.join(parent, name, "pyvenv.cfg"))
    )
