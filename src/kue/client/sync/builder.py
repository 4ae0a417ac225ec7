"""Blocking job builder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kue.client.builder import BaseJobBuilder
from kue.client.sync.handle import SyncJobHandle

if TYPE_CHECKING:
    from kue.client.connection import Connection
    from kue.client.sync.connection import BlockingCalls
    from kue.model.payload import JSON


class SyncJobBuilder(BaseJobBuilder):
    """
    A job that is not saved yet.

    Every method checks its arguments at once and returns the builder::

        job = q.sync.create_job("email", {"to": "a@b.c"}).priority("high").save()
    """

    def __init__(
        self, calls: BlockingCalls, connection: Connection, type: str, data: JSON
    ) -> None:
        super().__init__(connection, type, data)
        self._calls = calls

    def save(self, *, durable: bool = False) -> SyncJobHandle[Any]:
        """Store the job and return its handle: see `kue.JobBuilder.save`."""
        handle = self._calls.call(lambda q: self._save(q._connection, durable=durable))
        return SyncJobHandle(self._calls, handle)
