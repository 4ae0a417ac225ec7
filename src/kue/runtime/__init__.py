"""
The runtime of verticles, on event loops and worker threads.

    class Greeter(Verticle):
        async def start(self) -> None:
            self.runtime.set_periodic("1s", self.greet)

        def greet(self, timer_id: int) -> None:
            print("hello from", threading.current_thread().name)

    async with Runtime(loops=2) as runtime:
        await runtime.deploy(Greeter, instances=2)

It knows nothing of jobs.
"""

from kue.runtime.blocked_monitor import MonitorLimits
from kue.runtime.context import Context, current_context
from kue.runtime.deployment import Deployment
from kue.runtime.errors import (
    AlreadyUndeployed,
    LockTimedOut,
    RuntimeClosed,
    UnknownDeployment,
)
from kue.runtime.failover import HA
from kue.runtime.runtime import Runtime
from kue.runtime.shared import (
    AsyncMap,
    Counter,
    LocalMap,
    LocalShared,
    Lock,
    Shareable,
    Shared,
    SharedData,
)
from kue.runtime.verticle import Verticle
from kue.runtime.worker_context import WorkerExecutor

__all__ = [
    "HA",
    "AlreadyUndeployed",
    "AsyncMap",
    "Context",
    "Counter",
    "Deployment",
    "LocalMap",
    "LocalShared",
    "Lock",
    "LockTimedOut",
    "MonitorLimits",
    "Runtime",
    "RuntimeClosed",
    "Shareable",
    "Shared",
    "SharedData",
    "UnknownDeployment",
    "Verticle",
    "WorkerExecutor",
    "current_context",
]
