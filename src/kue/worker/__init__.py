"""Workers: they claim jobs, run their handlers and write down how the runs ended."""

from kue.worker.active import ActiveJob
from kue.worker.current import current_job
from kue.worker.executor import Handler
from kue.worker.loop import Processor
from kue.worker.threads import Interrupted
from kue.worker.worker import Plan, Worker

__all__ = [
    "ActiveJob",
    "Handler",
    "Interrupted",
    "Plan",
    "Processor",
    "Worker",
    "current_job",
]
