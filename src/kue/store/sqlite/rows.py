"""
Rows of jobs: reading them, and turning a row into a `Job`, however damaged it is.

Many rows are fetched as one value, a JSON array of arrays.  Each step of a statement
releases the GIL, and a busy event loop takes five milliseconds to give it back: a batch
fetched row by row could wait for it a hundred times.
"""

from __future__ import annotations

import json
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import msgspec

from kue.model.errors import StoreCorrupt
from kue.model.job import (
    FINAL,
    Attempt,
    Job,
    OnParentFailure,
    Spec,
    State,
    last_progress,
)
from kue.model.named_limits import limit_ref, read_ref
from kue.model.payload import JSON, decode
from kue.store.codec import decode_attempt, decode_spec, read_story
from kue.store.sqlite.error_groups import FINGERPRINT
from kue.store.sqlite.verb_transaction import as_json

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable

#: How many rows are read first, while their size is unknown.
FEW = 16
#: Different limits of jobs whose texts are kept: many jobs have the same.
REFS_KEPT = 4096


class JobRow(msgspec.Struct, array_like=True, gc=False):
    """The columns that make up a `Job`."""

    id: int
    type: str
    state: str
    priority: int
    created_at: int
    at: int | None
    body: str
    story: str
    unique_key: str | None
    unique_for: int
    unique_until: str
    unique_at_most: int
    group_key: str | None
    limited_by: str | None
    ttl: int
    expires_at: int | None
    once: int
    on_parent_failure: str
    flow: int | None
    attempts: int
    stalls: int
    held: int
    held_by: str | None
    rank: int
    token: str
    progress: int
    progress_data: str | None
    cancelling: str | None


class StateRow(msgspec.Struct, array_like=True, gc=False):
    """The columns that a state transition needs."""

    id: int
    type: str
    state: str
    created_at: int
    unique_key: str | None
    unique_for: int
    group_key: str | None
    limited_by: str | None
    retention: int | None
    remove_on_complete: int
    attempts: int
    token: str
    cancelling: str | None
    retain_until: int | None
    has_steps: int
    has_chunks: int
    #: How many lines its story has.
    lines: int
    #: That of its error, if it is failed; empty if not.
    fingerprint: str
    flow: int | None

    @property
    def limit_refs(self) -> tuple[str, ...]:
        return refs_in(self.limited_by)

    @property
    def known_state(self) -> State:
        """
        The state as `State`.

        Raises:
            StoreCorrupt: The state does not exist.
        """
        try:
            return State(self.state)
        except ValueError:
            raise StoreCorrupt(
                f"job {self.id} is in a state that does not exist, {self.state!r}; "
                "run kue doctor for details"
            ) from None

    @property
    def began(self) -> int | None:
        """When its run began; None if it is not running or its token is malformed."""
        parts = self.token.split(":")
        if len(parts) != 5 or not parts[1].isdecimal():
            return None
        return int(parts[1])


R = TypeVar("R", JobRow, StateRow)

#: Fields that are not columns.
_EXPRESSIONS = {
    "lines": "iif(story = '', 0,"
    " 1 + length(story) - length(replace(story, char(10), '')))",
    "fingerprint": FINGERPRINT,
}
_decode_refs = msgspec.json.Decoder(list[str]).decode
_STATES = {state.value: state for state in State}
_POLICIES: dict[str, OnParentFailure] = {
    policy: policy for policy in get_args(OnParentFailure)
}
_decoders: dict[type, msgspec.json.Decoder[Any]] = {
    kind: msgspec.json.Decoder(list[kind])  # type: ignore[valid-type]
    for kind in (JobRow, StateRow)
}


def columns_of(kind: type[JobRow] | type[StateRow]) -> str:
    """Return the columns of *kind*, as one JSON value for all rows."""
    names = ", ".join(_EXPRESSIONS.get(x, x) for x in kind.__struct_fields__)
    # As a blob: text that is not UTF-8 must reach the decoder, not stop the fetch.
    return f"CAST(json_group_array(json_array({names})) AS BLOB)"


_BY_ID = "FROM jobs WHERE id IN (SELECT value FROM json_each(?))"
_ROWS = f"SELECT {columns_of(JobRow)} {_BY_ID}"
_STORY = "SELECT CAST(story AS BLOB) FROM jobs WHERE id = ?"
_STATE_ROWS = f"SELECT {columns_of(StateRow)} {_BY_ID}"


def fetch(db: sqlite3.Connection, kind: type[R], sql: str, *values: Any) -> list[R]:
    """Return the rows of a statement that selects `columns_of` *kind*."""
    answer: bytes = db.execute(sql, values).fetchone()[0]
    try:
        rows: list[R] = _decoders[kind].decode(answer)
    except UnicodeDecodeError:
        # Lone surrogates mark what is not text: a body with them cannot be decoded.
        text = answer.decode(errors="surrogateescape")
        rows = [kind(*values) for values in json.loads(text)]
    return rows


def rows_of(db: sqlite3.Connection, ids: Iterable[int]) -> list[JobRow]:
    """Return rows in the order of *ids*, without those that are gone."""
    wanted = list(ids)
    found = {row.id: row for row in fetch(db, JobRow, _ROWS, as_json(wanted))}
    return [found[job_id] for job_id in wanted if job_id in found]


def read_within(
    size: int,
    count: int,
    read: Callable[[int, int], list[JobRow]],
    *,
    is_gapless: bool = False,
) -> tuple[list[JobRow], int]:
    """
    Read the first of *count* rows, up to about *size* bytes, but at least one.

    Starts with few, to see how large they are.  *read* is called with start and stop;
    with *is_gapless*, fewer rows than that are the last.  Also returns how many were
    read, including those that are gone.
    """
    rows: list[JobRow] = []
    total, start, step = 0, 0, FEW
    while start < count and total < size:
        stop = min(start + step, count)
        part = read(start, stop)
        rows += part
        if is_gapless and len(part) < stop - start:
            return rows, count
        total += sum(len(row.body) + len(row.story) for row in part)
        fitting = (size - total) * stop // max(1, total)
        start, step = stop, min(4 * step, max(1, fitting))
    return rows, start


def story_of(db: sqlite3.Connection, job_id: int) -> bytes:
    """Return the story of a job, which may contain bytes that are not text."""
    story: bytes = db.execute(_STORY, (job_id,)).fetchone()[0]
    return story


def state_rows_of(db: sqlite3.Connection, ids: Iterable[int]) -> dict[int, StateRow]:
    """Return the state rows of jobs by id, without those that are gone."""
    rows = fetch(db, StateRow, _STATE_ROWS, as_json(list(ids)))
    return {row.id: row for row in rows}


def job_of(row: JobRow, token: str | None = None) -> Job:
    """
    Return the job; with *token*, as it is once that run has begun.

    Raises:
        ValueError: Its body cannot be read.
    """
    return _job(row, decode_spec(row.body), token)


def shown(row: JobRow) -> Job:
    """Return the job for display: what cannot be read is left empty."""
    try:
        spec = decode_spec(row.body)
    except ValueError:
        spec = Spec()
    return _job(row, spec)


def is_readable(row: JobRow) -> bool:
    """Return whether body and story of a job can be read."""
    try:
        decode_spec(row.body)
        read_story(row.story.encode())
    except ValueError:
        return False
    return True


def _job(row: JobRow, spec: Spec, token: str | None = None) -> Job:
    state = _STATES.get(row.state, State.FAILED) if token is None else State.ACTIVE
    expires = 0 if row.expires_at is None else row.expires_at - row.created_at
    history = history_in(row.story)
    progress, data = row.progress, _progress_data(row.progress_data)
    if token is None and state in FINAL:
        progress, data = last_progress(state, history)
    return Job(
        id=row.id,
        type=row.type,
        state=state,
        priority=row.priority,
        created_at=row.created_at,
        spec=spec,
        unique=row.unique_key,
        unique_for=row.unique_for,
        unique_until="start" if row.unique_until == "start" else "end",
        unique_at_most=row.unique_at_most,
        group=row.group_key,
        limited_by=limits_in(row.limited_by),
        ttl=row.ttl,
        expires=expires,
        once=row.once == 1,
        on_parent_failure=_POLICIES.get(row.on_parent_failure, "block"),
        flow=row.flow,
        promote_at=row.at if state is State.DELAYED else None,
        token=row.token if token is None else token,
        stalls=row.stalls,
        progress=progress,
        progress_data=data,
        cancelling=row.cancelling is not None,
        rank=row.rank if state is State.WAITING else 0,
        history=history,
    )


def limits_in(text: str | None) -> tuple[tuple[str, str], ...]:
    """Return names and keys of the limits of a job; none if they cannot be read."""
    try:
        return () if text is None else tuple(map(read_ref, _decode_refs(text)))
    except ValueError:
        # kue doctor reports it; the job itself can run.
        return ()


@lru_cache(maxsize=REFS_KEPT)
def refs_in(text: str | None) -> tuple[str, ...]:
    """Return the limits of a job, each as one text."""
    return tuple(limit_ref(*each) for each in limits_in(text))


def _progress_data(text: str | None) -> JSON:
    try:
        return None if text is None else decode(text.encode())
    except ValueError:
        return None


def history_in(story: str) -> tuple[Attempt, ...]:
    """Return the history in a story, without lines that cannot be read."""
    if not story:
        return ()
    try:
        return read_story(story.encode())
    except ValueError:
        return tuple(_readable(story.split("\n")))


def _readable(lines: Iterable[str]) -> Iterable[Attempt]:
    for line in lines:
        with suppress(ValueError):
            yield decode_attempt(line)
