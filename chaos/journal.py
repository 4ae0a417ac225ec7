"""
Journals: facts as lines of JSON, one file per process.

A line is one write, so that a process killed at any instruction leaves whole lines;
only the last one may be cut short, and is then left out.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, TypeVar

import msgspec

if TYPE_CHECKING:
    from pathlib import Path

T = TypeVar("T", bound=msgspec.Struct)


def now_ms() -> int:
    """Return Unix ms, by the same clock as the stores on this machine."""
    return time.time_ns() // 1_000_000


class Journal:
    """A file to which lines are appended."""

    def __init__(self, path: Path) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self._file = os.open(path, flags, 0o600)

    def write(self, fact: msgspec.Struct) -> None:
        os.write(self._file, msgspec.json.encode(fact) + b"\n")


def read_journals(fact: type[T], folder: Path, pattern: str) -> tuple[T, ...]:
    """Return the facts of the journals in *folder* that *pattern* matches."""
    decoder = msgspec.json.Decoder(fact)
    return tuple(
        decoder.decode(line)
        for path in sorted(folder.glob(pattern))
        for line in path.read_bytes().splitlines(keepends=True)
        if line.endswith(b"\n")
    )
