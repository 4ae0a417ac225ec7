"""
Doctor, checks of single values: what each column may hold, as a table.

SQLite itself checks the types of columns.  These rules find values of the right type
that are invalid: times before 1970, counts below 0, text that is not Unicode or JSON.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from kue.model.events import Kind
from kue.model.job import (
    MAX_PRIORITY,
    MIN_PRIORITY,
    OnParentFailure,
    State,
    UniqueUntil,
)
from kue.model.parent_failure import REMOVED
from kue.store.sqlite.doctor.finding import SqliteFinding
from kue.store.sqlite.flows import COUNTERS
from kue.store.sqlite.lost_jobs import CHUNK
from kue.store.step_record import is_valid as is_step
from kue.store.values import RINGS

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator

#: The highest time, count or number that Kue writes: JSON readers keep no more digits.
_MOST = 2**53


def _listed(words: Iterable[str]) -> str:
    """Return *words* as an SQL list."""
    return "({})".format(", ".join(f"'{word}'" for word in words))


_IS_TEXT = "is_text(CAST({0} AS BLOB))"
_IS_NAME = f"{_IS_TEXT} AND {{0}} <> ''"
# CASE, because SQLite may evaluate the sides of AND in any order.
_IS_OBJECT = (
    f"{_IS_TEXT} AND "
    "CASE WHEN json_valid({0}) THEN json_type({0}) = 'object' ELSE 0 END"
)
_IS_LIST = _IS_OBJECT.replace("'object'", "'array'")
#: The conditions of values by their names in the table below, and what they are called.
_RULES = {
    "number": (f"{{0}} BETWEEN 0 AND {_MOST}", "a time or a count"),
    "signed": (f"abs({{0}}) <= {_MOST}", "a number in range"),
    "id": (f"{{0}} BETWEEN 1 AND {_MOST}", "the id of a job"),
    "flag": ("{0} IN (0, 1)", "0 or 1"),
    "hold": ("{0} IN (0, 1, 2)", "0, 1 or 2"),
    "list": (_IS_LIST, "a JSON list"),
    # Name and key of a limit, both quoted.
    "ref": (f"{_IS_NAME} AND instr({{0}}, ':') AND NOT instr({{0}}, '\"')", "a limit"),
    # A priority, or a priority and a group.
    "turn": (f"{_IS_TEXT} AND {{0}} GLOB '[-0-9]*'", "the turn of a group"),
    "rate": ("{0} GLOB '[wb][0-9]*:[0-9]*'", "the state of a rate"),
    "until": (f"{{0}} IN {_listed(get_args(UniqueUntil))}", "'end' or 'start'"),
    "policy": (f"{{0}} IN {_listed(get_args(OnParentFailure))}", "a known policy"),
    "bits": (f"length({{0}}) = {CHUNK // 8}", "a row of bits"),
    "percent": ("{0} BETWEEN 0 AND 100", "from 0 to 100"),
    "priority": (f"{{0}} BETWEEN {MIN_PRIORITY} AND {MAX_PRIORITY}", "a priority"),
    "text": (_IS_TEXT, "Unicode text"),
    "name": (_IS_NAME, "a name"),
    "json": (f"{_IS_TEXT} AND json_valid({{0}})", "JSON"),
    "object": (_IS_OBJECT, "a JSON object"),
    "word": (f"{_IS_NAME} AND {{0}} NOT GLOB '*[^a-z_]*'", "one word"),
    "event": (f"{{0}} IN {_listed(Kind)}", "a kind of event"),
    "ring": (f"{{0}} IN {_listed(RINGS)}", "a ring of the audit log"),
    # With its field, as in `kue.store.step_record`.
    "step": ("is_step(CAST(field AS BLOB), CAST({0} AS BLOB))", "a step or a signal"),
    "end": (f"{{0}} IN {_listed([*State, REMOVED])}", "the end of a job"),
}
_COUNTERS = (
    "type=name added=number complete=number failed=number run_ms=number"
    " waits=object runs=object"
)
_PAUSE = "at=number reason=text who=text until=number"
#: Without the columns that other checks cover more closely.
_COLUMNS = {
    "jobs": "id=id type=name priority=priority created_at=number at=number"
    " unique_key=name unique_for=number unique_until=until unique_at_most=number"
    " group_key=name"
    " ttl=number expires_at=number once=flag on_parent_failure=policy flow=id"
    " delay=number retention=number remove_on_complete=flag stalls=number"
    " held=hold limited_by=list held_by=name worker=text ttl_at=number progress=percent"
    " progress_data=json cancelling=text retain_until=number rank=signed"
    " has_steps=flag has_chunks=flag quiet=flag",
    "meta": "name=word value=number",
    "types": "name=name",
    "counts": "type=name own=flag",
    "stats": f"minute=number {_COUNTERS} work_ms=number",
    "hours": f"hour=number {_COUNTERS}",
    "logs": "job_id=id line=number at=number level=word attempt=number text=text",
    "steps": "job_id=id field=name value=step",
    "chunks": "job_id=id position=number run=number attempt=number at=number"
    " value=json",
    "uniques": "type=name key=name job_id=id until=number",
    "producers": "name=name seq=number answer=json at=number",
    "links": "parent=id child=id",
    "endings": "parent=id how=end",
    "unlinked": "child=id",
    "flows": "id=id " + " ".join(f"{name}=number" for name in COUNTERS),
    "lost_jobs": "chunk=number bits=bits",
    "workers": "name=name deadline=number has_left=flag info=object orders=object"
    " stacks=text stacks_at=number",
    "claims": "lane=name seq=number at=number",
    "pauses": f"type=text {_PAUSE}",
    "worker_pauses": f"worker=name {_PAUSE}",
    "limits": "type=name limits=object level=signed filled_at=number",
    "turns": "type=name member=turn rank=signed",
    "named_limits": "name=name definition=text",
    "failure_rules": "type=text rule=object",
    "failures": "job_id=id at=number type=name token=text",
    "limit_runs": "ref=ref job_id=id",
    "limit_rates": "ref=ref state=rate until=number",
    "limit_openings": "type=name ref=ref at=number",
    "schedules": "name=name next_at=number",
    "listeners": "name=name deadline=number",
    "watched": "job_id=id listener=name deadline=number",
    "events": "seq=id at=number kind=event job_id=number type=text attempt=number"
    " detail=object told_at=number",
    "kept": "room=word name=name value=text until=number",
    "acts": "id=id at=number act=object ring=ring",
    "errors": "type=name fingerprint=name n=number first_at=number last_at=number"
    " job_id=id kind=text message=text",
}


def check_columns(db: sqlite3.Connection) -> list[SqliteFinding]:
    """Check every value of every table, on one snapshot."""
    db.create_function("is_text", 1, _is_text, deterministic=True)
    db.create_function("is_step", 2, _is_step, deterministic=True)
    return [found for table in _COLUMNS for found in _check_table(db, table)]


def _check_table(db: sqlite3.Connection, table: str) -> Iterator[SqliteFinding]:
    pairs = (rule.split("=") for rule in _COLUMNS[table].split())
    rules = {name: _RULES[rule] for name, rule in pairs}
    # NULL is fine: SQLite itself has checked that the column allows it.
    wrong = ", ".join(
        f"total({name} IS NOT NULL AND NOT ({condition.format(name)}))"
        for name, (condition, _) in rules.items()
    )
    counts = db.execute(f"SELECT {wrong} FROM {table}").fetchone()
    for (name, (_, what)), count in zip(rules.items(), counts, strict=True):
        if count:
            message = f"the column {name} of {table} has {count:.0f} values that are"
            yield SqliteFinding("bad-value", f"{message} not {what}")


def _is_step(field: bytes, value: bytes) -> bool:
    try:
        return is_step(field.decode(), value.decode())
    except UnicodeDecodeError:
        return False


def _is_text(value: object) -> bool:
    if not isinstance(value, bytes):
        return True
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True
