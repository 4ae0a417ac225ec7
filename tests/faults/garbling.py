"""A SQLite file with something in every table, and wrong values in any column of it."""

from __future__ import annotations

import asyncio
import logging
import re
import shutil
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kue.model.draft import draft
from kue.model.failure_rule import FailureRule
from kue.model.histogram import Timing
from kue.model.job import Draft, Failed, State
from kue.model.named_limits import LimitRule, StoredLimit
from kue.store.contract import Store
from kue.store.sqlite import schema
from kue.store.sqlite.store import SqliteStore
from kue.store.values import (
    AuditEntry,
    Claim,
    ClaimRequest,
    Failure,
    Filter,
    KeepRequest,
    Limits,
    PauseRequest,
    RenewRequest,
)
from tests.faults.scene import LATER, READS, TYPE, WRITES, Scene, Verb, build
from tests.support.flows import linked
from tests.support.jobs import (
    HOUR,
    OOPS,
    T0,
    add,
    add_many,
    claim,
    count_again,
    end,
    start_one,
)

TIMING = Timing(TYPE, {1: 1}, {1: 1})
TURN = draft("fair", group="a")
RULE = FailureRule(hooks=True)
ACT = AuditEntry(who="ann", what="jobs.remove")
#: Every kind of wrong value.
WRONG: dict[str, Any] = {
    "null": None,
    "text": "garbage",
    "huge": 2**62,
    "negative": -(2**62),
    "blob": b"\x00\xff\xfe",
    "empty": "",
    "json": '{"a": [1,',
    "list": "[1]",
    "utf8": b"\xff\xfe",
}
#: Verbs that are not about jobs, for the tables of those that are not.
ASIDE: dict[str, Verb] = {
    "measure": lambda store, scene: store.measure([TIMING], now=LATER),
    "hours": lambda store, scene: store.hours(0, LATER // 3_600_000 + 1),
    "errors": lambda store, scene: store.errors(),
    "facts": lambda store, scene: store.facts(),
    "find": lambda store, scene: store.find(Filter(text="i")),
    "stand_by": lambda store, scene: store.stand_by(
        ClaimRequest(["idle"], 1, worker="w3", claim=Claim("s", 1)), timeout=0
    ),
    "order": lambda store, scene: store.order("w1", "stop", now=T0),
    "orders": lambda store, scene: store.renew(RenewRequest("w1", orders=True), now=T0),
    "stacks": lambda store, scene: store.stacks("w1", now=T0),
    "write stacks": lambda store, scene: store.write_stacks("w1", "text", now=T0),
    "pause worker": lambda store, scene: store.pause(
        PauseRequest(worker="w2"), now=LATER
    ),
    "resume worker": lambda store, scene: store.resume(worker="w2", now=LATER),
    "kept": lambda store, scene: store.kept("user", "ann", now=T0),
    "all kept": lambda store, scene: store.all_kept("user", now=T0),
    "keep": lambda store, scene: store.keep(
        KeepRequest("user", "ann", "{}", was="{}"), now=T0
    ),
    "forget": lambda store, scene: store.forget("user", "ann", now=T0),
    "note": lambda store, scene: store.note(ACT, now=LATER),
    "named limits": lambda store, scene: store.named_limits(),
    "take a turn": lambda store, scene: add(store, [TURN], now=LATER),
    "limit use": lambda store, scene: store.limit_use("rate", now=LATER),
    "claim limited": lambda store, scene: store.claim(
        ClaimRequest(["limited"], 5, worker="w2", claim=Claim("l", 1)), now=LATER + HOUR
    ),
    "set named limit": lambda store, scene: store.set_named_limit(
        "slots", StoredLimit(LimitRule(concurrency=2)), now=LATER
    ),
    "failure rules": lambda store, scene: store.failure_rules(),
    "set failure rule": lambda store, scene: store.set_failure_rule(None, RULE),
    "failures": lambda store, scene: store.failures(),
    "forget failures": lambda store, scene: store.forget_failures(
        [Failure(1, "ruled", T0)]
    ),
    "acts": lambda store, scene: store.acts(),
    "members": lambda store, scene: store.members(scene.waiting + 2),
    "flow counts": lambda store, scene: store.flow_counts([scene.waiting + 2]),
    "add linked": lambda store, scene: add(store, linked_drafts(scene), now=LATER),
}
#: All verbs but those that are called elsewhere: reads see the damage before writes do.
CALLS = {
    name: verb
    for name, verb in {**READS, **ASIDE, **WRITES}.items()
    if name not in ("now", "wait", "check")
}

_EVENT = "INSERT INTO events (at, kind, job_id, type, attempt, detail, told_at)"
#: Rows of tables that are empty while nobody is in the middle of something.
_IN_PASSING = (
    f"INSERT INTO listeners VALUES ('ear', {2**40})",
    f"INSERT INTO watched VALUES (1, 'ear', {2**40})",
    "INSERT INTO endings VALUES (1, 'complete')",
    "INSERT INTO unlinked VALUES (1)",
    f"{_EVENT} VALUES (1, 'start', 1, 'email', 1, '{{}}', {2**40})",
)


class StoppedClock:
    """The time of the scene's verbs, so that every run meets the same file."""

    def now_ms(self) -> int:
        return LATER


class Column(NamedTuple):
    table: str
    name: str


def _columns() -> list[Column]:
    """Return every column that there is."""
    with closing(sqlite3.connect(":memory:")) as db:
        schema.migrate(db, "memory")
        return [
            Column(table, column[1])
            for (table,) in db.execute(
                "SELECT name FROM sqlite_schema WHERE type = 'table'"
                " AND name NOT LIKE 'sqlite_%' ORDER BY name"
            ).fetchall()
            for column in db.execute(f"PRAGMA table_info({table})")
        ]


COLUMNS = _columns()


def store_at(path: Path) -> SqliteStore:
    return SqliteStore.from_url(f"sqlite:///{path}", StoppedClock())


async def prepare(path: Path, *, jobs: int = 1) -> Scene:
    """Make a file that has a row in every table, byte by byte the same each time."""
    count_again()
    store = store_at(path)
    await store.measure([TIMING], now=T0 - 3 * HOUR)
    scene = await build(store)
    await add_many(store, jobs, "filler")
    await surround(store)
    await store.close()
    with closing(sqlite3.connect(path)) as db, db:
        for sql in _IN_PASSING:
            db.execute(sql)
    return scene


def linked_drafts(scene: Scene) -> list[Draft]:
    """Return drafts that refer to others, and to a job that was removed."""
    flow, removed = scene.waiting + 2, scene.waiting + 4
    return [
        linked(TYPE, flow=flow, before=[scene.blocked]),
        linked(TYPE, after=[-1, removed], on_parent_failure="only"),
    ]


async def hold_by_limits(store: Store) -> None:
    """Have a job running, and another one held, by each kind of named limit."""
    rules = {"slots": LimitRule(concurrency=1), "rate": LimitRule(rate=1, per=HOUR)}
    for name, rule in rules.items():
        await store.set_named_limit(name, StoredLimit(rule, rule), now=T0)
        await add_many(store, 2, "limited", limited_by={name: "k"})
    assert len(await claim(store, "limited")) == len(rules)


async def take_turns(store: Store) -> None:
    """Have groups of a fair type wait for their turns."""
    await store.limit("fair", Limits(fair=True, max_waiting=9), now=T0)
    await add_many(store, 2, "fair", group="a", priority=3)
    await add_many(store, 2, "fair", group="b", priority=3)


async def fail_by_rule(store: Store) -> None:
    """Have a failed job that is to be reported."""
    await store.set_failure_rule("ruled", RULE)
    await end(store, await start_one(store, "ruled"), Failed(OOPS))


async def add_flow(store: Store) -> None:
    """Have a job with members, and one that was removed without having succeeded."""
    drafts = [linked("flow"), linked("member", flow=-1, before=[-1])]
    await add(store, [*drafts, linked("unwanted")])
    await store.clear("unwanted", [State.WAITING], now=T0)


async def surround(store: Store) -> None:
    await store.measure([TIMING], now=T0)
    await store.keep(KeepRequest("user", "ann", "{}", until=LATER + HOUR), now=T0)
    await store.note(ACT, now=T0)
    await store.pause(
        PauseRequest(worker="w2", reason="tests", until=LATER + HOUR), now=T0
    )
    await add_flow(store)
    await hold_by_limits(store)
    await take_turns(store)
    await fail_by_rule(store)
    await store.order("w1", "stacks", now=T0)
    await store.write_stacks("w1", "a stack", now=T0)
    await store.tend(now=T0)


def garbled(path: Path, sound: Path, column: Column, kind: str) -> bool:
    """
    Write a copy of *sound* with a wrong value in every row of *column*.

    Returns whether the column can hold it at all: an id is a number by its nature.
    """
    shutil.copyfile(sound, path)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        [[sql]] = db.execute(
            "SELECT sql FROM sqlite_schema WHERE name = ?", (column.table,)
        ).fetchall()
        _reshape(db, column.table, _without_types(sql))
        try:
            cast = "CAST(? AS TEXT)" if kind == "utf8" else "?"
            set_it = f"UPDATE OR IGNORE {column.table} SET {column.name} = {cast}"
            changed = db.execute(set_it, (WRONG[kind],)).rowcount
        except sqlite3.IntegrityError:
            changed = 0
        _reshape(db, column.table, sql)
    return bool(changed)


async def verbs_by_table(
    sound: Path, folder: Path, scene: Scene
) -> dict[str, set[str]]:
    """
    Return which verbs use each table: what it holds concerns no others.

    A verb gets as far as it does in a sound file until it first uses what is garbled.
    """
    found: dict[str, set[str]] = {}
    for name, verb in CALLS.items():
        shutil.copyfile(sound, folder / "used.db")
        store = store_at(folder / "used.db")
        used = await _note_tables(store)
        await verb(store, scene)
        await store.close()
        for table in used:
            found.setdefault(table, set()).add(name)
    return found


async def _note_tables(store: SqliteStore) -> set[str]:
    """Return a set to which every table that is used from now on is added."""
    used: set[str] = set()

    def note(action: int, table: str | None, *_: object) -> int:
        used.add(table or "")
        return sqlite3.SQLITE_OK

    await store._engine.write(lambda tx: tx.db.set_authorizer(note), now=LATER)
    await store._engine.read(lambda db: db.set_authorizer(note))
    used.clear()
    return used


async def call_all(
    store: Store,
    scene: Scene,
    verbs: Mapping[str, Verb],
    is_fit: Callable[[Exception], bool],
) -> list[str]:
    """Call *verbs* together, as a busy process does; return errors that are not fit."""
    answers = await asyncio.gather(
        *(verb(store, scene) for verb in verbs.values()), return_exceptions=True
    )
    return [
        f"{name} raised {answer!r}"
        for name, answer in zip(verbs, answers, strict=True)
        if isinstance(answer, Exception) and not is_fit(answer)
    ]


def errors(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.levelno == logging.ERROR]


def _without_types(sql: str) -> str:
    """Return the table's text without what keeps wrong values out."""
    loose = re.sub(r"\) STRICT,?", ")", sql).replace(" NOT NULL", "")
    typed = r" (TEXT|INTEGER(?! PRIMARY KEY))\b"
    return re.sub(typed, " BLOB", loose)


def _reshape(db: sqlite3.Connection, table: str, sql: str) -> None:
    db.execute("PRAGMA writable_schema = ON")
    db.execute("UPDATE sqlite_schema SET sql = ? WHERE name = ?", (sql, table))
    version = db.execute("PRAGMA schema_version").fetchone()[0]
    db.execute(f"PRAGMA schema_version = {version + 1}")
    db.execute("PRAGMA writable_schema = RESET")
