"""
Deployment of verticles: deploying and undeploying, all instances or none.

A verticle that is deployed by another is its child and ends before it.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import uuid
from concurrent.futures import Future
from dataclasses import dataclass, field
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

import msgspec

from kue.runtime.context import protecting_current_task, wait_shielded, was_cancelled
from kue.runtime.errors import AlreadyUndeployed, RuntimeClosed, UnknownDeployment
from kue.runtime.verticle import Source, Verticle, find, make

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from kue.runtime.context import Context
    from kue.runtime.runtime import Runtime
    from kue.runtime.thread_pool import ThreadPool

logger = logging.getLogger(__name__)

MAX_INSTANCES = 10_000


class DeploymentOptions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a verticle is deployed."""

    #: JSON, and a copy of the user's.
    config: dict[str, Any] = {}
    instances: int = 1
    #: Whether it runs on threads of a pool instead of an event loop.
    worker: bool = False
    #: The pool of a worker, and of blocking calls of others; None is the runtime's.
    pool: str | None = None
    #: How many threads the pool gets, if it does not exist yet.
    pool_size: int = 20
    #: Seconds that a call may hold a thread; None is the runtime's limit.
    pool_limit: float | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.instances <= MAX_INSTANCES:
            raise ValueError(
                f"instances must be 1 to {MAX_INSTANCES:,}, not {self.instances}"
            )


@dataclass(eq=False)
class Instance:
    """One verticle of a deployment; its methods are called in its context."""

    verticle: Verticle
    context: Context
    _starting: asyncio.Task[Any] | None = None
    _is_started: bool = False

    async def start(self) -> None:
        self._starting = asyncio.current_task()
        await _call(self.verticle.start)
        self._is_started = True

    async def stop(self) -> None:
        """Stop the verticle if it has started; cancel its start if it is starting."""
        if self._starting is not None and not self._starting.done():
            # Only once: it may be cleaning up.
            if not self._starting.cancelling():
                self._starting.cancel()
            await asyncio.wait([self._starting])
        # It must get no more messages, while what its handlers need still exists.
        self.context.end_consumers()
        if self._is_started:
            await _call(self.verticle.stop)


async def _call(method: Callable[[], Coroutine[Any, Any, None]]) -> None:
    calling = method()
    # Type checkers say so as well, but not to everyone.
    if not isawaitable(calling):
        raise TypeError(f"{method.__qualname__} is a plain function: write async def")
    await calling


@dataclass(eq=False, repr=False)
class Deployment:
    """One or more instances of a verticle, started and stopped together."""

    id: str
    name: str
    options: DeploymentOptions
    parent: Deployment | None
    children: dict[str, Deployment] = field(default_factory=dict)
    instances: list[Instance] = field(default_factory=list)
    pool: ThreadPool | None = None
    #: Whether it is being undeployed.
    is_ending: bool = False
    ended: Future[None] = field(default_factory=Future)

    def __repr__(self) -> str:
        return f"{self.name} {self.id}"


class Deployer:
    """The deployments of a runtime.  May be used from any thread that runs a loop."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._deployments: dict[str, Deployment] = {}
        self._starting: dict[asyncio.Task[str], Future[None]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._lock = threading.Lock()
        self._is_closed = False

    @property
    def deployments(self) -> tuple[Deployment, ...]:
        return tuple(self._deployments.values())

    def has(self, deployment_id: str) -> bool:
        """Return whether something is deployed under this id."""
        return deployment_id in self._deployments

    def parent(self) -> Deployment | None:
        """Return the deployment whose code is running, if it is of this runtime."""
        context = self._runtime.current()
        return None if context is None else context.deployment

    async def deploy(
        self,
        source: Source,
        options: DeploymentOptions,
        *,
        deployment_id: str | None = None,
    ) -> str:
        """Start all instances, or none; return the deployment id."""
        self._check(None)
        work = self._deploy(source, options, deployment_id)
        task = asyncio.create_task(work, name="kue deploy")
        ended = self._starting[task] = Future()
        try:
            return await task
        except asyncio.CancelledError:
            if was_cancelled():
                raise
            raise RuntimeClosed("the runtime was closed during the call") from None
        finally:
            del self._starting[task]
            ended.set_result(None)

    async def undeploy(self, deployment_id: str) -> None:
        """Do as `Runtime.undeploy`, to the end even if the caller is cancelled."""
        deployment = self._deployments.get(deployment_id)
        if deployment is None:
            raise UnknownDeployment(deployment_id)
        if not self._mark_ending(deployment):
            raise AlreadyUndeployed(deployment_id)
        _raise_first(await self._take_down(deployment), deployment, "stop")

    async def close(self) -> None:
        """Undeploy everything, the last deployed first; failures are logged."""
        self._is_closed = True
        for task, ended in tuple(self._starting.items()):
            task.get_loop().call_soon_threadsafe(task.cancel)
            await wait_shielded(ended)
        for deployment in reversed(self.deployments):
            if deployment.parent is None:
                await self._end(deployment)

    # -- deploying -------------------------------------------------------------

    async def _deploy(
        self, source: Source, options: DeploymentOptions, deployment_id: str | None
    ) -> str:
        parent = self.parent()
        if isinstance(source, str):
            # An import may take long.
            source = await self._runtime.execute_blocking(find, source)
        verticles = make(source, options.instances)
        deployment_id = deployment_id or str(uuid.uuid4())
        name = type(verticles[0]).__name__
        deployment = Deployment(deployment_id, name, options, parent)
        try:
            self._prepare(deployment, verticles)
            starting = (it.context.call(it.start) for it in deployment.instances)
            _raise_first(await _errors_of(starting), deployment, "start")
            self._register(deployment)
        except BaseException:
            await self._end(deployment)
            raise
        return deployment.id

    def _prepare(self, deployment: Deployment, verticles: list[Verticle]) -> None:
        options = deployment.options
        self._check(deployment.parent)
        if options.pool is not None:
            deployment.pool = self._runtime.pools.hold(
                options.pool, options.pool_size, options.pool_limit
            )
        for verticle in verticles:
            verticle.context = self._runtime.new_context(deployment)
            deployment.instances.append(Instance(verticle, verticle.context))

    def _register(self, deployment: Deployment) -> None:
        with self._lock:
            self._check(deployment.parent)
            self._deployments[deployment.id] = deployment
            if deployment.parent is not None:
                deployment.parent.children[deployment.id] = deployment

    def _check(self, parent: Deployment | None) -> None:
        if self._is_closed:
            raise RuntimeClosed("the runtime is closed")
        if parent is not None and parent.is_ending:
            raise AlreadyUndeployed(parent.id)

    # -- undeploying -----------------------------------------------------------

    async def _take_down(self, deployment: Deployment) -> list[BaseException]:
        """End *deployment* even if the caller is cancelled, or ended by it."""
        task = asyncio.get_running_loop().create_task(
            self._stop(deployment),
            name="kue undeploy",
            context=protecting_current_task(),
        )
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await asyncio.shield(task)

    async def _stop(self, deployment: Deployment) -> list[BaseException]:
        """End *deployment* in any case; return what its verticles raised."""
        try:
            for child in reversed(tuple(deployment.children.values())):
                await self._end(child)
            stopping = (it.context.call(it.stop) for it in deployment.instances)
            errors = await _errors_of(stopping)
            closing = (it.context.close() for it in deployment.instances)
            return errors + await _errors_of(closing)
        finally:
            self._forget(deployment)

    def _forget(self, deployment: Deployment) -> None:
        if deployment.pool is not None:
            self._runtime.pools.release(deployment.pool)
        self._deployments.pop(deployment.id, None)
        if deployment.parent is not None:
            deployment.parent.children.pop(deployment.id, None)
        deployment.ended.set_result(None)

    async def _end(self, deployment: Deployment) -> None:
        """Take it down, or wait until that is done by another caller."""
        if not self._mark_ending(deployment):
            await wait_shielded(deployment.ended)
            return
        for error in await self._take_down(deployment):
            logger.error("%s failed to stop", deployment.name, exc_info=error)

    def _mark_ending(self, deployment: Deployment) -> bool:
        with self._lock:
            was_ending, deployment.is_ending = deployment.is_ending, True
            return not was_ending


def _raise_first(
    errors: list[BaseException], deployment: Deployment, verb: str
) -> None:
    for error in errors[1:]:
        logger.error("%s failed to %s, too", deployment.name, verb, exc_info=error)
    if errors:
        raise errors[0]


async def _errors_of(work: Any) -> list[BaseException]:
    """Wait for all of *work* and return the errors."""
    results = await asyncio.gather(*work, return_exceptions=True)
    return [result for result in results if isinstance(result, BaseException)]
