"""Kue: a priority job queue for Python, on SQLite and Redis."""

from typing import TYPE_CHECKING

from kue.client.batch import BatchBuilder, batch
from kue.client.batch_handle import BatchHandle, BatchProgress
from kue.client.builder import JobBuilder
from kue.client.circuit_breaker import circuit_breaker
from kue.client.connections import configure, connect
from kue.client.failover_connection import FailedOver
from kue.client.flow import Flow, Signature, chain, group
from kue.client.flow_handle import FlowHandle
from kue.client.handle import JobHandle
from kue.client.queue import Kue
from kue.client.ready_middleware import (
    fail_on,
    not_counted,
    release_when,
    retry_on,
    skip_when,
    window,
)
from kue.client.selection import Selection
from kue.client.sync import SyncJobBuilder, SyncJobHandle, SyncKue
from kue.client.sync.flow_handles import SyncBatchHandle, SyncFlowHandle
from kue.client.task import Task
from kue.client.worker_resource import Resource
from kue.model.backoff import exponential, fixed, listed, named
from kue.model.circuit import Circuit
from kue.model.errors import (
    BadArguments,
    BadPayload,
    Cancel,
    ConfigError,
    DuplicateJob,
    DurabilityUnknown,
    Fail,
    InvalidTransition,
    JobCancelled,
    JobError,
    JobFailed,
    JobNotFound,
    KueError,
    LeaseLost,
    PayloadRefused,
    QueueFull,
    Release,
    Retry,
    ScheduleDeclared,
    ScheduleNotFound,
    SignalTimeout,
    Skip,
    SoftTimeout,
    StepError,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreRefused,
    StoreUnavailable,
    StreamFull,
    StreamRestarted,
    Suspended,
    UniqueHeld,
    UnknownParent,
)
from kue.model.events import Event, Kind
from kue.model.job import Draft, Job, Priority, State
from kue.model.named_limits import LimitRule, StoredLimit, TaskLimit, concurrency, rate
from kue.model.schedule import Schedule
from kue.model.steps import JobSteps, Signal, Step
from kue.model.stream import Chunk
from kue.model.version import version
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
    "BatchBuilder",
    "BatchHandle",
    "BatchProgress",
    "Cancel",
    "Chunk",
    "Circuit",
    "ConfigError",
    "Draft",
    "DuplicateJob",
    "DurabilityUnknown",
    "Event",
    "Fail",
    "FailedOver",
    "Flow",
    "FlowHandle",
    "Interrupted",
    "InvalidTransition",
    "Job",
    "JobBuilder",
    "JobCancelled",
    "JobError",
    "JobFailed",
    "JobHandle",
    "JobNotFound",
    "JobSteps",
    "Kind",
    "Kue",
    "KueError",
    "LeaseLost",
    "LimitRule",
    "PayloadRefused",
    "Priority",
    "QueueFull",
    "Release",
    "Resource",
    "Retry",
    "Schedule",
    "ScheduleDeclared",
    "ScheduleNotFound",
    "Selection",
    "Signal",
    "SignalTimeout",
    "Signature",
    "Skip",
    "SoftTimeout",
    "State",
    "Step",
    "StepError",
    "StoreCorrupt",
    "StoreError",
    "StoreFull",
    "StoreRefused",
    "StoreUnavailable",
    "StoredLimit",
    "StreamFull",
    "StreamRestarted",
    "Suspended",
    "SyncBatchHandle",
    "SyncFlowHandle",
    "SyncJobBuilder",
    "SyncJobHandle",
    "SyncKue",
    "Task",
    "TaskLimit",
    "UniqueHeld",
    "UnknownParent",
    "__version__",
    "batch",
    "chain",
    "circuit_breaker",
    "concurrency",
    "configure",
    "connect",
    "current_job",
    "exponential",
    "fail_on",
    "fixed",
    "group",
    "listed",
    "named",
    "not_counted",
    "rate",
    "release_when",
    "retry_on",
    "skip_when",
    "window",
]
