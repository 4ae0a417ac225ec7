"""
Kue as verticles of a runtime: `KueVerticle` and `KueWorker`.

Both are deployed with a config that says which queue is meant::

    await runtime.deploy("kue.vertx:KueVerticle", config={"url": "redis://localhost"})

or made with a queue that lives on the event loop of the runtime: ``KueVerticle(q)``.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
from typing import TYPE_CHECKING, TypeVar

import msgspec

from kue.client.queue import Kue
from kue.client.subscriptions import BackgroundTasks
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

#: How long a start waits to be the one that tells events, before it stands by.
PATIENCE = "1s"
#: One turn of standing by.
STAND_BY = "10m"
#: How often it is looked whether the lock is still held.
CHECK_SECONDS = 1.0

C = TypeVar("C", bound="QueueConfig")


class QueueConfig(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True
):
    """Which queue; what is not given is as `kue.model.settings` has it."""

    url: str | None = None
    prefix: str | None = None


class ServiceConfig(QueueConfig, frozen=True, kw_only=True):
    """How a queue is put on the bus."""

    #: What its addresses begin with.
    root: str = ROOT
    #: Whether events are told.
    events: bool = True
    #: Whether only this node may ask the service.
    local: bool = False
    #: Whether failures of the service tell their stack.
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
        """Return what it was deployed with."""
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
        """Return the queue, connected; one that is made here ends with the verticle."""
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
                "make it with Runtime(bus=EventBus())"
            )
        return bus


class KueVerticle(QueueVerticle):
    """
    Puts a queue on the bus: its events and its `JobService`.

    Where several are deployed for one queue, all answer requests and one tells events;
    when that one ends, another does.
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
            shift = _Shift(
                self, EventPublisher(q, bus, addresses), _lock_name(q, config)
            )
            self.context.add_close_hook(shift.end)
            await shift.begin()
        await service.ready()
        logger.info("Kue Verticle is running...")


class _Shift:
    """Sees to it that one of several relays tells events: who holds the lock."""

    def __init__(self, verticle: Verticle, relay: EventPublisher, name: str) -> None:
        self._shared = verticle.runtime.shared
        self._relay = relay
        self._name = name
        self._lock: Lock | None = None
        self._background = BackgroundTasks()

    async def begin(self) -> None:
        """Tell events from now on, or as soon as nobody else does."""
        with contextlib.suppress(LockTimedOut):
            await self._take_over(PATIENCE)
        self._background.start(self._go_on(), "kue relay shift")

    async def end(self) -> None:
        await self._background.close()
        await self._hand_over()

    async def _go_on(self) -> None:
        while True:
            try:
                if self._lock is None:
                    await self._take_over(STAND_BY)
                elif self._lock.is_held:
                    await asyncio.sleep(CHECK_SECONDS)
                else:
                    logger.warning("another node may tell events; standing by")
                    await self._hand_over()
            except LockTimedOut:
                continue
            except KueError as exc:
                logger.warning("events cannot be told for now: %s", exc)
                await asyncio.sleep(CHECK_SECONDS)

    async def _take_over(self, patience: str) -> None:
        self._lock = await self._shared.lock(self._name, timeout=patience)
        await self._relay.start()

    async def _hand_over(self) -> None:
        await self._relay.stop()
        lock, self._lock = self._lock, None
        if lock is not None:
            await lock.release()


def _lock_name(q: Kue, config: ServiceConfig) -> str:
    known = q.settings
    which = f"{known.url}\n{known.prefix}\n{config.root}".encode()
    return f"kue relay {hashlib.sha256(which).hexdigest()[:32]}"


class KueWorker(QueueVerticle):
    """
    Runs jobs for as long as it is deployed.

    A subclass says who handles them::

        class Mailer(KueWorker):
            def register(self, q: Kue) -> None:
                q.process("email", 20, self.send)

    or it is made with a queue that knows: ``KueWorker(q)``.  When it is undeployed it
    takes no more jobs, waits for those in hand and, after its grace, hands them back.
    """

    _worker: Worker | None = None
    _run: asyncio.Task[None] | None = None

    def register(self, q: Kue) -> None:
        """Say who handles which jobs."""

    async def start(self) -> None:
        config = self.read_config(WorkerConfig)
        q = await self.open_queue(config)
        self.register(q)
        begun = asyncio.Event()

        def begin(worker: Worker) -> None:
            self._worker = worker
            begun.set()

        run = self._run = asyncio.create_task(
            q.run(
                grace=config.grace,
                signals=False,
                types=config.types,
                concurrency=config.concurrency,
                name=config.name,
                on_start=begin,
            ),
            name="kue worker verticle",
        )
        run.add_done_callback(lambda run: begun.set())
        await begun.wait()
        if run.done():
            await run
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
