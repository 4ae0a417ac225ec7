"""
Proving the invariants of a live store, and mending what needs no guessing.

Each part is looked at on one snapshot, in which everything belongs together: what looks
wrong there is wrong, whatever others are doing.  A mend looks again before it writes.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kue.model.errors import StoreCorrupt
from kue.store.sqlite.doctor.columns import check_columns
from kue.store.sqlite.doctor.finding import SqliteFinding
from kue.store.sqlite.doctor.jobs import JobChecks, rows_after
from kue.store.sqlite.doctor.tables import check_file, check_tables
from kue.store.values import Finding, Report

if TYPE_CHECKING:
    import sqlite3

    from kue.store.contract import OnProgress
    from kue.store.sqlite.engine import DatabaseThreads


async def check(
    engine: DatabaseThreads, *, repair: bool, on_progress: OnProgress | None
) -> Report:
    """Look at everything; with *repair*, mend what can be mended."""
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
        # What cannot be read cannot be proven; the rest of the report stands.
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
        found, size, last = await engine.read(partial(_look_at, last=last))
        suspects += found
        seen += size
        if on_progress is not None:
            # Jobs may come and go meanwhile; the end is the end.
            on_progress(min(seen, total) if size else total, total)
        if not size:
            return suspects, seen


def _look_at(db: sqlite3.Connection, last: int) -> tuple[list[SqliteFinding], int, int]:
    """Check the jobs after *last*: what is wrong, how many they were, the last."""
    rows = rows_after(db, last)
    if not rows:
        return [], 0, last
    return list(JobChecks(db, rows)), len(rows), rows[-1].id


def _count(db: sqlite3.Connection) -> int:
    return int(db.execute("SELECT count(*) FROM jobs").fetchone()[0])


async def _mend(engine: DatabaseThreads, suspect: SqliteFinding) -> bool:
    """Return whether *suspect* was repaired; damage elsewhere may prevent that."""
    if suspect.mend is None:
        return False
    try:
        await engine.write(suspect.mend, now=None)
    except StoreCorrupt:
        return False
    return True


async def _finding(
    engine: DatabaseThreads, suspect: SqliteFinding, repair: bool
) -> Finding:
    is_mended = repair and await _mend(engine, suspect)
    of_job = "" if suspect.job_id is None else f"job {suspect.job_id}: "
    return Finding(
        code=suspect.code,
        message=f"{of_job}{suspect.message}",
        job_id=suspect.job_id,
        repair=suspect.repair,
        repaired=is_mended,
    )
