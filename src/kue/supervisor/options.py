"""Options of ``kue worker``."""

from __future__ import annotations

from typing import Literal

import msgspec

LogFormat = Literal["text", "json"]

GRACE_SECONDS = 30.0
STUCK_SECONDS = 600.0
#: How long nothing may wait before a process leaves.
COOLDOWN_SECONDS = 30.0
#: Waiting jobs that take longer than this have more processes started.
TARGET_WAIT_SECONDS = 5.0
#: A range, and a number, of processes ends here.
MAX_PROCESSES = 1000


class ProcessCount(msgspec.Struct, frozen=True):
    """How many processes take jobs now, and how many do at least and at most."""

    now: int
    least: int
    most: int


class SupervisorOptions(msgspec.Struct, frozen=True, kw_only=True):
    """All options of ``kue worker``; durations are in seconds."""

    #: Where the queue is: ``module:attribute`` or ``path/to/file.py:attribute``.
    target: str
    #: How many processes run jobs; with `most_processes` the least.
    processes: int = 1
    #: More processes, up to this many, are started when jobs wait; None for a fixed
    #: number.
    most_processes: int | None = None
    #: How long nothing may wait before one of those leaves.
    cooldown: float = COOLDOWN_SECONDS
    #: How long waiting jobs may take before there are more processes.
    target_wait: float = TARGET_WAIT_SECONDS
    #: Jobs at once per process; None for the slots of each task.
    concurrency: int | None = None
    #: The connection to work on; None for that of the queue itself.
    connection: str | None = None
    #: Types to work on, in order; empty means all.
    types: tuple[str, ...] = ()
    #: Queues to serve instead, by name or pattern.
    queues: tuple[str, ...] = ()
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

    @property
    def most(self) -> int:
        """The most processes that take jobs."""
        return max(self.processes, self.most_processes or 0)

    @property
    def is_scaling(self) -> bool:
        """Whether the number of processes follows the backlog."""
        return self.most > self.processes
