"""
Runs that a message ends, from any node, and not the return of their handler.

The message is sent to the addresses of Vert.x Kue: ``done.<address_id>`` with the job's
JSON, of which ``result`` is read, or ``done_fail.<address_id>`` with the error as text.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from kue.aio.callbacks import awaited, is_async
from kue.vertx.addresses import Addresses
from kue.vertx.event_listener import Addressed, address_of
from kue.worker.handler_adapters import HandlerError, in_thread

if TYPE_CHECKING:
    from kue.bus import EventBus, Message
    from kue.model.payload import JSON
    from kue.worker.active_run import ActiveRun

DONE, DONE_FAIL = "done", "done_fail"


def ended_by_message(
    bus: EventBus,
    handler: Callable[[Any], object],
    addresses: Addresses | None = None,
) -> Callable[[ActiveRun], Awaitable[JSON]]:
    """
    Return a handler whose runs go on until `job_done` or `job_done_fail` is called.

    What *handler* returns does not matter; what it raises fails the run.  A plain
    function runs in a thread.  The run keeps its slot, its lease, its timeout and its
    ttl while it waits; a message for a run that has ended is ignored.
    """
    at = addresses or Addresses()

    async def run(job: ActiveRun) -> JSON:
        outcome: asyncio.Future[JSON] = asyncio.get_running_loop().create_future()
        # Before the handler is called: the answer may come at once.
        consumers = [
            bus.consumer(_address(at, DONE, job.job), _succeeds(outcome)),
            bus.consumer(_address(at, DONE_FAIL, job.job), _fails(outcome)),
        ]
        try:
            for consumer in consumers:
                await consumer.ready()
            await (
                awaited(handler(job)) if is_async(handler) else in_thread(handler)(job)
            )
            return await outcome
        finally:
            for consumer in consumers:
                consumer.unregister()

    return run


def job_done(
    bus: EventBus,
    job: Addressed | Mapping[str, Any],
    result: JSON = None,
    addresses: Addresses | None = None,
) -> None:
    """Let the run of *job* succeed, wherever it runs; see `ended_by_message`."""
    bus.send(_address(addresses or Addresses(), DONE, job), {"result": result})


def job_done_fail(
    bus: EventBus,
    job: Addressed | Mapping[str, Any],
    error: object,
    addresses: Addresses | None = None,
) -> None:
    """Let the run of *job* fail, wherever it runs; see `ended_by_message`."""
    bus.send(_address(addresses or Addresses(), DONE_FAIL, job), str(error))


def _address(at: Addresses, what: str, job: Addressed | Mapping[str, Any]) -> str:
    address_id, _ = address_of(job)
    return at.queue(f"{what}.{address_id}")


def _succeeds(outcome: asyncio.Future[JSON]) -> Callable[[Message], None]:
    def receive(message: Message) -> None:
        if not outcome.done():
            body = message.body
            outcome.set_result(
                body.get("result") if isinstance(body, Mapping) else None
            )

    return receive


def _fails(outcome: asyncio.Future[JSON]) -> Callable[[Message], None]:
    def receive(message: Message) -> None:
        if not outcome.done():
            outcome.set_exception(HandlerError(str(message.body)))

    return receive
