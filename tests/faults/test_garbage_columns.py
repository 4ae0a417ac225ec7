"""
Any wrong value in any column of a SQLite file is an error of the store, and is found.

For every column and every kind of wrong value (R-6): each verb works or raises
`StoreError`, and the doctor finds what no verb can have written.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kue import ActiveJob, Kue
from kue.model.errors import StoreCorrupt, StoreError, StoreUnavailable
from kue.store.contract import Store
from tests.faults.garbling import (
    CALLS,
    COLUMNS,
    WRONG,
    Column,
    call_all,
    errors,
    garbled,
    prepare,
    store_at,
    verbs_by_table,
)
from tests.faults.scene import Scene, Verb
from tests.support.patience import until

pytestmark = pytest.mark.damages

_TEXT, _NAME = {"text", "json", "list", "empty"}, {"text", "json", "list"}
_NULL = {"null"}
#: Values that do not look damaged: the column may hold any text, name or nothing.
LEGAL = {
    "chunks.value": {"list"},
    "claims.lane": _NAME,
    "errors.kind": _TEXT,
    "errors.message": _TEXT,
    "events.type": _TEXT,
    "failure_rules.type": _TEXT,
    "failures.token": _TEXT,
    "failures.type": _NAME,
    "hours.type": _NAME,
    "jobs.group_key": _NAME,
    "jobs.expires_at": _NULL,
    "jobs.retention": _NULL,
    "jobs.worker": {"empty"},
    "jobs.ttl_at": _NULL,
    "jobs.progress_data": _NULL | {"list"},
    "jobs.cancelling": _TEXT | _NULL,
    "turns.type": _NAME,
    "kept.room": {"text"},
    "kept.name": _NAME,
    "kept.value": _TEXT,
    "kept.until": _NULL,
    "listeners.name": _NAME,
    "logs.level": {"text"},
    "logs.text": _TEXT,
    "pauses.type": _TEXT,
    "pauses.reason": _TEXT,
    "pauses.who": _TEXT,
    "pauses.until": _NULL,
    "producers.name": _NAME,
    # JSON is all that the doctor looks for here; a repeated add looks closer.
    "producers.answer": {"list"},
    "schedules.name": _NAME,
    "stats.type": _NAME,
    "uniques.key": _NAME,
    "watched.listener": _NAME,
    "worker_pauses.worker": _NAME,
    "worker_pauses.reason": _TEXT,
    "worker_pauses.who": _TEXT,
    "worker_pauses.until": _NULL,
    "workers.stacks": _TEXT | _NULL,
    "workers.stacks_at": _NULL,
}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Scene]:
    path = tmp_path_factory.mktemp("sound") / "kue.db"
    return path, asyncio.run(prepare(path))


@pytest.fixture(scope="module")
def concerned(prepared: tuple[Path, Scene]) -> dict[str, dict[str, Verb]]:
    """The verbs that a wrong value concerns, by its table."""
    sound, scene = prepared
    used = asyncio.run(verbs_by_table(sound, sound.parent, scene))
    return {
        table: {name: verb for name, verb in CALLS.items() if name in names}
        for table, names in used.items()
    }


@pytest.mark.parametrize("column", COLUMNS, ids=".".join)
async def test_wrong_values_raise_store_errors_and_are_found(
    prepared: tuple[Path, Scene],
    concerned: dict[str, dict[str, Verb]],
    swift: Path,
    column: Column,
) -> None:
    sound, scene = prepared
    verbs = concerned[column.table]
    faults: list[str] = []
    cases = 0
    for kind in WRONG:
        path = swift / f"{kind}.db"
        if garbled(path, sound, column, kind):
            cases += 1
            is_legal = kind in LEGAL.get(".".join(column), ())
            found = await look(path, scene, verbs, is_legal=is_legal)
            faults += [f"{kind}: {fault}" for fault in found]

    assert "\n".join(faults) == ""
    assert cases


async def look(
    path: Path, scene: Scene, verbs: dict[str, Verb], *, is_legal: bool
) -> list[str]:
    """Return what is wrong with how a garbled store is met."""
    store = store_at(path)
    try:
        found = await examine(store, is_legal)
        return found + await call_all(store, scene, verbs, is_fit)
    finally:
        await store.close()


async def examine(store: Store, is_legal: bool) -> list[str]:
    try:
        report = await store.check()
    except StoreError:
        return []
    except Exception as exc:
        return [f"the doctor raised {exc!r}"]
    return [] if is_legal or report.findings else ["the doctor finds nothing"]


def is_fit(error: Exception) -> bool:
    """Return whether it is an error of the store that does not look like an outage."""
    return isinstance(error, StoreError) and not isinstance(error, StoreUnavailable)


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (Column("limits", "limits"), "json"),
        (Column("limits", "level"), "text"),
        (Column("meta", "value"), "null"),
        (Column("jobs", "priority"), "blob"),
    ],
    ids=lambda value: value if isinstance(value, str) else ".".join(value),
)
async def test_a_worker_says_what_is_wrong(
    prepared: tuple[Path, Scene],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    column: Column,
    kind: str,
) -> None:
    """R-6: damage is an error in the log, once a minute, and never silence."""
    sound, _ = prepared
    path = tmp_path / "kue.db"
    assert garbled(path, sound, column, kind)
    store = store_at(path)
    q = Kue(f"sqlite:///{path}", store=store)

    @q.process("email")
    async def handler(job: ActiveJob) -> None: ...

    async with q, q.work():
        await until(lambda: bool(errors(caplog)))

    [first, *_] = errors(caplog)
    assert isinstance(first.exc_info and first.exc_info[1], StoreCorrupt)
    assert "kue doctor" in first.getMessage()
    assert len(errors(caplog)) <= 2
