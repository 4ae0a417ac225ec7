"""``kue flow``: show the jobs of a flow, cancel them, or retry the failed ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from kue.cli.context import changes, json_option, noun, reads
from kue.cli.output.console import DONE, REFUSED, print_message
from kue.cli.output.listing import Cell, Column, Listing, show_json, show_one
from kue.cli.params import JOB_ID

if TYPE_CHECKING:
    from kue.client.flow_graph import FlowGraph, FlowNode
    from kue.client.queue import Kue

flow_argument = click.argument("job_id", metavar="ID", type=JOB_ID)
job_option = click.option(
    "--from", "job", type=JOB_ID, help="Only this job, and everything after it."
)


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

    Exits with 1 when everything had ended.

    \b
      kue flow cancel 7 --from 9 --reason "wrong input"
    """
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
    done = await q.retry_flow(job_id, job=job)
    item = {"flow": job_id, "retried": done.retried, "restored": done.restored}
    text = f"{len(done.retried):,} retried, {len(done.restored):,} wait again"
    show_one(item, str(job_id), text, as_json=as_json)
    return DONE if done.retried else REFUSED


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
    more = f"; {graph.more:,} more are not shown" if graph.more else ""
    return (
        f"{what} {graph.id}: {graph.total:,} jobs, {graph.complete:,} complete, "
        f"{graph.failed:,} failed, {graph.cancelled:,} cancelled{more}"
    )


@noun(show, cancel, retry)
def flow() -> None:
    """
    Show, cancel and retry flows: jobs that wait for each other.

    \b
      kue flow show 7
      kue flow retry 7
    """
