"""
Doctor: check the invariants of a live store, and repair what is unambiguous.

Each part is checked on one consistent snapshot: what looks wrong there is wrong,
whatever other processes do.  A repair checks again before it writes.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kue.model.errors import StoreCorrupt
from kue.store.sqlite.doctor.columns import check_columns
from kue.store.sqlite.doctor.finding import SqliteFinding
from kue.store.sqlite.doctor.jobs import check_jobs
from kue.store.sqlite.doctor.tables import check_file, check_tables
from kue.store.values import Finding, Report

if TYPE_CHECKING:
    import sqlite3

    from kue.store.contract import OnProgress
    from kue.store.sqlite.engine import DatabaseThreads


async def check(
    engine: DatabaseThreads, *, repair: bool, on_progress: OnProgress | None
) -> Report:
    suspects = await engine.read(check_file)
    if suspects:
        # Nothing read from a damaged file proves anything.
        return Report(0, tuple([await _finding(engine, s, False) for s in suspects]))
    jobs = 0
    try:
        suspects = await engine.read(check_columns)
        found, jobs = await _check_jobs(engine, on_progress)
        suspects += found
        suspects += await engine.read(check_tables)
    except StoreCorrupt as exc:
        # What cannot be read cannot be checked; the rest of the report stands.
        suspects.append(SqliteFinding("unreadable", str(exc)))
    findings = [await _finding(engine, suspect, repair) for suspect in suspects]
    return Report(jobs, tuple(findings))


async def _check_jobs(
    engine: DatabaseThreads, on_progress: OnProgress | None
) -> tuple[list[SqliteFinding], int]:
    total = await engine.read(_count)
    suspects: list[SqliteFinding] = []
    seen, last = 0, 0
    while True:
        found, size, last = await engine.read(partial(check_jobs, last=last))
        suspects += found
        seen += size
        if on_progress is not None:
            # Jobs may come and go during the check; at the end, report the total.
            on_progress(min(seen, total) if size else total, total)
        if not size:
            return suspects, seen


def _count(db: sqlite3.Connection) -> int:
    return int(db.execute("SELECT count(*) FROM jobs").fetchone()[0])


async def _finding(
    engine: DatabaseThreads, suspect: SqliteFinding, repair: bool
) -> Finding:
    is_repaired = repair and await _repair(engine, suspect)
    job_id = suspect.values.get("job_id")
    of_job = "" if job_id is None else f"job {job_id}: "
    how = "" if suspect.repair is None else suspect.repair.text
    message = f"{of_job}{suspect.message}"
    return Finding(suspect.code, message, job_id, how, is_repaired)


async def _repair(engine: DatabaseThreads, suspect: SqliteFinding) -> bool:
    """Return whether *suspect* was repaired; damage elsewhere may prevent that."""
    if suspect.repair is None:
        return False
    try:
        await engine.write(
            partial(suspect.repair.apply, values=suspect.values), now=None
        )
    except StoreCorrupt:
        return False
    return True
