"""Sets of sequence numbers, one bit per job: how a check remembers millions of jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kue.store.redis.keys import LIVE_CHUNK, offsets_in

if TYPE_CHECKING:
    from collections.abc import Iterator

_BYTES = LIVE_CHUNK // 8


class Bitset:
    """
    A set of whole numbers from 0 on.

    It has the layout of the ``live`` bitmaps in Redis, so that those are loaded as they
    are.  Memory follows the chunks in use, not the highest number.
    """

    def __init__(self) -> None:
        self._chunks: dict[int, bytearray] = {}

    def add(self, number: int) -> bool:
        """Add *number*; return whether it is new."""
        chunk, offset = divmod(number, LIVE_CHUNK)
        bitmap = self._chunks.get(chunk)
        if bitmap is None:
            bitmap = self._chunks[chunk] = bytearray(_BYTES)
        index, mask = offset >> 3, 128 >> (offset & 7)
        is_new = not bitmap[index] & mask
        bitmap[index] |= mask
        return is_new

    def load(self, chunk: int, bitmap: bytes) -> None:
        """Load one ``live`` bitmap; Redis omits zeros at its end."""
        if bitmap:
            self._chunks[chunk] = bytearray(bitmap[:_BYTES].ljust(_BYTES, b"\0"))

    def __contains__(self, number: int) -> bool:
        chunk, offset = divmod(number, LIVE_CHUNK)
        bitmap = self._chunks.get(chunk)
        return bitmap is not None and bool(bitmap[offset >> 3] & (128 >> (offset & 7)))

    def __len__(self) -> int:
        return sum(
            int.from_bytes(bitmap).bit_count() for bitmap in self._chunks.values()
        )

    def __iter__(self) -> Iterator[int]:
        yield from self.without(Bitset())

    def without(self, other: Bitset) -> Iterator[int]:
        """Yield the numbers that are here and not in *other*, in order."""
        for chunk in sorted(self._chunks):
            mine = int.from_bytes(self._chunks[chunk])
            theirs = int.from_bytes(other._chunks.get(chunk, b""))
            rest = (mine & ~theirs).to_bytes(_BYTES)
            for offset in offsets_in(rest):
                yield chunk * LIVE_CHUNK + offset

    @property
    def highest(self) -> int:
        """The highest number, 0 if the set is empty."""
        for chunk in sorted(self._chunks, reverse=True):
            # The first bit of a bitmap is the highest of the number.
            value = int.from_bytes(self._chunks[chunk])
            if value:
                lowest = (value & -value).bit_length()
                return (chunk + 1) * LIVE_CHUNK - lowest
        return 0
