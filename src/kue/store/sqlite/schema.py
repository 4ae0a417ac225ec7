"""
SQLite schema and migrations: the tables of a Kue file, and updates of older files.

A job is one row; its state is a column, and each state has its own index, which holds
only the rows in that state.  Claiming the best waiting job, finding what is due and
reading a page are therefore one seek each, however many jobs are in other states.

Every table except ``jobs`` and ``events`` is small or keyed by what it is queried for.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from functools import cache

from kue.model.errors import StoreRefused

#: Marks the file as Kue's own ("kue!"), so that another program's file is recognized.
APPLICATION_ID = 0x6B756521
#: RETURNING, STRICT tables and ``->>`` are needed.
MIN_SQLITE = (3, 38, 0)

#: Every table, and what it holds; docs/reference/sqlite-tables.md is made from these.
TABLES = (
    (
        "jobs",
        "all data of a job; `body` and `story` (its history) are as in Redis",
    ),
    ("logs", "log lines"),
    ("steps", "durable steps and signals of jobs: `store/step_record.py`"),
    ("chunks", "the stream of a job: chunks of the last run that sent any"),
    ("uniques", "holders of unique keys, and until when"),
    ("links", "which job waits for which"),
    (
        "endings",
        "parents that ended with more dependants than one transaction should touch",
    ),
    ("failure_rules", "what is done about jobs that failed; type is '' for all"),
    ("failures", "jobs that failed for good and are still to be reported"),
    (
        "unlinked",
        "jobs that no longer wait, with more links than one transaction should delete",
    ),
    ("flows", "how many members the flow of a job has, and how they ended"),
    ("lost_jobs", "which ids belonged to jobs that were removed before they succeeded"),
    ("types", "types; one that is idle for a day is forgotten"),
    ("counts", "jobs by type and state"),
    ("errors", "failed jobs by type and fingerprint of their error"),
    ("stats", "what happened, by minute and type"),
    ("hours", "the same, by hour"),
    ("workers", "workers and their lease deadlines, orders and stacks"),
    ("claims", "number of the last claim of each lane"),
    ("producers", "answer to the last add of each producer"),
    ("pauses", "paused types"),
    ("worker_pauses", "paused workers"),
    ("limits", "limits, cap and order by type, and the state of their rates"),
    ("turns", "in a fair type, when each group gets its next turn"),
    ("named_limits", "rules of limits that jobs share by name"),
    ("limit_runs", "running jobs, by name and key of each limit"),
    ("limit_rates", "how far rates are spent, by name and key"),
    (
        "limit_openings",
        "when a rate lets the next held job start, by type, name and key",
    ),
    ("schedules", "schedules, and when each fires next"),
    ("listeners", "subscribers to all jobs"),
    ("watched", "jobs with subscribers, and which"),
    ("events", "events that may still have to be delivered"),
    ("kept", "small records such as users and sessions, by room and name"),
    ("acts", "the audit log"),
    (
        "meta",
        "last id, last fence, when maintenance last passed and passes next, work time",
    ),
)

#: The rowid, which is the id, ends every index: rows of equal rank are in order of id.
_FIRST = """
CREATE TABLE jobs (
    id INTEGER PRIMARY KEY,
    type TEXT NOT NULL,
    state TEXT NOT NULL,
    priority INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    -- delayed: when it becomes ready / ended: when it did / blocked: not before this
    at INTEGER,
    -- kept as given, see kue.store.codec
    body TEXT NOT NULL,
    story TEXT NOT NULL DEFAULT '',
    -- what the engine acts on, fixed when the job is added
    unique_key TEXT,
    unique_for INTEGER NOT NULL DEFAULT 0,
    group_key TEXT,
    ttl INTEGER NOT NULL DEFAULT 0,
    expires_at INTEGER,
    once INTEGER NOT NULL DEFAULT 0,
    after_any INTEGER NOT NULL DEFAULT 0,
    delay INTEGER NOT NULL DEFAULT 0,
    retention INTEGER,
    remove_on_complete INTEGER NOT NULL DEFAULT 0,
    -- attempts spent, and workers lost
    attempts INTEGER NOT NULL DEFAULT 0,
    stalls INTEGER NOT NULL DEFAULT 0,
    -- waiting, but over its group's limit
    held INTEGER NOT NULL DEFAULT 0,
    -- only while it runs (cancelling is the reason someone gave)
    token TEXT NOT NULL DEFAULT '',
    worker TEXT NOT NULL DEFAULT '',
    ttl_at INTEGER,
    progress INTEGER NOT NULL DEFAULT 0,
    progress_data TEXT,
    cancelling TEXT,
    -- only once it ended, and only if it has its own retention
    retain_until INTEGER
) STRICT;

CREATE INDEX jobs_by_type ON jobs (type);
CREATE INDEX jobs_ready ON jobs (type, priority)
    WHERE state = 'waiting' AND held = 0;
CREATE INDEX jobs_held ON jobs (type, priority)
    WHERE state = 'waiting' AND held = 1;
CREATE INDEX jobs_held_in_group ON jobs (type, group_key, priority)
    WHERE state = 'waiting' AND held = 1;
CREATE INDEX jobs_delayed ON jobs (type, at) WHERE state = 'delayed';
CREATE INDEX jobs_blocked ON jobs (type) WHERE state = 'blocked';
CREATE INDEX jobs_active ON jobs (worker) WHERE state = 'active';
CREATE INDEX jobs_active_in_group ON jobs (type, group_key)
    WHERE state = 'active' AND group_key IS NOT NULL;
CREATE INDEX jobs_complete ON jobs (type, at)
    WHERE state = 'complete' AND retain_until IS NULL;
CREATE INDEX jobs_failed ON jobs (type, at)
    WHERE state = 'failed' AND retain_until IS NULL;
CREATE INDEX jobs_cancelled ON jobs (type, at)
    WHERE state = 'cancelled' AND retain_until IS NULL;
CREATE INDEX jobs_retained ON jobs (type, state, at)
    WHERE retain_until IS NOT NULL;
CREATE INDEX jobs_retained_until ON jobs (retain_until)
    WHERE retain_until IS NOT NULL;
CREATE INDEX jobs_ttl ON jobs (ttl_at) WHERE ttl_at IS NOT NULL;
CREATE INDEX jobs_expiring ON jobs (expires_at)
    WHERE expires_at IS NOT NULL
    AND (state = 'waiting' OR state = 'delayed' OR state = 'blocked');

-- the last id and the last fence given, and when maintenance and a grace period were
CREATE TABLE meta (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO meta (name, value) VALUES ('ids', 0), ('fence', 0);

CREATE TABLE types (name TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;

-- how many jobs there are (own = 1: with their own retention)
CREATE TABLE counts (
    type TEXT,
    state TEXT,
    own INTEGER,
    n INTEGER NOT NULL,
    PRIMARY KEY (type, state, own)
) STRICT, WITHOUT ROWID;

CREATE TABLE stats (
    minute INTEGER,
    type TEXT,
    added INTEGER NOT NULL,
    complete INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    run_ms INTEGER NOT NULL,
    PRIMARY KEY (minute, type)
) STRICT, WITHOUT ROWID;

CREATE TABLE logs (
    job_id INTEGER,
    line INTEGER,
    at INTEGER NOT NULL,
    level TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (job_id, line)
) STRICT, WITHOUT ROWID;

CREATE TABLE uniques (
    type TEXT,
    key TEXT,
    job_id INTEGER NOT NULL,
    -- NULL while the job is unfinished, then the end of its unique_for
    until INTEGER,
    PRIMARY KEY (type, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX uniques_until ON uniques (until) WHERE until IS NOT NULL;

CREATE TABLE producers (
    name TEXT PRIMARY KEY,
    seq INTEGER NOT NULL,
    answer TEXT NOT NULL,
    at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX producers_at ON producers (at);

-- child waits for parent
CREATE TABLE links (
    parent INTEGER,
    child INTEGER,
    PRIMARY KEY (parent, child)
) STRICT, WITHOUT ROWID;
CREATE INDEX links_child ON links (child);

-- parents that ended with more dependants than one transaction should touch
CREATE TABLE endings (
    parent INTEGER PRIMARY KEY,
    how TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE workers (
    name TEXT PRIMARY KEY,
    deadline INTEGER NOT NULL,
    -- it deregistered and gets no grace period
    has_left INTEGER NOT NULL DEFAULT 0,
    info TEXT NOT NULL DEFAULT '{}'
) STRICT, WITHOUT ROWID;

CREATE TABLE claims (
    lane TEXT PRIMARY KEY,
    seq INTEGER NOT NULL,
    at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- type is '' for the pause of every type
CREATE TABLE pauses (
    type TEXT PRIMARY KEY,
    at INTEGER NOT NULL,
    reason TEXT NOT NULL,
    who TEXT NOT NULL,
    until INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE limits (
    type TEXT PRIMARY KEY,
    limits TEXT NOT NULL,
    -- the token bucket, see kue.store.sqlite.verbs.limits.TokenBucket
    level INTEGER NOT NULL,
    filled_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE schedules (
    name TEXT PRIMARY KEY,
    next_at INTEGER NOT NULL,
    schedule TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX schedules_due ON schedules (next_at);

-- subscribers to all jobs
CREATE TABLE listeners (
    name TEXT PRIMARY KEY,
    deadline INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- subscribers to single jobs
CREATE TABLE watched (
    job_id INTEGER,
    listener TEXT,
    deadline INTEGER NOT NULL,
    PRIMARY KEY (job_id, listener)
) STRICT, WITHOUT ROWID;
CREATE INDEX watched_by ON watched (listener);

CREATE TABLE events (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    kind TEXT NOT NULL,
    job_id INTEGER NOT NULL,
    type TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    detail TEXT NOT NULL,
    -- by the machine's clock, whatever clock the jobs use
    told_at INTEGER NOT NULL
) STRICT;
CREATE INDEX events_told ON events (told_at);
"""

_SECOND = """
CREATE TABLE worker_pauses (
    worker TEXT PRIMARY KEY,
    at INTEGER NOT NULL,
    reason TEXT NOT NULL,
    who TEXT NOT NULL,
    until INTEGER
) STRICT, WITHOUT ROWID;
"""

_THIRD = """
-- small records, by room and name
CREATE TABLE kept (
    room TEXT,
    name TEXT,
    value TEXT NOT NULL,
    until INTEGER,
    PRIMARY KEY (room, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX kept_until ON kept (until) WHERE until IS NOT NULL;

-- the audit log
CREATE TABLE acts (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    act TEXT NOT NULL
) STRICT;

-- bucket → number, see kue.model.histogram
ALTER TABLE stats ADD COLUMN waits TEXT NOT NULL DEFAULT '{}';
ALTER TABLE stats ADD COLUMN runs TEXT NOT NULL DEFAULT '{}';

CREATE TABLE hours (
    hour INTEGER,
    type TEXT,
    added INTEGER NOT NULL,
    complete INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    run_ms INTEGER NOT NULL,
    waits TEXT NOT NULL,
    runs TEXT NOT NULL,
    PRIMARY KEY (hour, type)
) STRICT, WITHOUT ROWID;

-- order → until when it is delivered
ALTER TABLE workers ADD COLUMN orders TEXT NOT NULL DEFAULT '{}';
ALTER TABLE workers ADD COLUMN stacks TEXT;
ALTER TABLE workers ADD COLUMN stacks_at INTEGER;
"""

_FOURTH = """
-- errors of jobs that are failed, by the fingerprint that ends their story
CREATE TABLE errors (
    type TEXT,
    fingerprint TEXT,
    n INTEGER NOT NULL,
    first_at INTEGER NOT NULL,
    last_at INTEGER NOT NULL,
    -- the last of them, and its error
    job_id INTEGER NOT NULL,
    kind TEXT NOT NULL,
    message TEXT NOT NULL,
    PRIMARY KEY (type, fingerprint)
) STRICT, WITHOUT ROWID;
"""

_FIFTH = """
-- each ring is trimmed separately: no client can push out the entries of others
ALTER TABLE acts ADD COLUMN ring TEXT NOT NULL DEFAULT 'acts';
CREATE INDEX acts_ring ON acts (ring, id);
"""

_SIXTH = """
-- Nothing could write schedules before.
DROP TABLE schedules;
CREATE TABLE schedules (
    name TEXT PRIMARY KEY,
    -- never, if paused or ended
    next_at INTEGER,
    schedule TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX schedules_due ON schedules (next_at) WHERE next_at IS NOT NULL;
"""

_SEVENTH = """
-- unique keys that are free once the job was started, or some time after it was added
ALTER TABLE jobs ADD COLUMN unique_until TEXT NOT NULL DEFAULT 'end';
ALTER TABLE jobs ADD COLUMN unique_at_most INTEGER NOT NULL DEFAULT 0;
"""

_EIGHTH = """
-- limits it counts against, as JSON; the one that holds it (then held = 2)
ALTER TABLE jobs ADD COLUMN limited_by TEXT;
ALTER TABLE jobs ADD COLUMN held_by TEXT;
CREATE INDEX jobs_limited ON jobs (type, priority)
    WHERE state = 'waiting' AND held = 2;
CREATE INDEX jobs_held_by ON jobs (held_by, priority)
    WHERE state = 'waiting' AND held = 2;

CREATE TABLE named_limits (
    name TEXT PRIMARY KEY,
    definition TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE limit_runs (
    ref TEXT,
    job_id INTEGER,
    PRIMARY KEY (ref, job_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE limit_rates (
    ref TEXT PRIMARY KEY,
    state TEXT NOT NULL,
    -- then it is as if the rate had not been used
    until INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX limit_rates_until ON limit_rates (until);

CREATE TABLE limit_openings (
    type TEXT,
    ref TEXT,
    at INTEGER NOT NULL,
    PRIMARY KEY (type, ref)
) STRICT, WITHOUT ROWID;
CREATE INDEX limit_openings_at ON limit_openings (type, at);
"""

_NINTH = """
-- the order in which waiting jobs start, see kue.store.sqlite.ranking
ALTER TABLE jobs ADD COLUMN rank INTEGER NOT NULL DEFAULT 0;
UPDATE jobs SET rank = priority * 2199023255552 + id;
DROP INDEX jobs_ready;
DROP INDEX jobs_held;
DROP INDEX jobs_held_in_group;
DROP INDEX jobs_limited;
DROP INDEX jobs_held_by;
CREATE INDEX jobs_ready ON jobs (type, rank) WHERE state = 'waiting' AND held = 0;
CREATE INDEX jobs_held ON jobs (type, rank) WHERE state = 'waiting' AND held = 1;
CREATE INDEX jobs_held_in_group ON jobs (type, group_key, rank)
    WHERE state = 'waiting' AND held = 1;
CREATE INDEX jobs_limited ON jobs (type, rank) WHERE state = 'waiting' AND held = 2;
CREATE INDEX jobs_held_by ON jobs (held_by, rank)
    WHERE state = 'waiting' AND held = 2;

CREATE TABLE turns (
    type TEXT,
    -- 'priority:group', or 'priority' for the virtual time itself
    member TEXT,
    rank INTEGER NOT NULL,
    PRIMARY KEY (type, member)
) STRICT, WITHOUT ROWID;
CREATE INDEX turns_rank ON turns (type, rank);
"""

_TENTH = """
-- what jobs did and wait for, see kue.store.step_record
CREATE TABLE steps (
    job_id INTEGER,
    field TEXT,
    value TEXT NOT NULL,
    PRIMARY KEY (job_id, field)
) STRICT, WITHOUT ROWID;
-- whether it has any of these
ALTER TABLE jobs ADD COLUMN has_steps INTEGER NOT NULL DEFAULT 0;
-- time of successful runs; what of it is in an hour is summed up in meta
ALTER TABLE stats ADD COLUMN work_ms INTEGER NOT NULL DEFAULT 0;
-- events of it are off
ALTER TABLE jobs ADD COLUMN quiet INTEGER NOT NULL DEFAULT 0;

CREATE TABLE failure_rules (
    type TEXT PRIMARY KEY,
    rule TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE failures (
    at INTEGER,
    job_id INTEGER,
    -- of the run that failed; empty if none did
    token TEXT,
    type TEXT NOT NULL,
    PRIMARY KEY (at, job_id, token)
) STRICT, WITHOUT ROWID;

-- what the failure of a parent does to it, and whose flow it belongs to
ALTER TABLE jobs ADD COLUMN on_parent_failure TEXT NOT NULL DEFAULT 'block';
UPDATE jobs SET on_parent_failure = 'run' WHERE after_any = 1;
ALTER TABLE jobs DROP COLUMN after_any;
ALTER TABLE jobs ADD COLUMN flow INTEGER;
CREATE INDEX jobs_flow ON jobs (flow) WHERE flow IS NOT NULL;

-- members of the flow of job id, how they ended, and how removed ones had ended
CREATE TABLE flows (
    id INTEGER PRIMARY KEY,
    members INTEGER NOT NULL DEFAULT 0,
    complete INTEGER NOT NULL DEFAULT 0,
    failed INTEGER NOT NULL DEFAULT 0,
    cancelled INTEGER NOT NULL DEFAULT 0,
    gone_complete INTEGER NOT NULL DEFAULT 0,
    gone_failed INTEGER NOT NULL DEFAULT 0,
    gone_cancelled INTEGER NOT NULL DEFAULT 0
) STRICT;

-- jobs that wait for themselves, until the call that adds them is complete
CREATE INDEX links_held ON links (child) WHERE parent = child;

CREATE TABLE unlinked (child INTEGER PRIMARY KEY) STRICT;

-- one bit for each of 8192 ids
CREATE TABLE lost_jobs (
    chunk INTEGER PRIMARY KEY,
    bits BLOB NOT NULL
) STRICT;
"""

_ELEVENTH = """
CREATE TABLE chunks (
    job_id INTEGER,
    position INTEGER,
    -- the fence of the run
    run INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    at INTEGER NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (job_id, position)
) STRICT, WITHOUT ROWID;
-- whether it has any of these
ALTER TABLE jobs ADD COLUMN has_chunks INTEGER NOT NULL DEFAULT 0;
"""

#: Migration n makes version n + 1 of a file from version n; version 0 is an empty file.
MIGRATIONS: tuple[str, ...] = (
    *(_FIRST, _SECOND, _THIRD, _FOURTH, _FIFTH, _SIXTH, _SEVENTH, _EIGHTH),
    *(_NINTH, _TENTH, _ELEVENTH),
)


def check_engine(version: tuple[int, ...] = sqlite3.sqlite_version_info) -> None:
    """Raise `StoreRefused` when Python's SQLite is too old."""
    if version < MIN_SQLITE:
        wanted, found = (".".join(map(str, parts)) for parts in (MIN_SQLITE, version))
        raise StoreRefused(
            f"Kue needs SQLite {wanted} or newer, and this Python has {found}; "
            "use a newer Python, or keep jobs in Redis (KUE_URL=redis://…)"
        )


def check_owner(db: sqlite3.Connection, name: str) -> None:
    """Raise `StoreRefused` when the file is another program's; nothing is written."""
    # One snapshot: another process may be creating the tables right now.
    db.execute("BEGIN")
    try:
        is_ours = _pragma(db, "application_id") == APPLICATION_ID
        tables = db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
        is_empty = not int(tables) and not _pragma(db, "user_version")
    finally:
        db.execute("COMMIT")
    if not is_ours and not is_empty:
        raise StoreRefused(f"{name} belongs to another program; give Kue its own file")


def is_current(db: sqlite3.Connection) -> bool:
    """Return whether the file is Kue's and up to date; one page is read."""
    return _pragma(db, "application_id") == APPLICATION_ID and _pragma(
        db, "user_version"
    ) == len(MIGRATIONS)


def migrate(db: sqlite3.Connection, name: str) -> None:
    """
    Migrate the file to the current schema, inside the open transaction.

    Raises:
        StoreRefused: It was written by a newer Kue.
    """
    version = _pragma(db, "user_version")
    if version > len(MIGRATIONS):
        raise StoreRefused(
            f"{name} was written by a newer Kue (schema {version}; this one knows "
            f"{len(MIGRATIONS)}); upgrade Kue in this process"
        )
    for statement in _migration(version) if version else _new_file():
        db.execute(statement)
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    db.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")


def _migration(version: int) -> list[str]:
    # Not executescript, which would commit the open transaction.
    return [part for script in MIGRATIONS[version:] for part in script.split(";\n")]


@cache
def _new_file() -> tuple[str, ...]:
    """
    Return what creates a file with the current schema.

    That is where the migrations lead to.  They themselves would take four times as
    long, for each queue in memory that a program's tests make.
    """
    with closing(sqlite3.connect(":memory:")) as db:
        for statement in _migration(0):
            db.execute(statement)
        db.commit()
        return tuple(db.iterdump())[1:-1]  # without BEGIN and COMMIT


def _pragma(db: sqlite3.Connection, name: str) -> int:
    return int(db.execute(f"PRAGMA {name}").fetchone()[0])
