"""The queue whose jobs are a graph; handlers record each run, in one file for all."""

from __future__ import annotations

import asyncio
import os
import zlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import kue
from chaos.dag import TYPES, Graph, Node
from chaos.flow_facts import Ran
from chaos.journal import Journal
from chaos.leash import follow
from kue import ActiveJob

if TYPE_CHECKING:
    from collections.abc import Iterable

GRAPH, RUNS, MENDED = "graph.json", "runs.jsonl", "mended"
#: Keys are held for as long as any run takes, so that a repeated add adds nothing.
UNIQUE_FOR = "1d"
OPTIONS: dict[str, Any] = {
    "attempts": 2,
    "backoff": kue.fixed(0.05),
    # Workers are killed all the time, and no job is to blame.
    "max_stalls": 1000,
}

q = kue.Kue()
if harness := os.environ.get("CHAOS_HARNESS"):
    follow(int(harness))


def folder() -> Path:
    return Path(os.environ["CHAOS_FOLDER"])


@cache
def nodes() -> dict[str, Node]:
    return Graph.read(folder() / GRAPH).nodes


@cache
def journal(pid: int) -> Journal:
    # All processes append to the same file: the order of its lines needs no clock.
    return Journal(folder() / RUNS)


async def run(job: ActiveJob, inputs: Any, node: str, copy: int) -> dict[str, str]:
    """Do what the graph says of a node, and return which run did it."""
    ran = Ran("start", node, copy, job.id, job.job.token, inputs)
    journal(os.getpid()).write(ran)
    try:
        await _act(job, nodes().get(node) or Node(node, job.type), copy)
    finally:
        ended = Ran("end", node, copy, job.id, job.job.token)
        journal(os.getpid()).write(ended)
    return {"node": node, "run": job.job.token}


async def _act(job: ActiveJob, node: Node, copy: int) -> None:
    # So that workers are killed during a run as well.
    await asyncio.sleep(node.seconds)
    if node.does == "fail once" and job.attempt == 1:
        raise RuntimeError("fails at its first attempt")
    if node.does == "fail" and not (folder() / MENDED).exists():
        raise kue.Fail("fails until it is mended")
    if node.children:
        calls = list(_children(node, copy))
        if node.in_batch and job.batch is not None:
            await job.batch.add(calls)
        else:
            await job.add(*calls, holds_next=node.holds_next)


def _children(node: Node, copy: int) -> Iterable[kue.Signature[Any]]:
    for key in node.child_keys:
        task = TASKS[zlib.crc32(key.encode()) % len(TASKS)]
        once = task.options(unique=f"{key} {copy}", unique_for=UNIQUE_FOR)
        yield once.si(node=key, copy=copy)


def _make(type: str) -> kue.Task[..., Any, dict[str, str]]:
    @q.task(name=type, concurrency=5, **OPTIONS)
    async def step(
        job: ActiveJob, inputs: Any = None, *, node: str, copy: int
    ) -> dict[str, str]:
        return await run(job, inputs, node, copy)

    return step


TASKS = tuple(map(_make, TYPES))
TASK_OF = dict(zip(TYPES, TASKS, strict=True))
