"""Workers: they claim jobs, run their handlers and write down how the runs ended."""

from kue.worker.active import ActiveJob
from kue.worker.executor import Handler
from kue.worker.loop import Processor
from kue.worker.worker import Worker

__all__ = ["ActiveJob", "Handler", "Processor", "Worker"]
