"""Where a store's file is: reading the URL, and saying what is wrong with the place."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from kue.model.errors import ConfigError

_creating = threading.Lock()

_FORMS = (
    "write sqlite:///kue.db for a file in the working folder, "
    "sqlite:////var/lib/kue.db for one anywhere, or memory:// for none"
)


class FileLocation(NamedTuple):
    """A file, or (None) memory that nobody else sees."""

    path: Path | None
    #: For messages.
    name: str

    @classmethod
    def of(cls, url: str) -> FileLocation:
        """
        Read the URL of a store.  The file system is not asked anything yet.

        Raises:
            ConfigError: It names no place; the message shows the forms there are.
        """
        parts = urlsplit(url)
        if parts.scheme == "memory":
            if url != "memory://":
                raise ConfigError(f"{url!r} says too much: write memory:// alone")
            return cls(None, url)
        path = unquote(parts.path[1:])
        if not url.startswith("sqlite:///") or not path:
            raise ConfigError(f"{url!r} names no file; {_FORMS}")
        if parts.query or parts.fragment:
            raise ConfigError(f"{url!r} has options, and a file takes none; {_FORMS}")
        if path == ":memory:":
            raise ConfigError("for a store in memory, write memory://")
        # The folder is settled now: a program that changes it later keeps its file.
        whole = Path(path).absolute()
        return cls(whole, f"sqlite:///{whole}")

    def check(self) -> None:
        """
        Say in plain words why the file cannot be used, if that is to be seen.

        Raises:
            ConfigError: Folder missing, path is a folder, or not writable.
        """
        if self.path is None:
            return
        folder = self.path.parent
        if not folder.is_dir():
            raise ConfigError(
                f"the store {self.path} cannot be made: there is no folder {folder}; "
                "create it, or name another place"
            )
        if self.path.is_dir():
            raise ConfigError(
                f"the store {self.path} is a folder; name a file in it, such as "
                f"sqlite:///{self.path}/kue.db"
            )
        # WAL keeps two more files beside the store: the folder must be writable too.
        for place in (self.path, folder):
            if place.exists() and not os.access(place, os.W_OK):
                raise ConfigError(
                    f"the store {self.path} cannot be written: this user may not "
                    f"write to {place}; change its owner or name another place"
                )

    def create(self) -> None:
        """
        Make the file, if it is missing, so that only its owner can read it.

        It holds payloads and password hashes.  SQLite gives its -wal and -shm files the
        same mode, and never changes that of a file that is there.
        """
        if self.path is None:
            return
        # Closing a file gives up every lock that this process has on it, so nobody here
        # may have opened it in between.
        with _creating:
            try:
                flags = os.O_CREAT | os.O_EXCL | os.O_RDWR
                os.close(os.open(os.path.realpath(self.path), flags, 0o600))
            except FileExistsError:
                return

    def identity(self) -> tuple[int, int] | None:
        """Return what tells this file from another that took its name."""
        if self.path is None:
            return None
        try:
            status = self.path.stat()
        except OSError:
            return None
        return status.st_dev, status.st_ino
