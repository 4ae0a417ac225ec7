"""Kue: a priority job queue for Python, on SQLite and Redis."""

from typing import TYPE_CHECKING

from kue.backoff import exponential, fixed, listed, named
from kue.builder import JobBuilder
from kue.errors import (
    BadArguments,
    BadPayload,
    Cancel,
    ConfigError,
    DurabilityUnknown,
    Fail,
    InvalidTransition,
    JobCancelled,
    JobError,
    JobFailed,
    JobNotFound,
    KueError,
    LeaseLost,
    Release,
    Retry,
    Skip,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreRefused,
    StoreUnavailable,
    UniqueHeld,
)
from kue.events import Event, Kind
from kue.handle import JobHandle
from kue.job import Draft, Job, Priority, State
from kue.queue import Kue
from kue.resource import Resource
from kue.selection import Selection
from kue.sync import SyncJobBuilder, SyncJobHandle, SyncKue
from kue.task import Task
from kue.version import version
from kue.worker import ActiveJob, Interrupted, current_job

if TYPE_CHECKING:
    __version__: str
else:

    def __getattr__(name: str) -> object:
        """Read the version when it is asked for."""
        if name == "__version__":
            return version()
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "ActiveJob",
    "BadArguments",
    "BadPayload",
    "Cancel",
    "ConfigError",
    "Draft",
    "DurabilityUnknown",
    "Event",
    "Fail",
    "Interrupted",
    "InvalidTransition",
    "Job",
    "JobBuilder",
    "JobCancelled",
    "JobError",
    "JobFailed",
    "JobHandle",
    "JobNotFound",
    "Kind",
    "Kue",
    "KueError",
    "LeaseLost",
    "Priority",
    "Release",
    "Resource",
    "Retry",
    "Selection",
    "Skip",
    "State",
    "StoreCorrupt",
    "StoreError",
    "StoreFull",
    "StoreRefused",
    "StoreUnavailable",
    "SyncJobBuilder",
    "SyncJobHandle",
    "SyncKue",
    "Task",
    "UniqueHeld",
    "__version__",
    "current_job",
    "exponential",
    "fixed",
    "listed",
    "named",
]
