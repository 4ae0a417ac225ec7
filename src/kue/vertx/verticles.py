"""
Verticles of Kue: `KueVerticle` and `KueWorker`.

Both are deployed with a config that names the queue::

    await runtime.deploy("kue.vertx:KueVerticle", config={"url": "redis://localhost"})

or created with a queue that lives on the event loop of the runtime: ``KueVerticle(q)``.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
from typing import TYPE_CHECKING, TypeVar

import msgspec

from kue.aio.tasks import BackgroundTasks, wait_for_first
from kue.client.queue import Kue
from kue.model.errors import ConfigError, KueError
from kue.runtime import LockTimedOut, Verticle
from kue.vertx import job_service
from kue.vertx.addresses import ROOT, Addresses
from kue.vertx.event_publisher import EventPublisher
from kue.worker.worker import GRACE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kue.bus import EventBus
    from kue.runtime import Lock
    from kue.vertx.service_binding import Interceptor
    from kue.worker import Worker

logger = logging.getLogger(__name__)

#: How long a start waits for the lock of publishing events, before it is a standby.
LOCK_TIMEOUT = "1s"
#: How long one attempt of a standby to get the lock lasts.
STANDBY_TIMEOUT = "10m"
#: How often to check that the lock is still held.
CHECK_SECONDS = 1.0

C = TypeVar("C", bound="QueueConfig")


class QueueConfig(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True
):
    """The queue; defaults are those of `kue.model.settings`."""

    url: str | None = None
    prefix: str | None = None


class ServiceConfig(QueueConfig, frozen=True, kw_only=True):
    """How a queue is offered on the bus."""

    #: What its addresses begin with.
    root: str = ROOT
    #: Whether events are published.
    events: bool = True
    #: Whether only this node may call the service.
    local: bool = False
    #: Whether failures of the service include their stack.
    debug: bool = False


class WorkerConfig(QueueConfig, frozen=True, kw_only=True):
    """How jobs are run; see `Kue.run`."""

    grace: float | str = GRACE_SECONDS
    types: list[str] | None = None
    concurrency: int | None = None
    name: str | None = None


class QueueVerticle(Verticle):
    """A verticle with a queue."""

    def __init__(self, q: Kue | None = None) -> None:
        self._given = q

    def read_config(self, kind: type[C]) -> C:
        """Return the config it was deployed with."""
        if self.context.is_worker:
            raise ConfigError(
                f"{type(self).__name__} lives on an event loop; "
                "deploy it without worker=True"
            )
        try:
            return msgspec.convert(self.config, kind)
        except msgspec.ValidationError as exc:
            raise ConfigError(f"config of {type(self).__name__}: {exc}") from exc

    async def open_queue(self, config: QueueConfig) -> Kue:
        """Return the queue, connected; one created here is closed with the verticle."""
        q = self._given
        if q is None:
            q = Kue(config.url, prefix=config.prefix)
            self.context.add_close_hook(q.close)
        await q.open()
        return q

    def bus(self) -> EventBus:
        """
        Return the bus of the runtime.

        Raises:
            ConfigError: It has none.
        """
        bus = self.runtime.bus
        if bus is None:
            raise ConfigError(
                f"{type(self).__name__} needs an event bus, and this runtime has none; "
                "create it with Runtime(bus=EventBus())"
            )
        return bus


class KueVerticle(QueueVerticle):
    """
    Offers a queue on the bus: its events and its `JobService`.

    Where several are deployed for one queue, all handle requests and one publishes
    events; when that one ends, another takes over.
    """

    #: Around every call of the service; see `kue.vertx.service_binding`.
    interceptors: Sequence[Interceptor] = ()

    async def start(self) -> None:
        config = self.read_config(ServiceConfig)
        bus = self.bus()
        q = await self.open_queue(config)
        addresses = Addresses(config.root)
        service = job_service.register(
            q,
            self,
            addresses.service,
            interceptors=self.interceptors,
            local=config.local,
            debug=config.debug,
        )
        if config.events:
            publisher = _LockedPublisher(
                self, EventPublisher(q, bus, addresses), _lock_name(q, config)
            )
            self.context.add_close_hook(publisher.end)
            await publisher.begin()
        await service.ready()
        logger.info("Kue Verticle is running...")


class _LockedPublisher:
    """Lets one of several publishers publish: the one that holds the lock."""

    def __init__(
        self, verticle: Verticle, publisher: EventPublisher, name: str
    ) -> None:
        self._shared = verticle.runtime.shared
        self._publisher = publisher
        self._name = name
        self._lock: Lock | None = None
        self._background = BackgroundTasks()

    async def begin(self) -> None:
        """Publish events from now on, or as soon as no other does."""
        with contextlib.suppress(LockTimedOut):
            await self._take_over(LOCK_TIMEOUT)
        self._background.start(self._keep_lock(), "kue event publisher lock")

    async def end(self) -> None:
        await self._background.close()
        await self._hand_over()

    async def _keep_lock(self) -> None:
        while True:
            try:
                if self._lock is None:
                    await self._take_over(STANDBY_TIMEOUT)
                elif self._lock.is_held:
                    await asyncio.sleep(CHECK_SECONDS)
                else:
                    logger.warning("another node may publish events; standing by")
                    await self._hand_over()
            except LockTimedOut:
                continue
            except KueError as exc:
                logger.warning("events cannot be published for now: %s", exc)
                await asyncio.sleep(CHECK_SECONDS)

    async def _take_over(self, timeout: str) -> None:
        self._lock = await self._shared.lock(self._name, timeout=timeout)
        await self._publisher.start()

    async def _hand_over(self) -> None:
        await self._publisher.stop()
        lock, self._lock = self._lock, None
        if lock is not None:
            await lock.release()


def _lock_name(q: Kue, config: ServiceConfig) -> str:
    settings = q.settings
    identity = f"{settings.url}\n{settings.prefix}\n{config.root}".encode()
    return f"kue relay {hashlib.sha256(identity).hexdigest()[:32]}"


class KueWorker(QueueVerticle):
    """
    Runs jobs for as long as it is deployed.

    A subclass registers their handlers::

        class Mailer(KueWorker):
            def register(self, q: Kue) -> None:
                q.process("email", 20, self.send)

    or it is created with a queue that has handlers: ``KueWorker(q)``.  When it is
    undeployed it claims no more jobs, waits for the running ones and, after its grace,
    requeues them.
    """

    _worker: Worker | None = None
    _run: asyncio.Task[None] | None = None

    def register(self, q: Kue) -> None:
        """Register the handlers of jobs."""

    async def start(self) -> None:
        config = self.read_config(WorkerConfig)
        q = await self.open_queue(config)
        self.register(q)
        started: asyncio.Future[Worker] = asyncio.get_running_loop().create_future()
        run = self._run = asyncio.create_task(
            q.run(
                grace=config.grace,
                signals=False,
                types=config.types,
                concurrency=config.concurrency,
                name=config.name,
                on_start=started.set_result,
            ),
            name="kue worker verticle",
        )
        await wait_for_first(started, run)
        if run.done():
            await run
        self._worker = started.result()
        run.add_done_callback(self._report)

    async def stop(self) -> None:
        assert self._worker is not None
        assert self._run is not None
        self._worker.stop()
        await asyncio.wait([self._run])

    def _report(self, run: asyncio.Task[None]) -> None:
        error = None if run.cancelled() else run.exception()
        if error is not None:
            self.context.report(error)
