"""Flows: add one, show its graph, cancel it or retry it from a failed job on."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from kue.client.flow_graph import FlowGraph  # noqa: TC001 - operations read annotations
from kue.client.named_flow import InvalidStep, NewFlow, add_steps, steps_of
from kue.client.new_job import JobId
from kue.http.auth.roles import Scope
from kue.http.framework.operations import Input, RequestContext, Section
from kue.http.framework.problem import bad_request, input_errors
from kue.http.v1.job_actions import MAX_REASON
from kue.http.v1.job_json import AddedView

if TYPE_CHECKING:
    from kue.store.values import Added

section = Section("flows", "Jobs that wait for each other.", prefix="/flows")


class FlowAdded(msgspec.Struct, frozen=True):
    """The result of adding a flow."""

    #: Its id, which is that of its first job.
    id: int
    #: The jobs, by the name of their step.
    jobs: dict[str, AddedView]


class FlowPart(Input, frozen=True, kw_only=True):
    """Which part of a flow: a job and everything after it; all if omitted."""

    job: JobId | None = None


class FlowCancellation(FlowPart, frozen=True, kw_only=True):
    """What to cancel, and why."""

    reason: Annotated[str, Meta(max_length=MAX_REASON)] = ""


class FlowCancelled(msgspec.Struct, frozen=True):
    """The result of cancelling a flow."""

    #: How many jobs were cancelled, or asked to stop.
    cancelled: int


class FlowRetried(msgspec.Struct, frozen=True):
    """The result of retrying a flow."""

    #: Failed jobs that were requeued.
    retried: list[int]
    #: Jobs after them that were cancelled, and wait again.
    restored: list[int]


@section.post("", scope=Scope.ENQUEUE, status=HTTPStatus.CREATED)
async def add(context: RequestContext, body: NewFlow) -> FlowAdded:
    """
    Add a flow: jobs that wait for each other, by name.

    A step with inputs gets results of other steps as arguments.  Nothing runs before
    everything was added.
    """
    try:
        steps = steps_of(context.q, body)
    except InvalidStep as exc:
        raise bad_request(str(exc), f"body.{exc.field}") from exc
    with input_errors("body.steps"):
        flow, added = await add_steps(
            context.q._connection, steps, on_parent_failure=body.on_parent_failure
        )
    jobs = {name: _view(one) for name, one in added.items()}
    return FlowAdded(flow, jobs)


@section.get("/{job_id}", is_list=True)
async def show(context: RequestContext, job_id: JobId) -> FlowGraph:
    """
    The graph of the flow that a job belongs to, or begins.

    Jobs that are alike are one node if they are more than 8.  Only the first 2,000 jobs
    of a flow are read.
    """
    graph = await context.q.flow(job_id)
    hide = context.redaction.text
    nodes = [
        msgspec.structs.replace(node, error=hide(node.error)) for node in graph.nodes
    ]
    return msgspec.structs.replace(graph, nodes=nodes)


@section.post("/{job_id}/cancel")
async def cancel(
    context: RequestContext, job_id: JobId, body: FlowCancellation | None
) -> FlowCancelled:
    """
    Cancel what has not ended of a flow, or of a job and everything after it.

    Running jobs are asked to stop.  A batch then ends by itself, with its callbacks.
    """
    given = body or FlowCancellation()
    with input_errors("body.job"):
        number = await context.q.cancel_flow(job_id, job=given.job, reason=given.reason)
    return FlowCancelled(number)


@section.post("/{job_id}/retry")
async def retry(
    context: RequestContext, job_id: JobId, body: FlowPart | None
) -> FlowRetried:
    """
    Retry the failed jobs of a flow, or one of them.

    What is blocked by them goes on; jobs after them that were cancelled wait again.
    """
    with input_errors("body.job"):
        done = await context.q.retry_flow(job_id, job=(body or FlowPart()).job)
    return FlowRetried(done.retried, done.restored)


def _view(added: Added) -> AddedView:
    return AddedView(added.id, added.new, added.replaced)
