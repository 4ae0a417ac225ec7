"""Sifting: leaves out jobs that cannot match a search, without decoding them."""

from __future__ import annotations

import json
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from kue.model.search_text import ESCAPES, FOLDED_TO_ASCII, LOG_LINES
from kue.store.sqlite.rows import FEW
from kue.store.sqlite.verb_transaction import as_json
from kue.store.values import MAX_BATCH, MAX_CALL_BYTES, MAX_PAGE_BYTES

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Sequence

    from kue.store.values import PageRequest

#: (sort key, id)
Key = tuple[int, int]

_LOG = f"""
(SELECT text FROM logs WHERE job_id = jobs.id ORDER BY line DESC LIMIT {LOG_LINES})
"""


class Sifted(NamedTuple):
    """Jobs that may match, and how far it looked for them."""

    #: By id, how many jobs were looked at up to it.
    numbers: dict[int, int]
    #: The last job looked at; None if there are no more.
    last: Key | None
    looked_at: int
    looked_bytes: int


def sift(db: sqlite3.Connection, keys: Iterator[Key], request: PageRequest) -> Sifted:
    """Look at jobs in the order of *keys*, and return those that may match."""
    numbers: dict[int, int] = {}
    looked_at, total, step = 0, 0, FEW
    while part := list(islice(keys, min(step, request.scan - looked_at))):
        ids = [job_id for _, job_id in part]
        kept, size = _may_match(db, ids, request.needles)
        kept = kept or {ids[0]}
        places = enumerate(ids, looked_at + 1)
        numbers |= {job_id: place for place, job_id in places if job_id in kept}
        looked_at, total = looked_at + len(ids), total + size
        if looked_at >= request.scan or total >= MAX_PAGE_BYTES:
            return Sifted(numbers, part[-1], looked_at, total)
        # As many as have about the bytes of one call.
        step = min(4 * step, MAX_BATCH, max(1, MAX_CALL_BYTES * looked_at // total))
    return Sifted(numbers, None, looked_at, total)


def _may_match(
    db: sqlite3.Connection, ids: Sequence[int], needles: Sequence[str]
) -> tuple[set[int], int]:
    """Return those of *ids* that may match, and the bytes of all."""
    row = db.execute(_statement(len(needles)), (as_json(ids), *needles)).fetchone()
    return set(json.loads(row[0])), row[1] or 1


@lru_cache(maxsize=8)
def _statement(needles: int) -> str:
    """Return the statement for so many needles: parameters from number 2 on."""
    doubts = " OR ".join(map(_is_uncertain, ("body", "story")))
    in_log = f"EXISTS (SELECT 1 FROM {_LOG} WHERE {_is_uncertain('text')})"
    found = " AND ".join(_has(number) for number in range(2, 2 + needles))
    return f"""
    SELECT json_group_array(id) FILTER (WHERE ({found}) OR {doubts} OR {in_log}),
           sum({_bytes("body")} + {_bytes("story")})
    FROM jobs WHERE id IN (SELECT value FROM json_each(?1))
    """


def _has(number: int) -> str:
    in_log = f"EXISTS (SELECT 1 FROM {_LOG} WHERE instr(lower(text), ?{number}))"
    return (
        f"(instr(lower(body), ?{number}) OR instr(lower(story), ?{number}) OR {in_log})"
    )


def _is_uncertain(column: str) -> str:
    """Return the condition that a text may mean something else than it says."""
    escapes = " OR ".join(f"instr({column}, '{escape}')" for escape in ESCAPES)
    # Most texts have as many bytes as characters: ASCII.
    folded = f"({column} GLOB '*[{FOLDED_TO_ASCII}]*')"
    return f"({escapes} OR (length({column}) <> {_bytes(column)} AND {folded}))"


def _bytes(column: str) -> str:
    return f"length(CAST({column} AS BLOB))"
