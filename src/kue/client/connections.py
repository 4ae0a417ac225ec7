"""Queues by the names of their connections: ``kue.configure`` and ``kue.connect``."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from kue.model.connections import DEFAULT, Definition, connections
from kue.model.errors import ConfigError
from kue.store import null_store

if TYPE_CHECKING:
    from kue.client.queue import Kue

_queues: dict[str, Kue] = {}
#: Held again by a fail-over connection, which connects its members.
_lock = threading.RLock()
#: What is being connected: a fail-over connection, and a member of it.
_connecting: list[str] = []


def configure(**definitions: Definition | None) -> None:
    """
    Define connections by name: a URL, or settings with a ``url``; None forgets one.

    What is defined here wins over ``KUE_CONNECTIONS``::

        kue.configure(
            mail="redis://mail.internal/0",
            reports={"url": "redis://big.internal/0", "prefix": "reports"},
        )

    A queue that was connected before keeps its store.

    Raises:
        ConfigError: A name or a setting makes no sense; nothing is defined then.
    """
    connections.define(definitions)
    with _lock:
        for name in definitions:
            _queues.pop(name, None)


def connect(name: str = DEFAULT) -> Kue:
    """
    Return the queue of the connection *name*: always the same one.

    Raises:
        ConfigError: There is no such connection, or it is not defined well.
    """
    # Queues know fail-over connections, and these know others by name.
    from kue.client.queue import Kue

    with _lock:
        if name in _connecting:
            circle = " to ".join((*_connecting[_connecting.index(name) :], name))
            raise ConfigError(f"connections fail over in a circle: {circle}")
        if name not in _queues:
            # A child that runs a job knows no connections, but imports the program.
            is_child = null_store.is_job_process()
            _connecting.append(name)
            try:
                queue = Kue(null_store.URL if is_child else connections.settings(name))
            finally:
                _connecting.pop()
            queue.connection_name = name
            _queues[name] = queue
        return _queues[name]


def connected(name: str) -> Kue | None:
    """Return the queue of the connection *name* if this process has connected it."""
    return _queues.get(name)
