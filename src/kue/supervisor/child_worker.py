"""Worker in a child process: runs jobs, sends ticks, stops by order or SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote

import msgspec

from kue.model.errors import StoreFull, StoreUnavailable
from kue.model.queue_patterns import QueuePatterns
from kue.supervisor.protocol import (
    Bye,
    ChildStatus,
    FromChild,
    Hello,
    LaneLoad,
    Leave,
    Scaled,
    decode_to_child,
    encode,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from kue.client.queue import Kue
    from kue.model.settings import Settings
    from kue.supervisor.options import SupervisorOptions
    from kue.worker import Worker

logger = logging.getLogger(__name__)

TICK_SECONDS = 0.5
#: The worker itself gets unlimited grace: the actual grace depends on why it stops, and
#: is counted here.
UNLIMITED = "3650d"


class ChildWorker:
    """Runs jobs of *queue* under the supervisor at the other end of the streams."""

    def __init__(
        self,
        queue: Kue,
        options: SupervisorOptions,
        streams: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        *,
        folder: str | None,
        on_start: Callable[[Worker], None],
    ) -> None:
        self._queue = queue
        self._options = options
        self._reader, self._writer = streams
        self._folder = folder
        # The supervisor cannot renew the lease if the jobs are in this process alone,
        # or if its settings are not enough to connect.
        self._renews_itself = not queue.is_shared
        self._is_private = queue.is_private
        self._on_start = on_start
        #: Set by `_start`, which everything that reads it follows.
        self._worker: Worker
        self._durability = ""
        self._is_asked = False
        self._grace_timer: asyncio.TimerHandle | None = None
        self._services: list[asyncio.Task[None]] = []

    async def run(self) -> None:
        """Work until there is no more to do, or the supervisor or SIGTERM stops it."""
        try:
            self._durability = await self._queue.open()
        except (StoreUnavailable, StoreFull) as exc:
            # It may come up later; workers wait for it.
            self._durability = f"does not answer yet: {exc}"
        # The last of the hooks: the child is up when all others have run.
        self._queue.on_startup(self._report_up)
        try:
            await self._work()
            self._send(Bye(self._reason))
            with contextlib.suppress(OSError):
                await self._writer.drain()
        finally:
            for service in self._services:
                service.cancel()
            await self._queue.close()

    async def _work(self) -> None:
        options = self._options
        await self._queue.run(
            grace=UNLIMITED,
            signals=False,
            types=list(options.types) or None,
            queues=list(options.queues) or None,
            concurrency=options.concurrency,
            strict=options.strict,
            burst=options.burst,
            max_jobs=options.max_jobs,
            supervised=not self._renews_itself,
            on_start=self._start,
        )

    def _start(self, worker: Worker) -> None:
        self._worker = worker
        worker.on_stop_order = self._handle_stop_order
        self._on_start(worker)
        # Until here it runs no jobs, and a SIGTERM just ends it.
        asyncio.get_running_loop().add_signal_handler(
            signal.SIGTERM, self._leave, self._options.grace
        )
        self._services.append(asyncio.create_task(self._listen(), name="kue listen"))

    def _report_up(self) -> None:
        processors = self._worker.processors
        hello = Hello(
            worker=self._worker.name,
            settings=_resolved_settings(self._queue),
            store=self._queue.store.name,
            durability=self._durability,
            types=(
                *(f"{p.type} × {p.slots} ({p.execution})" for p in processors),
                *self._patterns(),
            ),
            concurrency=self._options.concurrency or sum(p.slots for p in processors),
            beats_itself=self._renews_itself,
            is_private=self._is_private,
            folder=self._folder,
            # A handler may hold the interpreter before the first tick.
            status=self._worker.status(),
        )
        self._send(hello)
        self._services.append(asyncio.create_task(self._tick(), name="kue tick"))

    def _patterns(self) -> list[str]:
        """Return a line on the queues that are yet to be found."""
        names = self._options.queues
        is_open = bool(names) and QueuePatterns(names).is_open
        return [f"queues that match {', '.join(names)}"] if is_open else []

    async def _tick(self) -> None:
        while True:
            # A supervisor that does not read must not fill our memory.
            if not self._writer.transport.get_write_buffer_size():
                self._send_tick()
            await asyncio.sleep(TICK_SECONDS)

    def _send_tick(self) -> None:
        worker = self._worker
        self._send(
            ChildStatus(
                worker.status(),
                worker.is_stopping,
                worker.is_ordered_to_stop,
                self._loads() if self._options.is_scaling else {},
            )
        )

    def _loads(self) -> dict[str, LaneLoad]:
        return {type: LaneLoad(*load) for type, load in self._worker.loads().items()}

    def _handle_stop_order(self) -> None:
        self._leave(self._options.grace)
        # At once: a slot whose child leaves for another reason starts a new one.
        self._send_tick()

    async def _listen(self) -> None:
        with contextlib.suppress(OSError):
            while data := await self._reader.readline():
                message = decode_to_child(data)
                if isinstance(message, Leave):
                    self._leave(message.grace)
                elif isinstance(message, Scaled):
                    shown = msgspec.structs.asdict(message.processes)
                    self._worker.status.processes = shown
        logger.warning("the supervisor is gone; stopping")
        self._leave(self._options.grace)

    def _leave(self, grace: float | None) -> None:
        self._is_asked = True
        if grace is None:
            self._worker.finish()
            return
        if not self._worker.is_stopping:
            self._worker.stop()
        loop = asyncio.get_running_loop()
        when = loop.time() + grace
        # A later order can shorten the grace, but not prolong it.
        if self._grace_timer is not None:
            when = min(when, self._grace_timer.when())
            self._grace_timer.cancel()
        self._grace_timer = loop.call_at(when, self._worker.stop)

    def _send(self, message: FromChild) -> None:
        if not self._writer.is_closing():
            self._writer.write(encode(message))

    @property
    def _reason(self) -> Literal["asked", "dismissed", "drained", "spent"]:
        if self._worker.is_ordered_to_stop:
            return "dismissed"
        if self._is_asked:
            return "asked"
        limit = self._options.max_jobs
        is_spent = limit is not None and self._worker.status()["done"] >= limit
        return "spent" if is_spent or not self._options.burst else "drained"


def _resolved_settings(queue: Kue) -> Settings:
    """
    Return the settings with which another process finds the same jobs.

    The path of a file was resolved when the queue was created, in the working folder
    of that moment.
    """
    # The keys stay where jobs run.
    settings = msgspec.structs.replace(
        queue.settings, payload_keys=(), payload_protection=""
    )
    scheme, _, path = queue.store.name.partition(":///")
    if scheme != "sqlite":
        return settings
    return msgspec.structs.replace(settings, url=f"sqlite:///{quote(path)}")
