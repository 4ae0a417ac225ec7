"""
Graph of a flow: its jobs as nodes, and which waits for which.

Jobs that are alike are folded into one node when there are many: those of one type and
state, with jobs before and after them that are alike as well.  So a hundred chains of
three jobs are three nodes.
"""

from __future__ import annotations

from collections import defaultdict
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from kue.model.errors import JobNotFound
from kue.model.job import State
from kue.store.values import MAX_BATCH, FlowCounts
from kue.worker.batches import BATCH, BatchOptions, callbacks_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kue.model.job import Job
    from kue.store.contract import Store

#: Jobs that are read for one graph; a larger flow is shown in part.
MAX_JOBS = 2_000
#: Jobs that are alike and shown one by one.
MAX_ALIKE = 8


class FlowNode(msgspec.Struct, frozen=True, kw_only=True):
    """A job of a flow, or several that are alike."""

    #: The id of the job; of several, that of the first.
    id: int
    type: str
    state: State
    #: How many jobs it stands for.
    count: int
    #: In percent; of several jobs, that of the first.
    progress: int
    #: Of a failed job.
    error: str


class FlowEdge(NamedTuple):
    """The job *to* waits for the job *source*, or was added by it."""

    source: int
    to: int


class FlowGraph(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes of a flow, and the ids of those that wait for each other."""

    id: int
    is_batch: bool
    #: Of a batch that was given one; empty for others.
    name: str = ""
    total: int
    complete: int
    failed: int
    cancelled: int
    #: In the order in which they were added.
    nodes: list[FlowNode]
    edges: list[FlowEdge]
    #: How many more jobs the flow has.
    more: int


class FlowJobs(NamedTuple):
    """The jobs of a flow by id, and for each the ids of those right before it."""

    flow: int
    jobs: dict[int, Job]
    before: dict[int, tuple[int, ...]]

    def after(self) -> dict[int, list[int]]:
        """Return for each job the ids of those right after it."""
        found: dict[int, list[int]] = defaultdict(list)
        for job_id, parents in self.before.items():
            for parent in parents:
                found[parent].append(job_id)
        return found

    def below(self, job_id: int) -> list[int]:
        """Return *job_id* and everything that comes after it, by id."""
        after, found, left = self.after(), {job_id}, [job_id]
        while left:
            for child in after.get(left.pop(), ()):
                if child not in found:
                    found.add(child)
                    left.append(child)
        return sorted(found)


async def read_flow(store: Store, job_id: int) -> FlowJobs:
    """
    Return the flow that *job_id* belongs to, or begins.

    Raises:
        JobNotFound: There is no such job.
    """
    [job] = await store.get([job_id])
    if job is None:
        raise JobNotFound(job_id)
    flow = job_id if job.flow is None else job.flow
    jobs = {one.id: one for one in await _members(store, flow)} | {job.id: job}
    if flow not in jobs:
        jobs |= await _read(store, [flow])
    parents = {at for one in jobs.values() for at in one.spec.after} - jobs.keys()
    jobs |= await _read(store, sorted(parents)[:MAX_BATCH])
    if flow in jobs and jobs[flow].type == BATCH:
        jobs |= {job.id: job for job in await callbacks_of(store, jobs[flow])}
    return FlowJobs(flow, jobs, _links(flow, jobs))


async def graph_of(store: Store, job_id: int) -> FlowGraph:
    """Return the graph of the flow that *job_id* belongs to; raises `JobNotFound`."""
    found = await read_flow(store, job_id)
    [counts] = await store.flow_counts([found.flow])
    if not counts.total:
        counts = _counted(found.jobs.values())
    root = found.jobs.get(found.flow)
    nodes, edges = _folded(found)
    members = sum(job.flow == found.flow for job in found.jobs.values())
    is_cut = members >= MAX_JOBS
    return FlowGraph(
        id=found.flow,
        is_batch=root is not None and root.type == BATCH,
        name=_name(root),
        total=counts.total,
        complete=counts.complete,
        failed=counts.failed,
        cancelled=counts.cancelled,
        nodes=nodes,
        edges=edges,
        more=max(0, counts.total - members) if is_cut else 0,
    )


def _name(root: Job | None) -> str:
    if root is None or root.type != BATCH:
        return ""
    try:
        return BatchOptions.of(root).name
    except ValueError:
        # Its data is not that of a batch; the graph can be shown all the same.
        return ""


def _counted(jobs: Iterable[Job]) -> FlowCounts:
    """Return the counts of jobs that are not of a flow, but wait for each other."""
    states = [job.state for job in jobs]
    ends = (State.COMPLETE, State.FAILED, State.CANCELLED)
    return FlowCounts(len(states), *(states.count(state) for state in ends))


async def _members(store: Store, flow: int) -> list[Job]:
    found: list[Job] = []
    cursor = None
    while len(found) < MAX_JOBS:
        page = await store.members(flow, limit=MAX_BATCH, cursor=cursor)
        found += page.jobs
        cursor = page.cursor
        if cursor is None:
            break
    return found[:MAX_JOBS]


async def _read(store: Store, ids: Sequence[int]) -> dict[int, Job]:
    return {job.id: job for job in await store.get(ids) if job is not None}


def _links(flow: int, jobs: Mapping[int, Job]) -> dict[int, tuple[int, ...]]:
    """Return the jobs right before each one; a batch comes after its members."""
    before: dict[int, tuple[int, ...]] = {}
    for job in jobs.values():
        parents = [*job.spec.after, *([job.spec.parent] if job.spec.parent else [])]
        before[job.id] = tuple(at for at in dict.fromkeys(parents) if at in jobs)
    batch = jobs.get(flow)
    if batch is not None and batch.type == BATCH:
        inner = {parent for parents in before.values() for parent in parents}
        last = [
            job.id for job in jobs.values() if job.flow == flow and job.id not in inner
        ]
        before[flow] = (*before[flow], *last)
    return before


def _folded(found: FlowJobs) -> tuple[list[FlowNode], list[FlowEdge]]:
    order = _in_order(found.before)
    above = _shapes(found, order, found.before)
    below = _shapes(found, order[::-1], found.after())
    alike: dict[tuple[int, int], list[Job]] = defaultdict(list)
    for at in sorted(found.jobs):
        alike[above[at], below[at]].append(found.jobs[at])
    nodes: list[FlowNode] = []
    #: By the id of a job, that of its node.
    node_ids: dict[int, int] = {}
    for jobs in alike.values():
        parts = [jobs] if len(jobs) > MAX_ALIKE else [[job] for job in jobs]
        for part in parts:
            nodes.append(_node(part))
            node_ids |= dict.fromkeys((job.id for job in part), part[0].id)
    nodes.sort(key=lambda node: node.id)
    return nodes, _edges(found, node_ids)


def _in_order(before: Mapping[int, Iterable[int]]) -> list[int]:
    """Return all jobs, each after those before it."""
    try:
        return list(TopologicalSorter(before).static_order())
    except CycleError:
        return sorted(before)


def _shapes(
    found: FlowJobs, order: Iterable[int], links: Mapping[int, Iterable[int]]
) -> dict[int, int]:
    """Number jobs by their type, their state and the shapes of those *links* names."""
    shapes: dict[int, int] = {}
    numbers: dict[object, int] = {}
    for at in order:
        job = found.jobs[at]
        # In a cycle a job may come before one that it is linked to: no other is alike.
        linked = frozenset(shapes.get(one, -one) for one in links.get(at, ()))
        shape = (job.type, job.state, linked)
        shapes[at] = numbers.setdefault(shape, len(numbers))
    return shapes


def _edges(found: FlowJobs, node_ids: Mapping[int, int]) -> list[FlowEdge]:
    links: Iterable[FlowEdge] = (
        FlowEdge(node_ids[parent], node_ids[job_id])
        for job_id, parents in found.before.items()
        for parent in parents
    )
    return sorted(set(links))


def _node(jobs: Sequence[Job]) -> FlowNode:
    first = jobs[0]
    return FlowNode(
        id=first.id,
        type=first.type,
        state=first.state,
        count=len(jobs),
        progress=first.progress,
        error=first.error.summary if first.error else "",
    )
