"""
``python -m chaos.flows_producer FOLDER SECONDS``: adds a graph of jobs.

After its death it is started again, and adds what it does not know to be added.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import kue
from chaos.dag import Graph
from chaos.flow_facts import Acknowledged, Begun
from chaos.flows_app import GRAPH, TASK_OF, UNIQUE_FOR, q
from chaos.journal import Journal, read_journals
from kue.client.named_flow import FlowStep, add_steps

if TYPE_CHECKING:
    from chaos.dag import Node, Portion, Shape
    from kue.client.task import TaskCalls

BEGUN, ACKNOWLEDGED = "begun.jsonl", "acknowledged.jsonl"
#: After a call that failed, before the next.
PAUSE_SECONDS = 0.2


class Producer:
    """Adds portions; those that an earlier process has begun get another copy."""

    def __init__(self, folder: Path) -> None:
        self._graph = Graph.read(folder / GRAPH)
        self._nodes = self._graph.nodes
        self._begun = Journal(folder / BEGUN)
        self._acknowledged = Journal(folder / ACKNOWLEDGED)
        known = read_journals(Acknowledged, folder, ACKNOWLEDGED)
        self._done = {one.portion for one in known}
        self._ids = {key: at for one in known for key, at in one.ids.items()}
        self._copies: dict[str, int] = {}
        for begun in read_journals(Begun, folder, BEGUN):
            self._copies[begun.portion] = begun.copy + 1
        self._has_begun = set(self._copies)

    async def add_all(self, seconds: float) -> None:
        """Add what is left, evenly over *seconds*."""
        left = [one for one in self._graph.portions if one.key not in self._done]
        for portion in left:
            since = time.monotonic()
            while not await self._add(portion):  # noqa: ASYNC110 - until it succeeds
                await asyncio.sleep(PAUSE_SECONDS)
            share = seconds / len(self._graph.portions)
            # The graph is added while faults go on.
            await asyncio.sleep(max(0.0, share - (time.monotonic() - since)))

    async def _add(self, portion: Portion) -> bool:
        copy = self._copies.get(portion.key, 0)
        # A single job has a unique key instead.
        self._copies[portion.key] = copy + (portion.way != "single")
        if portion.way == "single":
            copy = 0
        if self._may_die(portion):
            loop = asyncio.get_running_loop()
            loop.call_later(portion.dies_after, os.kill, os.getpid(), signal.SIGKILL)
        self._begun.write(Begun(portion.key, copy))
        add = getattr(self, f"_add_{portion.way}")
        try:
            flow, ids = await add(portion, copy)
        except kue.StoreError as exc:
            sys.stderr.write(f"{portion.key}, copy {copy}: {exc}\n")
            return False
        self._ids |= ids
        self._acknowledged.write(Acknowledged(portion.key, copy, ids, flow))
        return True

    def _may_die(self, portion: Portion) -> bool:
        """Return whether the first producer that adds it is to be killed then."""
        is_first = portion.key not in self._has_begun
        self._has_begun.add(portion.key)
        return portion.dies_after > 0 and is_first

    async def _add_single(
        self, portion: Portion, copy: int
    ) -> tuple[int, dict[str, int]]:
        [node] = portion.nodes
        unique = {"unique": node.key, "unique_for": UNIQUE_FOR}
        handle = await self._task(node, **unique).enqueue(node=node.key, copy=copy)
        return handle.id, {node.key: handle.id}

    async def _add_steps(
        self, portion: Portion, copy: int
    ) -> tuple[int, dict[str, int]]:
        steps = {node.key: self._step(node, portion, copy) for node in portion.nodes}
        flow, added = await add_steps(q._connection, steps)
        return flow, {key: one.id for key, one in added.items()}

    def _step(self, node: Node, portion: Portion, copy: int) -> FlowStep:
        own = {one.key for one in portion.nodes}
        draft = self._task(node).draft(node=node.key, copy=copy)
        names = [key for key in node.parents if key in own]
        inputs = {"inputs": list(node.inputs)} if node.inputs else {}
        return FlowStep(draft, names, inputs)

    async def _add_flow(
        self, portion: Portion, copy: int
    ) -> tuple[int, dict[str, int]]:
        flow = self._shaped(portion.shape, copy)
        nodes = portion.nodes
        if nodes[-1].key.endswith(".catch"):
            flow = flow.catch(self._signature(nodes[-1], copy))
        handle = await flow.enqueue()
        ids = [job.id for job in handle.jobs]
        keys = [node.key for node in nodes]
        return handle.flow, dict(zip(keys, ids, strict=True))

    def _shaped(self, shape: Shape, copy: int) -> kue.Flow[Any]:
        if isinstance(shape, str):
            return self._signature(self._nodes[shape], copy)
        word, *parts = shape
        make = kue.chain if word == "chain" else kue.group
        return make([self._shaped(part, copy) for part in parts])

    async def _add_batch(
        self, portion: Portion, copy: int
    ) -> tuple[int, dict[str, int]]:
        batch = kue.batch(portion.key, allow_failures=portion.allow_failures)
        calls = {
            word: self._signature(node, copy, takes_result=True)
            for word, node in portion.callbacks.items()
        }
        batch.then(calls["then"]).catch(calls["catch"]).finally_(calls["finally"])
        handle = await batch.enqueue(
            self._signature(node, copy) for node in portion.nodes
        )
        return handle.id, {portion.key: handle.id}

    def _signature(
        self, node: Node, copy: int, *, takes_result: bool = False
    ) -> kue.Signature[Any]:
        takes = takes_result or node.inputs or node.key.endswith(".catch")
        task = self._task(node)
        make = task.s if takes else task.si
        return make(node=node.key, copy=copy)

    def _task(self, node: Node, **more: Any) -> TaskCalls[..., Any]:
        # Those of the same portion have no id yet.
        after = [self._ids[key] for key in node.parents if key in self._ids]
        options = {"on_parent_failure": node.policy, "after": after, **more}
        return TASK_OF[node.type].options(**options)


async def main(folder: Path, seconds: float) -> None:
    async with q:
        await Producer(folder).add_all(seconds)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), float(sys.argv[2])))
