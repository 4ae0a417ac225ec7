"""Actions on a flow: cancel what is left of it, or retry it from a failed job on."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kue.client.batch_handle import BatchHandle
from kue.client.flow_graph import graph_of, read_flow
from kue.model.errors import InvalidTransition, JobNotFound
from kue.model.job import UNFINISHED, State
from kue.store.values import MAX_BATCH, MoveRequest, Result
from kue.worker.batches import BATCH, block_again, member_pages

if TYPE_CHECKING:
    from kue.client.connection import Connection
    from kue.client.flow_graph import FlowGraph, FlowJobs
    from kue.store.contract import Store


class FlowRetry(NamedTuple):
    """What a retry did."""

    #: Failed jobs that were requeued.
    retried: list[int]
    #: Cancelled jobs after them, which wait again.
    restored: list[int]


class FlowActions:
    """The methods of a queue about flows."""

    _connection: Connection

    async def flow(self, job_id: int) -> FlowGraph:
        """
        Return the graph of the flow that a job belongs to, or begins.

        Raises:
            JobNotFound: There is no such job.
        """
        return await graph_of(self._connection.store, job_id)

    async def cancel_flow(
        self, flow: int, *, job: int | None = None, reason: str = ""
    ) -> int:
        """
        Cancel what has not ended of a flow: all, or *job* and everything after it.

        Running jobs are asked to stop.  Returns how many jobs were cancelled or asked;
        only the first 2,000 jobs of a flow are looked at.  A batch then ends by itself,
        with its callbacks.

        Raises:
            JobNotFound: There is no such job.
            ValueError: *job* is not of this flow.
        """
        store = self._connection.store
        found = await _read(store, flow, job)
        if batch := _batch(found, job):
            return await _cancel_batch(self._connection, batch, reason)
        ids = list(found.jobs) if job is None else found.below(job)
        left = [at for at in sorted(ids) if found.jobs[at].state in UNFINISHED]
        number = 0
        # The last first, so that each is cancelled for this reason.
        for end in range(len(left), 0, -MAX_BATCH):
            part = left[max(0, end - MAX_BATCH) : end][::-1]
            replies = await store.cancel(part, reason=reason)
            done = (Result.DONE, Result.ASKED)
            number += sum(reply.word in done for reply in replies)
        return number

    async def retry_flow(self, flow: int, *, job: int | None = None) -> FlowRetry:
        """
        Retry the failed jobs of a flow: all, or only *job*.

        What is blocked by them then goes on, and jobs after them that were cancelled
        wait again.  Of a batch, all jobs that failed or were cancelled are retried.

        Raises:
            JobNotFound: There is no such job.
            InvalidTransition: *job* has not failed.
            ValueError: *job* is not of this flow.
        """
        store = self._connection.store
        found = await _read(store, flow, job)
        if batch := _batch(found, job):
            return await _retry_batch(self._connection, found, batch)
        failed = _failed(found, job)
        below = {at for one in failed for at in found.below(one)} - set(failed)
        lost = {
            at: found.jobs[at].spec.after
            for at in below
            if found.jobs[at].state is State.CANCELLED
        }
        if failed:
            request = MoveRequest(failed, State.WAITING, states=(State.FAILED,))
            await store.move(request)
        return FlowRetry(failed, await block_again(store, lost))


async def _read(store: Store, flow: int, job: int | None) -> FlowJobs:
    """Return the jobs of a flow; if *job* is given, of the part with that one."""
    if job is None:
        return await read_flow(store, flow)
    found = await read_flow(store, job)
    if found.flow != flow:
        # Its callbacks have other flows, and any of its jobs may stand for the flow.
        whole = await read_flow(store, flow)
        if found.flow != whole.flow and job not in whole.jobs:
            raise ValueError(
                f"job {job} is of flow {found.flow}, not of flow {whole.flow}"
            )
    return found


def _batch(found: FlowJobs, job_id: int | None) -> int | None:
    """Return the batch that a flow, or *job_id* in it, is; None for other jobs."""
    target = found.jobs.get(found.flow if job_id is None else job_id)
    return target.id if target is not None and target.type == BATCH else None


async def _cancel_batch(connection: Connection, batch_id: int, reason: str) -> int:
    """Cancel the jobs of a batch, also those that run; return how many."""
    batch, store = BatchHandle(connection, batch_id), connection.store
    before = await batch.progress()
    await batch.cancel(reason)
    number = (await batch.progress()).cancelled - before.cancelled
    async for members in member_pages(store, batch_id):
        running = [job.id for job in members if job.state is State.ACTIVE]
        replies = await store.cancel(running, reason=reason) if running else []
        number += sum(reply.word is Result.ASKED for reply in replies)
    return number


async def _retry_batch(
    connection: Connection, found: FlowJobs, batch_id: int
) -> FlowRetry:
    states = (State.FAILED, State.CANCELLED)
    members = [job for job in found.jobs.values() if job.flow == batch_id]
    retried = sorted(job.id for job in members if job.state in states)
    await BatchHandle(connection, batch_id).retry_failed()
    return FlowRetry(retried, [])


def _failed(found: FlowJobs, job_id: int | None) -> list[int]:
    if job_id is None:
        every = sorted(found.jobs)
        return [at for at in every if found.jobs[at].state is State.FAILED][:MAX_BATCH]
    if job_id not in found.jobs:
        raise JobNotFound(job_id)
    state = found.jobs[job_id].state
    if state is not State.FAILED:
        raise InvalidTransition(job_id, state, "be retried with what comes after it")
    return [job_id]
