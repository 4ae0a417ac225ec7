"""The job that is being made, in ordinary code."""

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

    Every verb checks what it is given at once and returns the builder::

        job = q.sync.create_job("email", {"to": "a@b.c"}).priority("high").save()
    """

    def __init__(
        self, calling: BlockingCalls, session: Connection, type: str, data: JSON
    ) -> None:
        super().__init__(session, type, data)
        self._calling = calling

    def save(self, *, durable: bool = False) -> SyncJobHandle[Any]:
        """Store the job and return the handle of it: see `kue.JobBuilder.save`."""
        handle = self._calling.call(lambda q: self._save(q._session, durable=durable))
        return SyncJobHandle(self._calling, handle)
