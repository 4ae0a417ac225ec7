"""Kue: a priority job queue for Python, on SQLite and Redis."""

from importlib.metadata import version

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
from kue.worker import ActiveJob, Interrupted, current_job

__version__ = version("kue")

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
