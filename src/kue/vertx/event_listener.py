"""
Event listeners: subscribe on the bus to events of jobs, from any node.

Handlers are called with the payloads of `kue.vertx.event_payloads`; they may be
coroutine functions.  What one raises is logged and affects no other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from kue.aio.callbacks import awaited
from kue.client.subscriptions import QUEUE_PREFIX, kind_of
from kue.model.events import Kind
from kue.vertx.addresses import ANY, Addresses

if TYPE_CHECKING:
    from kue.bus import Consumer, EventBus, Message

#: Called with the payload of an event.
Listener = Callable[[Any], object]

#: Events that may wait for a slow handler; further ones are discarded, and counted.
BUFFER = 10_000

_ENDS = frozenset(kind.value for kind in Kind if kind.is_final)
_ERROR = Kind.ERROR.value
#: What the names of events begin with that the store does not publish.
OWN = "own_"
_OWN = re.compile(f"{OWN}[a-z0-9_]{{1,50}}")


class Addressed(Protocol):
    """A job, a handle that has read its job, or the builder of one."""

    @property
    def address_id(self) -> str | None: ...

    @property
    def type(self) -> str: ...


def on(
    bus: EventBus, event: str, handler: Listener, addresses: Addresses | None = None
) -> Consumer:
    """
    Call *handler* with each such event of any job: "job_complete", "error" …

    Await ``ready()`` of the returned consumer to be sure that every node knows it.

    Raises:
        ValueError: There is no such event; the message lists the valid ones.
    """
    if event != _ERROR:
        event = QUEUE_PREFIX + kind_of(event, prefix=QUEUE_PREFIX).value
    address = (addresses or Addresses()).queue(event)

    async def receive(message: Message) -> None:
        await awaited(handler(message.body))

    return bus.consumer(address, receive, buffer=BUFFER)


def on_job(
    bus: EventBus,
    event: str,
    job: Addressed | Mapping[str, Any],
    handler: Listener,
    addresses: Addresses | None = None,
) -> Consumer:
    """
    Call *handler* with each such event of *job*: "progress", "complete" …

    It ends when the job has ended; a listener for "remove" when the job is removed.
    However many listeners a job has, a node announces one address for them.

    Args:
        event: One of the store's, or ``own_…`` of `emit`.
        job: A job, its JSON, or a job of `Kue.create_job` that is not saved yet.

    Raises:
        ValueError: There is no such event, or the job's address is not known yet.
    """
    wanted = event if is_own(event) else kind_of(event).value
    ends = {wanted} if wanted == Kind.REMOVE else _ENDS

    async def receive(message: Message) -> None:
        payload = message.body
        try:
            if payload["event"] == wanted:
                await awaited(handler(payload["body"]))
        finally:
            if payload["event"] in ends:
                consumer.unregister()

    address = (addresses or Addresses()).job(ANY, *address_of(job))
    consumer = bus.consumer(address, receive, buffer=BUFFER)
    return consumer


def emit(
    bus: EventBus,
    event: str,
    job: Addressed | Mapping[str, Any],
    body: Any = None,
    addresses: Addresses | None = None,
) -> None:
    """
    Publish an event of your own at the addresses of *job*; `on_job` receives it.

    Raises:
        ValueError: Its name does not begin with ``own_``: only the store publishes what
            happens to jobs.
    """
    if not is_own(event):
        raise ValueError(
            f"an event of your own is named {OWN}…, in small letters, not {event!r}"
        )
    at, address = addresses or Addresses(), address_of(job)
    bus.publish(at.job(event, *address), body)
    bus.publish(at.job(ANY, *address), {"event": event, "body": body})


def is_own(event: str) -> bool:
    """Return whether *event* is not one of the store's."""
    return _OWN.fullmatch(event) is not None


def address_of(job: Addressed | Mapping[str, Any]) -> tuple[str, str]:
    """Return the address id and the type of a job; raise `ValueError` if unknown."""
    if isinstance(job, Mapping):
        address_id, type = job.get("address_id"), job.get("type")
    else:
        address_id, type = job.address_id, job.type
    if not address_id or not type:
        raise ValueError(
            f"the address of events of {job!r} is not known; refresh() it first"
        )
    return address_id, type
