"""The runtime: event loops, thread pools, and the verticles deployed on them."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import Future
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Self, TypeVar, TypeVarTuple, Unpack

from kue.aio.event_loop import new_event_loop
from kue.bus import EventBus
from kue.bus.consumer import DEFAULT_BUFFER
from kue.model.payload import decode, encode
from kue.runtime.blocked_monitor import BlockedMonitor, MonitorLimits
from kue.runtime.context import (
    CloseHooks,
    Context,
    current_context,
    protecting_current_task,
    wait_shielded,
)
from kue.runtime.deployment import Deployer, Deployment, DeploymentOptions
from kue.runtime.errors import RuntimeClosed
from kue.runtime.event_loops import EventLoops
from kue.runtime.failover import DEFAULT_GROUP, HA, Failover
from kue.runtime.shared import LocalShared, SharedData
from kue.runtime.thread_pool import ThreadPools
from kue.runtime.timers import TimerCall, Timers
from kue.runtime.worker_context import WorkerContext, WorkerExecutor

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kue.bus import Consumer, Handler
    from kue.model.duration import Duration
    from kue.runtime.context import Callback
    from kue.runtime.shared import Shared
    from kue.runtime.timers import TimerHandler
    from kue.runtime.verticle import Source

logger = logging.getLogger(__name__)

A = TypeVarTuple("A")
T = TypeVar("T")

MAX_LOOPS = 256
#: Threads of a pool by default.
WORKERS = 20
#: Threads of the pool for blocking calls of workers: all worker threads may wait.
INTERNAL = 20


class Runtime:
    """
    Runs verticles.  There may be several in a process; they share nothing.

    Use it as ``async with Runtime() as runtime``.

    Args:
        loops: How many threads with an event loop contexts are spread over.  0 means
            that all of them live on the loop that opens the runtime.
        workers: How many threads the pool for worker verticles and blocking code has.
        bus: The event bus, which verticles get as ``runtime.bus``.  It starts before
            the first of them and is closed after the last.
        shared: The store of maps, locks and counters; by default this runtime.
        ha: The group in which verticles fail over, if they are to; requires a bus
            with a cluster.
        limits: What the monitor considers blocked; None means that it does not run.
        loop_factory: Makes event loops: uvloop's where that is installed.
    """

    def __init__(
        self,
        *,
        loops: int = 0,
        workers: int = WORKERS,
        bus: EventBus | None = None,
        shared: Shared | None = None,
        ha: HA | None = None,
        limits: MonitorLimits | None = MonitorLimits(),  # noqa: B008 - it is frozen
        loop_factory: Callable[[], asyncio.AbstractEventLoop] = new_event_loop,
    ) -> None:
        if not 0 <= loops <= MAX_LOOPS:
            raise ValueError(f"loops must be 0 to {MAX_LOOPS}, not {loops}")
        if ha is not None and (bus is None or bus.cluster is None):
            raise ValueError("ha requires a bus with a cluster; see Runtime.clustered")
        self.bus = bus
        self.loop_factory = loop_factory
        #: Called with what handlers raise in contexts without their own handler.
        self.exception_handler: Callable[[BaseException], object] | None = None
        self.shared = SharedData(LocalShared(self._call_later), shared)
        self._shared_store = shared
        self._loop_count = loops
        self._limits = limits
        self._hooks = CloseHooks()
        self._timers = Timers()
        self.pools = ThreadPools((limits or MonitorLimits()).worker)
        self._workers = self.pools.hold("kue-worker", workers)
        self._internal = self.pools.hold("kue-blocking", INTERNAL)
        self._deployer = Deployer(self)
        self._ha = ha
        self._failover: Failover | None = None
        self._loops: EventLoops | None = None
        self._monitor: BlockedMonitor | None = None
        self._closing: Future[None] | None = None
        self._closer: asyncio.Task[None] | None = None
        self.is_closed = False

    @classmethod
    def clustered(
        cls,
        url: str,
        *,
        prefix: str = "kue",
        ha: bool = False,
        group: str = DEFAULT_GROUP,
        quorum: int = 1,
        **rest: Any,
    ) -> Self:
        """
        Return one node of the cluster on the Redis at *url* under *prefix*.

        All nodes share its bus and its shared data.

        Args:
            ha: Whether verticles that are deployed with ``ha=True`` outlive their node.
            group: Nodes of one group take over from each other, and from no others.
            quorum: How many nodes the group must have for those verticles to run.
            rest: Further arguments of `Runtime`.
        """
        # Imported here, because a runtime without a cluster does not need redis-py.
        from kue.bus.redis import RedisCluster
        from kue.runtime.shared.redis import RedisShared

        return cls(
            bus=EventBus(RedisCluster(url, prefix=prefix)),
            shared=RedisShared(url, prefix=prefix),
            ha=HA(group=group, quorum=quorum) if ha else None,
            **rest,
        )

    async def open(self) -> Self:
        """Start the loops, the monitor, shared data and the bus; once."""
        if self._loops is not None:
            raise RuntimeClosed("a runtime can be opened only once; create another")
        self._loops = EventLoops(self._loop_count, self.loop_factory)
        if self._limits is not None:
            self._monitor = BlockedMonitor(
                self._limits, self._loops.hosts, self.pools.all
            )
        try:
            if self._shared_store is not None:
                await self._shared_store.open()
            if self.bus is not None:
                await self.bus.start()
                if self._ha is not None and self.bus.cluster is not None:
                    cluster = self.bus.cluster
                    self._failover = Failover(self._deployer, cluster, self._ha)
                    await self._failover.open()
        except BaseException:
            await self.close()
            raise
        return self

    async def close(self) -> None:
        """
        Undeploy everything, call the hooks, then end bus, shared data, pools and loops.

        Failures are logged.  It continues to the end even if the caller is cancelled; a
        second call waits for that, unless it comes from a context of this runtime.
        """
        if self._loops is None:
            return
        if self._closing is None:
            self._closing = Future()
            work = self._close(self._loops, self._closing)
            loop = asyncio.get_running_loop()
            self._closer = loop.create_task(
                work, name="kue close", context=protecting_current_task()
            )
            await asyncio.shield(self._closer)
        elif self.current() is None:
            await wait_shielded(self._closing)

    async def _close(self, loops: EventLoops, closing: Future[None]) -> None:
        try:
            if self._failover is not None:
                await self._failover.close()
            await self._deployer.close()
            await self._hooks.close()
            for part, name in (
                (self.bus, "the bus"),
                (self._shared_store, "shared data"),
            ):
                try:
                    if part is not None:
                        await part.close()
                except Exception:
                    logger.exception("%s could not be closed cleanly", name)
        finally:
            self.is_closed = True
            self.pools.close()
            if self._monitor is not None:
                self._monitor.stop()
            try:
                await loops.close()
            finally:
                # Also when our own loop is among them, and cancels this task.
                closing.set_result(None)

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    # -- contexts --------------------------------------------------------------

    def context(self) -> Context:
        """Return the context that this code runs in, or a new one on the next loop."""
        current = self.current()
        if current is not None:
            return current
        return Context(
            self, self._open_loops().next(), hooks=self._hooks, blocking=self._workers
        )

    def run(self, function: Callable[[Unpack[A]], object], *args: *A) -> None:
        """Call *function* soon: in this context, or in a new one."""
        self.context().run(function, *args)

    def add_close_hook(self, hook: Callback) -> None:
        """Call *hook* when the runtime is closed, after all verticles ended."""
        self._hooks.add(hook)

    def remove_close_hook(self, hook: Callback) -> None:
        self._hooks.remove(hook)

    # -- messages --------------------------------------------------------------

    def consumer(
        self,
        address: str,
        handler: Handler | None = None,
        *,
        local: bool = False,
        buffer: int = DEFAULT_BUFFER,
        concurrency: int = 1,
    ) -> Consumer:
        """
        Register a consumer of *address*, in this context or in a new one.

        It ends with the verticle that made it, or with the runtime.
        """
        return self.context().add_consumer(
            address, handler, local=local, buffer=buffer, concurrency=concurrency
        )

    # -- timers ----------------------------------------------------------------

    def set_timer(self, delay: Duration, handler: TimerHandler) -> int:
        """
        Call *handler* once, in this context; return the timer's id.

        Raises:
            ValueError: The delay is shorter than a millisecond.
        """
        return self._timers.set(self.context(), delay, handler, is_periodic=False)

    def set_periodic(self, delay: Duration, handler: TimerHandler) -> int:
        """
        Call *handler* every *delay*, in this context; return the timer's id.

        A call that is due while the previous one still runs is skipped.
        """
        return self._timers.set(self.context(), delay, handler, is_periodic=True)

    def cancel_timer(self, timer_id: int) -> bool:
        """Cancel a timer; False if it has ended, or never existed."""
        return self._timers.cancel(timer_id)

    # -- blocking code ---------------------------------------------------------

    async def execute_blocking(
        self, function: Callable[[Unpack[A]], T], *args: *A, ordered: bool = True
    ) -> T:
        """
        Call *function*, which blocks, in a worker thread and return what it returns.

        Calls of one context are made in order, unless *ordered* is false; outside of a
        context there is no order.
        """
        return await self.context().execute_blocking(function, *args, ordered=ordered)

    def worker_executor(
        self, name: str, size: int = WORKERS, *, limit: float | None = None
    ) -> WorkerExecutor:
        """
        Return the pool called *name*, for blocking code; close it after use.

        One requested by a verticle is closed with it.
        """
        executor = WorkerExecutor(self.pools, self.pools.hold(name, size, limit))
        if (context := self.current()) is not None:
            context.add_close_hook(executor.close)
        return executor

    # -- verticles -------------------------------------------------------------

    @property
    def deployments(self) -> tuple[Deployment, ...]:
        """The current deployments, children included."""
        return self._deployer.deployments

    async def deploy(
        self,
        verticle: Source,
        *,
        config: Mapping[str, Any] | None = None,
        instances: int = 1,
        worker: bool = False,
        pool: str | None = None,
        pool_size: int = WORKERS,
        pool_limit: float | None = None,
        ha: bool = False,
    ) -> str:
        """
        Start a verticle and return its deployment id.

        Called from a verticle, it deploys a child of that.  If an instance fails to
        start, the others are stopped again.

        Args:
            verticle: A class, a factory function, an instance, or ``module:Class``.
            config: JSON; each instance has its own copy.
            instances: How many instances, each in its own context.
            worker: Whether it runs on threads of a pool, where it may block.
            pool: The name of the pool, which all verticles that name it share.
            pool_size: How many threads the pool has, if it does not exist yet.
            pool_limit: Seconds that a call may hold a thread before that is logged.
            ha: Whether another node is to deploy it when this one dies.  It must be
                named.  While the group has no quorum it is only recorded.

        Raises:
            ValueError: There are no instances, one instance is to be several, or it
                cannot fail over.
            RuntimeClosed: The runtime is closed, or was closed during the call.
            Exception: What the verticle raised.
        """
        self._open_loops()
        options = DeploymentOptions(
            config=decode(encode(dict(config or {}), field="config")),
            instances=instances,
            worker=worker,
            pool=pool,
            pool_size=pool_size,
            pool_limit=pool_limit,
        )
        if not ha:
            return await self._deployer.deploy(verticle, options)
        if self._failover is None:
            raise ValueError("this runtime has no failover group; give it ha")
        return await self._failover.deploy(verticle, options)

    async def undeploy(self, deployment_id: str) -> None:
        """
        Stop a verticle: its children, then itself, then its timers and hooks.

        Raises:
            UnknownDeployment: Nothing is deployed under this id.
            AlreadyUndeployed: It is being undeployed.
            Exception: What the verticle raised; it is undeployed anyway.
        """
        failover = self._failover
        is_here = True
        if failover is not None and failover.has(deployment_id):
            # It may only be recorded.
            is_here = await failover.strike(deployment_id)
        if is_here:
            await self._deployer.undeploy(deployment_id)

    # -- for other parts of the runtime ----------------------------------------

    def new_context(self, deployment: Deployment) -> Context:
        """Return a context for an instance of *deployment*, on the next loop."""
        host = self._open_loops().next()
        pool = deployment.pool or self._workers
        rest: dict[str, Any] = {
            "hooks": CloseHooks(),
            "deployment": deployment,
            "config": deepcopy(deployment.options.config),
        }
        if deployment.options.worker:
            return WorkerContext(self, host, pool=pool, blocking=self._internal, **rest)
        return Context(self, host, blocking=pool, **rest)

    def current(self) -> Context | None:
        """Return the context that this code runs in, if it is one of this runtime."""
        context = current_context()
        return context if context is not None and context.runtime is self else None

    def _open_loops(self) -> EventLoops:
        if self._loops is None or self.is_closed:
            raise RuntimeClosed("the runtime is not open; use async with Runtime()")
        return self._loops

    def _call_later(self, seconds: float, function: Callable[[], object]) -> TimerCall:
        return TimerCall(self._open_loops().hosts[0].loop, seconds, function)
