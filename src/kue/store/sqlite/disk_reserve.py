"""
Disk reserve: space that is kept free for the jobs a store already has.

On a full disk nothing could be written, not even that a job ended or was removed.  So a
file next to the store reserves some space.  New jobs are refused while there is no room
for it.  When other calls find the disk full, the file is deleted and they go on in the
space it took.  It is created again once there is room.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from kue.store.sqlite.file_url import FileLocation

logger = logging.getLogger(__name__)

#: Size of the reserve, in bytes: a write-ahead log before its checkpoint has 4 MiB, and
#: as much is left for endings of jobs.
SIZE = 8 * 1024 * 1024
#: Left free when the reserve is created, for the log and for other programs.
MARGIN = 4 * 1024 * 1024
#: A store smaller than this, on a disk with more free space than that, needs none yet.
SMALL = 4 * 1024 * 1024
PLENTY = 1024 * 1024 * 1024
#: How often a store that gets no new jobs checks that its reserve exists.
CHECK_SECONDS = 5.0
#: A reserve that takes longer to create than this was left behind by a dead process.
MAKING_SECONDS = 60.0


class DiskReserve:
    """The reserve of the store at *location*; several processes share it."""

    def __init__(self, location: FileLocation) -> None:
        self._store = location.path
        self._path = None if location.path is None else Path(f"{location.path}-reserve")
        self._checked = 0.0

    def admits(self, unused: Callable[[], int]) -> bool:
        """
        Return whether there is room for new jobs in addition to the reserve.

        Free pages in the file, which removed jobs leave behind, are as good as a
        reserve; *unused* returns their size in bytes.
        """
        self._checked = time.monotonic()
        if self._path is None or self._store is None or self._path.exists():
            return True
        try:
            room = os.statvfs(self._store.parent)
            free = room.f_bavail * room.f_frsize
            if free >= PLENTY and self._store.stat().st_size < SMALL:
                return True
        except OSError:
            # The next write reports what is wrong.
            return True
        if free >= SIZE + MARGIN and self._make(self._path):
            return True
        return unused() >= SIZE

    def restore(self, unused: Callable[[], int]) -> None:
        """Create the reserve again, if there is room by now and a check is due."""
        if time.monotonic() - self._checked >= CHECK_SECONDS:
            self.admits(unused)

    def release(self) -> bool:
        """Delete the reserve; return whether there was one."""
        if self._path is None:
            return False
        try:
            self._path.unlink()
        except FileNotFoundError:
            return False
        logger.error(
            "the disk of %s is full: the reserve was released so that jobs can end and "
            "be removed, and no new ones are accepted; free some space",
            self._store,
        )
        return True

    def _make(self, path: Path) -> bool:
        # Under another name until it is complete: a process that ends half-way must not
        # leave a reserve without content.
        making = Path(f"{path}.{os.getpid()}")
        try:
            file = os.open(making, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
            try:
                _fill(file)
            finally:
                os.close(file)
            making.rename(path)
        except FileExistsError:
            # Another writer of this process creates it, unless a dead one left it.
            return _is_young(making)
        except OSError as exc:
            logger.debug("no reserve for %s: %s", self._store, exc)
            with contextlib.suppress(OSError):
                making.unlink(missing_ok=True)
            return False
        return True


def _is_young(making: Path) -> bool:
    """Return whether it is being created; the rest of an earlier try is deleted."""
    with contextlib.suppress(FileNotFoundError):
        if time.time() - making.stat().st_mtime > MAKING_SECONDS:
            making.unlink()
            return False
    return True


def _fill(file: int) -> None:
    """Allocate space that no file system can compress or share."""
    # Not every system has posix_fallocate.
    with contextlib.suppress(OSError, AttributeError):
        os.posix_fallocate(file, 0, SIZE)
        return
    part = os.urandom(1024 * 1024)
    for _ in range(SIZE // len(part)):
        os.write(file, part)
