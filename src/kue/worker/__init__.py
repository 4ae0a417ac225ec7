"""Workers: they claim jobs, run the handlers and settle the runs."""

from kue.worker.active_job import ActiveJob
from kue.worker.current_job import current_job
from kue.worker.executor import Handler
from kue.worker.lane import Processor
from kue.worker.pools.threads import Interrupted
from kue.worker.worker import Worker, WorkerOptions

__all__ = [
    "ActiveJob",
    "Handler",
    "Interrupted",
    "Processor",
    "Worker",
    "WorkerOptions",
    "current_job",
]
