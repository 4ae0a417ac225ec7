"""
KMQueue's API: tasks that are popped and finished by hand.

`KMQueueManager` declares queues, "name" or "name:safe"; a `TaskQueue` takes and gives
`Task` objects; `BackupQueueMonitor` reports hung and failed tasks.  All of it blocks,
and may be used from any thread.  The queues are those of `kue.Kue`: their tasks are
jobs, which the dashboard shows and workers can run as well.
"""

from kue.km.manager import KMQueueManager
from kue.km.monitor import (
    AliveDetectHandler,
    BackupQueueMonitor,
    MonitorReport,
    Pipeline,
)
from kue.km.queue_names import gen_back_up_queue_name
from kue.km.task import KMTask as Task
from kue.km.task import TaskHandler, TaskStatus
from kue.km.task_queue import TaskQueue

__all__ = [
    "AliveDetectHandler",
    "BackupQueueMonitor",
    "KMQueueManager",
    "MonitorReport",
    "Pipeline",
    "Task",
    "TaskHandler",
    "TaskQueue",
    "TaskStatus",
    "gen_back_up_queue_name",
]
