"""Options of ``kue worker``."""

from __future__ import annotations

from typing import Literal

import msgspec

LogFormat = Literal["text", "json"]

GRACE_SECONDS = 30.0
STUCK_SECONDS = 600.0


class SupervisorOptions(msgspec.Struct, frozen=True, kw_only=True):
    """All options of ``kue worker``; durations are in seconds."""

    #: Where the queue is: ``module:attribute`` or ``path/to/file.py:attribute``.
    target: str
    processes: int = 1
    #: Jobs at once per process; None for the slots of each task.
    concurrency: int | None = None
    #: Types to work on, in order; empty means all.
    types: tuple[str, ...] = ()
    #: Take types strictly in the order given, instead of fairly.
    strict: bool = False
    burst: bool = False
    max_jobs: int | None = None
    max_age: float | None = None
    #: Bytes of memory after which a child is replaced.
    max_memory: int | None = None
    grace: float = GRACE_SECONDS
    #: A child whose event loop is blocked for this long is killed; 0 for never.
    stuck_after: float = STUCK_SECONDS
    reload: bool = False
    log_format: LogFormat = "text"
    log_level: str = "INFO"
    health_file: str | None = None
    health_host: str = "127.0.0.1"
    health_port: int | None = None
