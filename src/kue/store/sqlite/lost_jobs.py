"""
Lost jobs: ids of jobs that were removed without having succeeded, one bit each.

A job that waits for a removed one runs if that had succeeded.  Of the last
`REMEMBERED_IDS` ids that is known, in rows of `CHUNK` bits; older rows are deleted.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from kue.store.values import REMEMBERED_IDS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kue.store.sqlite.verb_transaction import Transaction

#: Ids per row.
CHUNK = 8192
_LAST_ID = "SELECT value FROM meta WHERE name = 'ids'"
_BITS = "SELECT CAST(bits AS BLOB) FROM lost_jobs WHERE chunk = ?"
_WRITE = "REPLACE INTO lost_jobs (chunk, bits) VALUES (?, ?)"
_FORGET = "DELETE FROM lost_jobs WHERE chunk < ?"


def note(tx: Transaction, ids: Iterable[int]) -> None:
    """Note that jobs are removed without having succeeded."""
    chunks: defaultdict[int, list[int]] = defaultdict(list)
    for job_id in ids:
        chunks[job_id // CHUNK].append(job_id % CHUNK)
    for chunk, offsets in chunks.items():
        bits = _read(tx, chunk)
        for offset in offsets:
            bits[offset // 8] |= 1 << offset % 8
        tx.run(_WRITE, chunk, bytes(bits))
    if chunks:
        tx.run(_FORGET, (tx.one(_LAST_ID) - REMEMBERED_IDS) // CHUNK)


def has_succeeded(tx: Transaction, job_id: int) -> bool:
    """Return whether a job that was removed is known to have succeeded."""
    if job_id <= tx.one(_LAST_ID) - REMEMBERED_IDS:
        return False
    chunk, offset = divmod(job_id, CHUNK)
    return not _read(tx, chunk)[offset // 8] & 1 << offset % 8


def _read(tx: Transaction, chunk: int) -> bytearray:
    bits = bytearray(tx.one(_BITS, chunk) or b"")
    # The doctor reports a row of another length.
    return bits[: CHUNK // 8].ljust(CHUNK // 8, b"\0")
