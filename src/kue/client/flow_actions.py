"""Actions on a flow: cancel what is left of it, or retry it from a failed job on."""

from __future__ import annotations

from graphlib import TopologicalSorter
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec.structs import replace

from kue.client.flow_enqueue import LinkedAdd
from kue.client.flow_graph import graph_of, read_flow
from kue.model.errors import InvalidTransition, JobNotFound
from kue.model.job import UNFINISHED, Draft, JobTerms, State
from kue.store.values import MAX_BATCH, MoveRequest, Result

if TYPE_CHECKING:
    from kue.client.connection import Connection
    from kue.client.flow_graph import FlowGraph, FlowJobs
    from kue.model.job import Job


class FlowRetry(NamedTuple):
    """What a retry did."""

    #: Failed jobs that were requeued.
    retried: list[int]
    #: Copies of jobs that were cancelled because one before them failed.
    added: list[int]


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
        only the first 2,000 jobs of a flow are looked at.

        Raises:
            JobNotFound: There is no such job.
        """
        store = self._connection.store
        found = await read_flow(store, flow if job is None else job)
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

        What is blocked by them then goes on.  Jobs after them that were cancelled
        cannot wait again: copies of them are added to the flow.

        Raises:
            JobNotFound: There is no such job.
            InvalidTransition: *job* has not failed.
        """
        connection = self._connection
        found = await read_flow(connection.store, flow if job is None else job)
        failed = _failed(found, job)
        below = {at for one in failed for at in found.below(one)} - set(failed)
        lost = [at for at in below if _is_lost(found.jobs[at])]
        if failed:
            states = (State.FAILED,)
            await connection.store.move(
                MoveRequest(failed, State.WAITING, states=states)
            )
        adding = LinkedAdd(connection)
        await adding.add(_copies(found, lost))
        return FlowRetry(failed, [one.id for one in adding.added])


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


def _copies(found: FlowJobs, lost: list[int]) -> list[Draft]:
    """Return copies that wait for each other as the jobs did; parents come first."""
    known = set(lost)
    parents = {at: known & set(found.jobs[at].spec.after) for at in lost}
    order = list(TopologicalSorter(parents).static_order())
    numbers = {job_id: -number for number, job_id in enumerate(order, 1)}
    return [_copy(found.jobs[job_id], numbers) for job_id in order]


def _is_lost(job: Job) -> bool:
    """Return whether a job was cancelled that should have run."""
    return job.state is State.CANCELLED and job.on_parent_failure != "only"


def _copy(job: Job, numbers: dict[int, int]) -> Draft:
    after = tuple(numbers.get(parent, parent) for parent in job.spec.after)
    data = msgspec.Raw(msgspec.json.encode(job.data))
    spec = replace(job.spec, after=after, data=data, address_id=None)
    same = {name: getattr(job, name) for name in JobTerms.__struct_fields__}
    return Draft(**same | {"spec": spec})
