"""
Random graphs of jobs, drawn from a seed, and what must become of each job.

A graph is made of portions: what one call of the public API adds.  Jobs wait for others
of their portion, and for those of earlier ones.  What must become of them is computed
here from the graph alone: nothing is taken from the code under test.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from msgspec.structs import replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

#: Types of jobs: enough for some on each of six shards.
TYPES = tuple(f"node-{number}" for number in range(12))
#: What a job does → how common it is.
DEEDS = {"succeed": 86, "fail once": 10, "fail": 4}
#: What the failure of a parent means to it → how common it is.
POLICIES = {"block": 45, "cancel": 25, "run": 18, "only": 12}
#: How a portion is added → how common it is.
WAYS = {"single": 4, "steps": 3, "flow": 4, "batch": 2}
#: The fewest and most jobs of a portion, unless it is a single one.
STEPS, MEMBERS = (5, 120), (4, 40)
MAX_PARENTS = 4
#: The share of portions that a producer begins to add and does not survive; and about
#: how long it takes to add a job.
DEATHS = 0.25
SECONDS_PER_JOB = 0.003
#: Of how many of the latest jobs those are drawn that a job waits for.
NEAR = 40

#: A chain or a group, by the keys of its jobs: ["chain", …], ["group", …] or a key.
Shape: TypeAlias = Any
#: Endings of jobs: "complete", "failed", "cancelled"; or "blocked".
States: TypeAlias = "dict[str, str]"


class Node(msgspec.Struct, frozen=True, omit_defaults=True):
    """A job of the graph."""

    key: str
    type: str
    does: str = "succeed"
    #: Those that it waits for.
    parents: tuple[str, ...] = ()
    #: Those of them whose results it takes.
    inputs: tuple[str, ...] = ()
    policy: str = "block"
    #: How many jobs it adds while it runs, and whether those after it wait for them.
    children: int = 0
    holds_next: bool = False
    #: Whether those become members of its batch.
    in_batch: bool = False
    seconds: float = 0.0

    @property
    def child_keys(self) -> list[str]:
        return [f"{self.key}/{number}" for number in range(self.children)]


class Portion(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is added by one call, in one of four ways."""

    key: str
    #: "single", "steps", "flow" (chains and groups) or "batch".
    way: str
    nodes: tuple[Node, ...]
    shape: Shape = None
    #: Of a batch: its callbacks, by when they are called.
    callbacks: dict[str, Node] = {}
    allow_failures: bool = False
    #: The producer is killed this long after it began to add it; 0 for never.
    dies_after: float = 0.0

    @property
    def all_nodes(self) -> Iterator[Node]:
        yield from self.nodes
        yield from self.callbacks.values()

    @property
    def has_failure(self) -> bool:
        return any(node.does == "fail" for node in self.nodes)


class Graph(msgspec.Struct, frozen=True):
    """All portions, in the order in which they are added."""

    portions: tuple[Portion, ...]

    def write(self, path: Path) -> None:
        path.write_bytes(msgspec.json.encode(self))

    @classmethod
    def read(cls, path: Path) -> Graph:
        return msgspec.json.decode(path.read_bytes(), type=cls)

    @property
    def nodes(self) -> dict[str, Node]:
        return {node.key: node for one in self.portions for node in one.all_nodes}


def draw(count: int, seed: int) -> Graph:
    """Return a graph of *count* jobs; those that jobs add while they run are extra."""
    drawing = _Drawing(Random(f"flows {seed}"))
    while drawing.count < count:
        drawing.add_portion(count - drawing.count)
    return Graph(tuple(drawing.portions))


class _Drawing:
    """Draws portions, one after another."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.portions: list[Portion] = []
        self.count = 0
        #: What later portions may wait for: jobs, and batches by their keys.
        self._known: list[str] = []

    def add_portion(self, most: int) -> None:
        draws = {
            "single": self._single,
            "steps": self._steps,
            "flow": self._flow,
            "batch": self._batch,
        }
        portion = draws[self._chosen(WAYS)](f"p{len(self.portions)}", most)
        if self._random.random() < DEATHS:
            longest = SECONDS_PER_JOB * (len(portion.nodes) + 3)
            dies_after = round(self._random.uniform(0.0, longest), 4)
            portion = replace(portion, dies_after=dies_after)
        self.portions.append(portion)
        self.count += len(list(portion.all_nodes))
        # Which members of a batch are cancelled is not known, so none waits for them.
        known = [portion] if portion.way == "batch" else portion.nodes
        self._known += [one.key for one in known]

    def _single(self, key: str, most: int) -> Portion:
        return Portion(key, "single", (self._linked(f"{key}.0", self._known),))

    def _steps(self, key: str, most: int) -> Portion:
        nodes: list[Node] = []
        for number in range(min(most, self._random.randint(*STEPS))):
            own = [node.key for node in nodes]
            node = self._linked(f"{key}.{number}", [*self._known, *own])
            # Results are passed on within a flow.
            inputs = [one for one in node.parents if one in own]
            if node.policy in ("block", "cancel"):
                node = replace(node, inputs=tuple(inputs))
            nodes.append(self._adding(node))
        return Portion(key, "steps", tuple(nodes))

    def _linked(self, key: str, known: list[str]) -> Node:
        """Return a job that waits for some of the latest *known* ones."""
        near = known[-NEAR:]
        number = min(len(near), self._random.randint(0, MAX_PARENTS))
        parents = tuple(sorted(self._random.sample(near, number)))
        node = replace(self._node(key), parents=parents)
        return replace(node, policy=self._chosen(POLICIES)) if parents else node

    def _node(self, key: str) -> Node:
        seconds = round(self._random.uniform(0.0, 0.2), 3)
        type = self._random.choice(TYPES)
        return Node(key, type, self._chosen(DEEDS), seconds=seconds)

    def _adding(self, node: Node) -> Node:
        if node.does != "succeed" or self._random.random() > 0.06:
            return node
        holds = self._random.random() < 0.5
        return replace(node, children=self._random.randint(1, 3), holds_next=holds)

    def _batch(self, key: str, most: int) -> Portion:
        number = min(most, self._random.randint(*MEMBERS))
        members = [self._adding(self._node(f"{key}.{at}")) for at in range(number)]
        if self._random.random() < 0.5:
            members = [
                replace(one, does="succeed") if one.does == "fail" else one
                for one in members
            ]
        callbacks = {
            word: Node(f"{key}.{word}", self._random.choice(TYPES))
            for word in ("then", "catch", "finally")
        }
        allows = self._random.random() < 0.4
        nodes = tuple(replace(one, holds_next=False, in_batch=True) for one in members)
        return Portion(key, "batch", nodes, callbacks=callbacks, allow_failures=allows)

    # -- chains and groups -----------------------------------------------------

    def _flow(self, key: str, most: int) -> Portion:
        nodes: list[Node] = []
        shape, _ = self._chain(key, nodes, (), depth=0)
        if self._random.random() < 0.6:
            watched = tuple(node.key for node in nodes)
            type = self._random.choice(TYPES)
            nodes.append(Node(f"{key}.catch", type, parents=watched, policy="only"))
        return Portion(key, "flow", tuple(nodes), shape)

    def _chain(
        self, key: str, nodes: list[Node], before: tuple[str, ...], *, depth: int
    ) -> tuple[Shape, tuple[str, ...]]:
        links: list[Shape] = []
        for _ in range(self._random.randint(2, 5)):
            if depth < 2 and self._random.random() < 0.35:
                link, before = self._group(key, nodes, before, depth=depth + 1)
            else:
                link, before = self._leaf(key, nodes, before)
            links.append(link)
        return ["chain", *links], before

    def _group(
        self, key: str, nodes: list[Node], before: tuple[str, ...], *, depth: int
    ) -> tuple[Shape, tuple[str, ...]]:
        members: list[Shape] = []
        last: tuple[str, ...] = ()
        for _ in range(self._random.randint(2, 4)):
            draw = self._chain if self._random.random() < 0.3 else self._leaf_at
            member, ends = draw(key, nodes, before, depth=depth)
            members.append(member)
            last += ends
        return ["group", *members], last

    def _leaf_at(
        self, key: str, nodes: list[Node], before: tuple[str, ...], *, depth: int
    ) -> tuple[Shape, tuple[str, ...]]:
        return self._leaf(key, nodes, before)

    def _leaf(
        self, key: str, nodes: list[Node], before: tuple[str, ...]
    ) -> tuple[Shape, tuple[str, ...]]:
        node = replace(self._node(f"{key}.{len(nodes)}"), parents=before)
        if before:
            policy = self._random.choice(("block", "block", "cancel", "run"))
            takes = policy != "run" and self._random.random() < 0.8
            inputs = before if takes else ()
            node = replace(node, policy=policy, inputs=inputs)
        nodes.append(self._adding(node))
        return node.key, (node.key,)

    def _chosen(self, weights: Mapping[str, int]) -> str:
        return self._random.choices(list(weights), list(weights.values()))[0]


# -- what must become of them --------------------------------------------------


def judge(policy: str, parents: Iterable[str]) -> str:
    """Return what becomes of a job: "runs", "cancelled", or "blocked" as it waits."""
    found = set(parents)
    is_open = "blocked" in found
    if policy == "only":
        if "failed" in found:
            return "runs"
        return "blocked" if is_open else "cancelled"
    if policy == "run":
        return "blocked" if is_open else "runs"
    if "cancelled" in found or (policy == "cancel" and "failed" in found):
        return "cancelled"
    return "blocked" if is_open or "failed" in found else "runs"


def states_of(graph: Graph) -> States:
    """Return how each job ends, and each batch, while no failed one is retried."""
    states: States = {}
    for portion in graph.portions:
        if portion.way == "batch":
            states |= _batch_states(portion)
            continue
        for node in portion.nodes:
            states[node.key] = _state(node, states)
    return states


def _state(node: Node, states: Mapping[str, str], *, mended: bool = False) -> str:
    word = judge(node.policy, (states[parent] for parent in node.parents))
    if word != "runs":
        return word
    return "failed" if node.does == "fail" and not mended else "complete"


def _batch_states(portion: Portion) -> States:
    fails = portion.has_failure
    ends_badly = fails and not portion.allow_failures
    states = {
        node.key: "failed" if node.does == "fail" else "complete"
        for node in portion.nodes
    }
    words = {
        "then": "blocked" if ends_badly else "complete",
        "catch": "complete" if fails else "cancelled",
        "finally": "complete",
    }
    for when, node in portion.callbacks.items():
        states[node.key] = words[when]
    return {**states, portion.key: "failed" if ends_badly else "complete"}


def mended_states(graph: Graph, before: Mapping[str, str]) -> States:
    """
    Return how each ends once all failed ones were retried, and succeed.

    The retry of a flow has what it cancelled wait again; other jobs that have ended
    stay as they are.
    """
    states: States = {}
    for portion in graph.portions:
        restored = _restored(portion, before)
        for node in portion.all_nodes:
            old = before[node.key]
            if old == "failed":
                states[node.key] = "complete"
            elif node.key in restored or (old == "blocked" and node.parents):
                states[node.key] = _state(node, states, mended=True)
            else:
                states[node.key] = "complete" if old == "blocked" else old
        if portion.way == "batch":
            states[portion.key] = "complete"
    return states


def _restored(portion: Portion, before: Mapping[str, str]) -> set[str]:
    """Return the cancelled jobs of a flow that come after a failed one."""
    below: set[str] = set()
    if portion.way != "flow":
        return below
    for node in portion.nodes:
        marked = [p for p in node.parents if p in below or before[p] == "failed"]
        if marked:
            below.add(node.key)
    return {key for key in below if before[key] == "cancelled"}
