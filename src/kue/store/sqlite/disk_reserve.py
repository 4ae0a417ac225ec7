"""
The reserve: room on the disk that is kept for the jobs a store already has.

On a full disk nothing could be written, not even that a job ended or was removed.  So a
file beside the store takes up some room.  New jobs are refused while it could not be
kept; when other work finds the disk full, the file is deleted and that work goes on in
the room it took.  It is made again once there is room.
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

#: What is kept, in bytes: a log that waits for its checkpoint has 4 MiB, and as much is
#: left for endings of jobs.
SIZE = 8 * 1024 * 1024
#: Left free when the reserve is made, for the log and for others.
MARGIN = 4 * 1024 * 1024
#: A store smaller than this, on a disk with more room than that, needs none yet.
SMALL = 4 * 1024 * 1024
PLENTY = 1024 * 1024 * 1024
#: How often a store that takes no new jobs looks whether its reserve is there.
LOOK_SECONDS = 5.0
#: What takes longer to make than this was left behind.
MAKING_SECONDS = 60.0


class DiskReserve:
    """The reserve of the store at *place*; several processes share it."""

    def __init__(self, place: FileLocation) -> None:
        self._store = place.path
        self._path = None if place.path is None else Path(f"{place.path}-reserve")
        self._looked = 0.0

    def admits(self, unused: Callable[[], int]) -> bool:
        """
        Return whether there is room for new jobs beside the reserve.

        Pages of the file that removed jobs left behind are as good as a reserve;
        *unused* counts them, in bytes.
        """
        self._looked = time.monotonic()
        if self._path is None or self._store is None or self._path.exists():
            return True
        try:
            room = os.statvfs(self._store.parent)
            free = room.f_bavail * room.f_frsize
            if free >= PLENTY and self._store.stat().st_size < SMALL:
                return True
        except OSError:
            # The next write reports what is wrong there.
            return True
        if free >= SIZE + MARGIN and self._make(self._path):
            return True
        return unused() >= SIZE

    def look(self, unused: Callable[[], int]) -> None:
        """Make the reserve again, if there is room by now and it is time to look."""
        if time.monotonic() - self._looked >= LOOK_SECONDS:
            self.admits(unused)

    def release(self) -> bool:
        """Give up the reserve; return whether there was one."""
        if self._path is None:
            return False
        try:
            self._path.unlink()
        except FileNotFoundError:
            return False
        logger.error(
            "the disk of %s is full: the reserve was released so that jobs can end and "
            "be removed, and no new ones are taken; free some space",
            self._store,
        )
        return True

    def _make(self, path: Path) -> bool:
        # Under another name until it is whole: a process that ends half-way must not
        # leave a reserve that holds nothing.
        making = Path(f"{path}.{os.getpid()}")
        try:
            file = os.open(making, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
            try:
                _fill(file)
            finally:
                os.close(file)
            making.rename(path)
        except FileExistsError:
            # Another writer of this process makes it, unless a dead one left it behind.
            return _is_young(making)
        except OSError as exc:
            logger.debug("no reserve for %s: %s", self._store, exc)
            with contextlib.suppress(OSError):
                making.unlink(missing_ok=True)
            return False
        return True


def _is_young(making: Path) -> bool:
    """Return whether someone is at it; what is left of another attempt is deleted."""
    with contextlib.suppress(FileNotFoundError):
        if time.time() - making.stat().st_mtime > MAKING_SECONDS:
            making.unlink()
            return False
    return True


def _fill(file: int) -> None:
    """Take up room that no file system can compress or share."""
    # Not every system has it.
    with contextlib.suppress(OSError, AttributeError):
        os.posix_fallocate(file, 0, SIZE)
        return
    part = os.urandom(1024 * 1024)
    for _ in range(SIZE // len(part)):
        os.write(file, part)
