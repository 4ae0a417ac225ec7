"""``kue flow``: add a flow, show its jobs, cancel them, or retry the failed ones."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from kue.cli.context import adds, as_usage_error, changes, json_option, noun, reads
from kue.cli.input import STDIN, read_all, read_json
from kue.cli.output.console import DONE, REFUSED, print_message
from kue.cli.output.listing import Cell, Column, Listing, show_json, show_one
from kue.cli.params import JOB_ID
from kue.cli.unknown_names import warn_of_unhandled_type
from kue.client.named_flow import InvalidStep, NewFlow, add_steps, steps_of
from kue.model.errors import KueError, UnknownParent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kue.client.flow_graph import FlowGraph, FlowNode
    from kue.client.named_flow import FlowStep
    from kue.client.queue import Kue
    from kue.model.payload import JSON
    from kue.store.values import Added

flow_argument = click.argument("job_id", metavar="ID", type=JOB_ID)
job_option = click.option(
    "--from", "job", type=JOB_ID, help="Only this job, and everything after it."
)


@adds
@click.argument("file", type=click.Path(allow_dash=True))
@json_option(help="Write one JSON object: id, and jobs by the name of their step.")
async def add(q: Kue, file: str, as_json: bool) -> None:
    """
    Add the flow that FILE describes; - reads it from standard input.

    FILE is JSON, the same as the body of POST /api/v1/flows: steps in any order.  The
    job of a step has a type, data and the options of a job.  A step waits for those in
    "after", and for those whose results are its arguments by "inputs".  Nothing runs
    before all jobs are stored.

    Columns in a pipe: id of the flow, step, id of its job, type.

    \b
      kue flow add flow.json
      kue flow add - --json < flow.json | jq .id

    \b
      {"on_parent_failure": "cancel",
       "steps": [
         {"name": "fetch", "job": {"type": "fetch", "data": {"url": "example.com"}}},
         {"name": "count", "job": {"type": "count", "attempts": 3},
          "inputs": {"page": "fetch"}},
         {"name": "notify", "job": {"type": "email", "data": {"to": "ann"}},
          "after": ["count"]}]}
    """
    flow = _read_flow(file)
    try:
        steps = steps_of(q, flow)
    except InvalidStep as exc:
        raise _wrong_step(exc.step, exc.field, str(exc)) from exc
    try:
        with as_usage_error():
            flow_id, added = await add_steps(
                q._connection, steps, on_parent_failure=flow.on_parent_failure
            )
    except UnknownParent as exc:
        waiting = [at for at in steps if exc.job_id in steps[at].draft.spec.after]
        raise KueError(f"step {waiting[0]!r}: {exc}" if waiting else str(exc)) from exc
    _show_added(flow_id, steps, added, as_json=as_json)
    for type in sorted({step.draft.type for step in steps.values()}):
        await warn_of_unhandled_type(q, type)


@reads
@flow_argument
@json_option(help="Write one JSON object: nodes, edges and counts.")
async def show(q: Kue, job_id: int, as_json: bool) -> None:
    """
    Show the flow that a job belongs to: its jobs, and what each waits for.

    Jobs that are alike are one line if they are more than 8.  Columns in a pipe: id,
    jobs, type, state, ids of the lines that it waits for, error.

    \b
      kue flow show 7
      kue flow show 7 --json | jq '.nodes[] | select(.state == "failed")'
    """
    graph = await q.flow(job_id)
    if as_json:
        show_json(graph)
        return
    Listing(_columns(graph), msgspec.to_builtins).show(graph.nodes)
    print_message(_summary(graph))


@changes
@flow_argument
@job_option
@click.option("--reason", default="", help="Why; stored with the jobs.")
@json_option(help="Write one JSON object: flow, cancelled.")
async def cancel(
    q: Kue, job_id: int, job: int | None, reason: str, as_json: bool
) -> int:
    """
    Cancel what has not ended of a flow; running jobs are asked to stop.

    A batch then ends by itself, with its callbacks.  Exits with 1 when everything had
    ended.

    \b
      kue flow cancel 7 --from 9 --reason "wrong input"
    """
    with as_usage_error():
        number = await q.cancel_flow(job_id, job=job, reason=reason)
    item = {"flow": job_id, "cancelled": number}
    show_one(item, str(job_id), f"{number:,} cancelled", as_json=as_json)
    return DONE if number else REFUSED


@changes
@flow_argument
@click.option("--from", "job", type=JOB_ID, help="Only this failed job.")
@json_option(help="Write one JSON object: flow, retried, restored.")
async def retry(q: Kue, job_id: int, job: int | None, as_json: bool) -> int:
    """
    Retry the failed jobs of a flow; what waits for them goes on.

    Jobs after them that were cancelled wait again.  Exits with 1 when no job had
    failed.

    \b
      kue flow retry 7
    """
    with as_usage_error():
        done = await q.retry_flow(job_id, job=job)
    item = {"flow": job_id, "retried": done.retried, "restored": done.restored}
    text = f"{len(done.retried):,} retried, {len(done.restored):,} wait again"
    show_one(item, str(job_id), text, as_json=as_json)
    return DONE if done.retried else REFUSED


def _read_flow(file: str) -> NewFlow:
    try:
        text = read_all() if file == STDIN else Path(file).read_bytes()
    except OSError as exc:
        raise click.UsageError(f"{file} cannot be read: {exc.strerror}") from exc
    document = read_json(text, what="standard input" if file == STDIN else file)
    try:
        return msgspec.json.decode(text, type=NewFlow)
    except msgspec.ValidationError as exc:
        problem, _, path = (
            str(exc).replace(" - at `key` in", " - at").partition(" - at `$")
        )
        field = path.rstrip("`").removeprefix(".")
        raise _wrong_step(_name_at(document, field), field, problem) from exc


def _name_at(document: JSON, field: str) -> str:
    """Return the name of the step that has *field*; empty if it has none."""
    number = re.match(r"steps\[(\d+)\]", field)
    if number is None or not isinstance(document, dict):
        return ""
    steps = document["steps"]
    step = steps[int(number[1])] if isinstance(steps, list) else None
    name = step.get("name") if isinstance(step, dict) else None
    return name if isinstance(name, str) else ""


def _wrong_step(step: str, field: str, problem: str) -> click.UsageError:
    text = f"{field or 'the flow'}: {problem}"
    return click.UsageError(f"step {step!r}, {text}" if step else text)


def _show_added(
    flow_id: int,
    steps: Mapping[str, FlowStep],
    added: Mapping[str, Added],
    *,
    as_json: bool,
) -> None:
    types = {name: step.draft.type for name, step in steps.items()}
    if as_json:
        jobs: dict[str, JSON] = {
            name: {
                "id": one.id,
                "type": types[name],
                "new": one.new,
                "replaced": one.replaced,
            }
            for name, one in added.items()
        }
        show_json({"id": flow_id, "jobs": jobs})
        return
    columns: tuple[Column[str], ...] = (
        Column("flow", lambda name: flow_id, is_number=True),
        Column("step", lambda name: name, wraps=True),
        Column("id", lambda name: added[name].id, is_number=True),
        Column("type", lambda name: types[name], wraps=True),
    )
    Listing(columns, lambda name: name).show(added)
    for name, one in added.items():
        if not one.new:
            print_message(f"step {name!r}: job {one.id} has its unique key already")


def _columns(graph: FlowGraph) -> tuple[Column[FlowNode], ...]:
    parents: dict[int, list[int]] = {node.id: [] for node in graph.nodes}
    for edge in graph.edges:
        parents[edge.to].append(edge.source)
    depths = _depths(parents)

    def type(node: FlowNode) -> Cell:
        return Cell("  " * depths[node.id] + node.type, node.type)

    return (
        Column("id", lambda node: node.id, is_number=True),
        Column("jobs", lambda node: node.count, is_number=True, rank=2),
        Column("type", type, wraps=True),
        Column("state", lambda node: node.state.value),
        Column("after", lambda node: ", ".join(map(str, parents[node.id])), rank=3),
        Column("error", lambda node: node.error, is_long=True, rank=1),
    )


def _depths(parents: dict[int, list[int]]) -> dict[int, int]:
    """Return for each node how many are before it on the longest way."""
    depths = dict.fromkeys(parents, 0)
    # Each round sets those right at the next depth; more rounds than that are a cycle.
    for _ in parents:
        longer = {
            at: max(depths[parent] + 1 for parent in before)
            for at, before in parents.items()
            if before and max(depths[parent] + 1 for parent in before) > depths[at]
        }
        if not longer:
            break
        depths |= longer
    return depths


def _summary(graph: FlowGraph) -> str:
    what = "batch" if graph.is_batch else "flow"
    jobs = "1 job" if graph.total == 1 else f"{graph.total:,} jobs"
    more = f"; {graph.more:,} more are not shown" if graph.more else ""
    return (
        f"{what} {graph.id}: {jobs}, {graph.complete:,} complete, "
        f"{graph.failed:,} failed, {graph.cancelled:,} cancelled{more}"
    )


@noun(add, show, cancel, retry)
def flow() -> None:
    """
    Add, show, cancel and retry flows: jobs that wait for each other.

    \b
      kue flow add flow.json
      kue flow show 7
      kue flow retry 7
    """
