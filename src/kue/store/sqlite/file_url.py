"""File location of a SQLite store: parsing its URL, and checking the path."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from kue.model.errors import ConfigError

_creating = threading.Lock()

_FORMS = (
    "write sqlite:///kue.db for a file in the working folder, "
    "sqlite:////var/lib/kue.db for an absolute path, or memory:// for none"
)


class FileLocation(NamedTuple):
    """A file, or (None) private memory."""

    path: Path | None
    #: For messages.
    name: str

    @classmethod
    def of(cls, url: str) -> FileLocation:
        """
        Parse the URL of a store, without access to the file system.

        Raises:
            ConfigError: It names no file; the message lists the forms.
        """
        parts = urlsplit(url)
        if parts.scheme == "memory":
            if url != "memory://":
                raise ConfigError(f"{url!r} has too many parts: write memory:// alone")
            return cls(None, url)
        path = unquote(parts.path[1:])
        if not url.startswith("sqlite:///") or not path:
            raise ConfigError(f"{url!r} names no file; {_FORMS}")
        if parts.query or parts.fragment:
            raise ConfigError(f"{url!r} has options, and a file takes none; {_FORMS}")
        if path == ":memory:":
            raise ConfigError("for a store in memory, write memory://")
        # Absolute from now on: a program that changes its folder later keeps its file.
        absolute = Path(path).absolute()
        return cls(absolute, f"sqlite:///{absolute}")

    def check(self) -> None:
        """
        Check that the file can be used, as far as can be seen without opening it.

        Raises:
            ConfigError: Folder missing, path is a folder, or not writable.
        """
        if self.path is None:
            return
        folder = self.path.parent
        if not folder.is_dir():
            raise ConfigError(
                f"the store {self.path} cannot be created: there is no folder "
                f"{folder}; create it, or name another path"
            )
        if self.path.is_dir():
            raise ConfigError(
                f"the store {self.path} is a folder; name a file in it, such as "
                f"sqlite:///{self.path}/kue.db"
            )
        # WAL keeps two more files next to the store: the folder must be writable too.
        for path in (self.path, folder):
            if path.exists() and not os.access(path, os.W_OK):
                raise ConfigError(
                    f"the store {self.path} cannot be written: this user may not "
                    f"write to {path}; change its owner or name another path"
                )

    def create(self) -> None:
        """
        Create the file, if it is missing, so that only its owner can read it.

        It holds payloads and password hashes.  SQLite gives its -wal and -shm files the
        same mode, and never changes that of an existing file.
        """
        if self.path is None:
            return
        # Closing a file releases every lock that this process has on it, so no other
        # thread may have opened it in between.
        with _creating, suppress(FileExistsError):
            flags = os.O_CREAT | os.O_EXCL | os.O_RDWR
            os.close(os.open(os.path.realpath(self.path), flags, 0o600))

    def identity(self) -> tuple[int, int] | None:
        """Return device and inode, which change when the file is replaced."""
        if self.path is None:
            return None
        try:
            status = self.path.stat()
        except OSError:
            return None
        return status.st_dev, status.st_ino
