"""Blocking handles of flows and batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from kue.client.sync.handle import SyncJobHandle

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kue.client.batch_handle import BatchHandle, BatchProgress, Call
    from kue.client.flow_handle import FlowHandle
    from kue.client.sync.connection import BlockingCalls
    from kue.model.duration import Duration

T_co = TypeVar("T_co", covariant=True)


class SyncFlowHandle(Generic[T_co]):
    """A flow in the store, for code that does not await: see `FlowHandle`."""

    def __init__(self, calls: BlockingCalls, handle: FlowHandle[T_co]) -> None:
        self._calls = calls
        self._handle = handle

    def __repr__(self) -> str:
        return f"<SyncFlowHandle {self.flow} of {len(self._handle.jobs)} jobs>"

    @property
    def flow(self) -> int:
        """The id of the flow: that of its first job."""
        return self._handle.flow

    @property
    def id(self) -> int:
        """The id of its last job; raises `ValueError` if it ends with a group."""
        return self._handle.id

    @property
    def jobs(self) -> list[SyncJobHandle[Any]]:
        """All jobs of the flow; each comes after those it waits for."""
        return [SyncJobHandle(self._calls, job) for job in self._handle.jobs]

    def result(self, timeout: Duration | None = None) -> T_co:
        """Wait until the flow has ended and return its result."""
        return self._calls.call(lambda q: self._handle.result(timeout))

    def cancel(self, reason: str = "") -> None:
        """Cancel all its jobs that have not ended."""
        self._calls.call(lambda q: self._handle.cancel(reason))


class SyncBatchHandle:
    """A batch in the store, for code that does not await: see `BatchHandle`."""

    def __init__(self, calls: BlockingCalls, handle: BatchHandle) -> None:
        self._calls = calls
        self._handle = handle

    def __repr__(self) -> str:
        return f"<SyncBatchHandle {self.id}>"

    @property
    def id(self) -> int:
        return self._handle.id

    def progress(self) -> BatchProgress:
        """Return how many jobs it has, and how they ended so far."""
        return self._calls.call(lambda q: q.batch(self.id).progress())

    def result(self, timeout: Duration | None = None) -> dict[str, int]:
        """Wait until all jobs have ended; return how many did so in which way."""
        return self._calls.call(lambda q: q.batch(self.id).result(timeout))

    def add(self, calls: Iterable[Call]) -> list[int]:
        """Add jobs while the batch has not ended, and return their ids."""
        given = list(calls)
        return self._calls.call(lambda q: q.batch(self.id).add(given))

    def cancel(self, reason: str = "") -> None:
        """Cancel the jobs that have not started; those that run go on."""
        self._calls.call(lambda q: q.batch(self.id).cancel(reason))

    def retry_failed(self) -> int:
        """Run the jobs again that failed or were cancelled; return how many."""
        return self._calls.call(lambda q: q.batch(self.id).retry_failed())
