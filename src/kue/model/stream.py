"""Streams of jobs: chunks that a run sends while it goes on, and their limits."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from kue.model.payload import JSON

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kue.model.job import Job

#: Chunks of a stream, and bytes of all together, unless the settings say otherwise.
MAX_CHUNKS = 10_000
MAX_STREAM = 8 * 1024 * 1024

_ID = re.compile(r"(\d{1,16})-(\d{1,9})")


class Position(NamedTuple):
    """Where a reader is: the first *start* chunks of a run were read."""

    #: The fencing token of the run; 0 before the first chunk.
    run: int = 0
    start: int = 0

    @classmethod
    def after(cls, chunk_id: str) -> Position:
        """
        Return the position after the chunk with this id; of "" the beginning.

        Raises:
            ValueError: It is not the id of a chunk.
        """
        if not chunk_id:
            return cls()
        match = _ID.fullmatch(chunk_id)
        if match is None:
            raise ValueError(
                f"{chunk_id!r} is not the id of a chunk, such as 1794722540200123-7"
            )
        return cls(int(match[1]), int(match[2]) + 1)


BEGINNING = Position()


class Chunk(msgspec.Struct, frozen=True):
    """A chunk of a stream."""

    #: The fencing token of the run that sent it: greater for every later run.
    run: int
    #: Which one of the run it is, from 0.
    index: int
    attempt: int
    #: By the store's clock, Unix ms.
    at: int
    value: JSON

    @property
    def id(self) -> str:
        """Names the chunk: a reader that stopped there can go on after it."""
        return f"{self.run}-{self.index}"

    @property
    def next(self) -> Position:
        return Position(self.run, self.index + 1)


class SentChunks(NamedTuple):
    """Chunks to append to the stream of a running job."""

    job: Job
    #: How many chunks the run has sent before these.
    start: int
    #: Each encoded by `kue.store.codec.chunk_of`.
    values: Sequence[msgspec.Raw]
