"""The account of a graph of jobs: each as the graph requires, and no edge broken."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from chaos.breach import Breach
from chaos.dag import mended_states, states_of
from kue.model.job import Run, State
from kue.worker.batches import BATCH
from kue.worker.flow_jobs import GATE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from chaos.dag import Graph, Node, Portion
    from chaos.flow_facts import Acknowledged, Ran
    from kue import Job
    from kue.model.job import Attempt

#: The key of a node, and the copy of its portion.
Copied: TypeAlias = tuple[str, int]
#: A job and the token of its run → the line of the journal where it ended.
Ends: TypeAlias = dict[tuple[int, str], int]
#: How a parent must have ended before a job with this policy runs.
_NEEDED = {
    "block": ("complete",),
    "cancel": ("complete",),
    "only": ("failed",),
    "run": ("complete", "failed", "cancelled"),
}


class Evidence(NamedTuple):
    """What is known of a run."""

    graph: Graph
    #: In the order in which they happened.
    runs: Sequence[Ran]
    acknowledged: Sequence[Acknowledged]
    jobs: Sequence[Job]
    #: Whether all failed jobs were retried, and succeed.
    mended: bool


class Account:
    """Compares what is known of a run with what the graph requires."""

    def __init__(self, evidence: Evidence) -> None:
        self._graph, runs, acknowledged, jobs, mended = evidence
        self._nodes = self._graph.nodes
        self._runs = runs
        self._jobs = _by_node(jobs)
        self._by_id = {job.id: job for job in jobs}
        self._copies = {one.portion: one.copy for one in acknowledged}
        self._flows = {one.flow: one for one in acknowledged}
        self._batches = {
            one.portion: self._by_id[one.flow]
            for one in acknowledged
            if one.portion in one.ids and one.flow in self._by_id
        }
        first = states_of(self._graph)
        self._states = mended_states(self._graph, first) if mended else first
        self._mended = mended
        self._portion_of = {
            node.key: one for one in self._graph.portions for node in one.all_nodes
        }
        self._starts, self._ends = _lines(runs)

    def breaches(self) -> list[Breach]:
        return [*self._twice(), *self._lost(), *self.misplaced(), *self._broken()]

    # -- states ----------------------------------------------------------------

    def misplaced(self) -> Iterator[Breach]:
        """Yield the jobs that are not in the state that the graph requires."""
        for (key, copy), [job, *_] in self._jobs.items():
            allowed = self._allowed(key, copy)
            if job.state.value not in allowed:
                wanted = " or ".join(sorted(allowed))
                yield Breach(
                    "state", f"{_name(job, key, copy)} is {job.state}, not {wanted}"
                )
        for job in self._by_id.values():
            yield from self._own_job(job)

    def _own_job(self, job: Job) -> Iterator[Breach]:
        """Check a job that Kue itself added: it must have ended."""
        if job.type.startswith("kue.") and not job.state.is_final:
            yield Breach("state", f"job {job.id} of type {job.type} is {job.state}")
        flow = self._flows.get(job.id)
        if job.type == BATCH and flow and job.state != self._states[flow.portion]:
            wanted = self._states[flow.portion]
            yield Breach("state", f"batch {job.id} is {job.state}, not {wanted}")

    def _allowed(self, key: str, copy: int) -> set[str]:
        node_key, _, child = key.partition("/")
        portion = self._portion_of[node_key]
        if self._is_abandoned(portion, copy):
            return self._abandoned(portion, key)
        state = "complete" if child else self._states[key]
        is_failing = portion.has_failure and not portion.allow_failures
        if portion.way == "batch" and is_failing and not self._mended:
            # The first failure cancels those that have not started.
            is_callback = key in {one.key for one in portion.callbacks.values()}
            return {state} if is_callback else {state, "cancelled"}
        return {state}

    def _abandoned(self, portion: Portion, key: str) -> set[str]:
        """Return how a job may end whose flow was never added as a whole."""
        if key.partition("/")[0] in _unguarded(portion):
            return {"complete", "failed", "cancelled", "blocked"}
        if portion.way != "batch":
            return {"cancelled"}
        # Its first jobs run while others are added; what follows success waits.
        if key == portion.callbacks["then"].key:
            return {"blocked"}
        return {"complete", "failed", "cancelled"}

    def _is_abandoned(self, portion: Portion, copy: int) -> bool:
        if self._copies.get(portion.key) == copy:
            return False
        for node in portion.all_nodes:
            for job in self._jobs.get((node.key, copy), ()):
                for parent in self._gates(job):
                    return parent.state is State.CANCELLED
        return portion.way != "single" and any(
            (node.key, copy) not in self._jobs for node in portion.all_nodes
        )

    def _gates(self, job: Job) -> Iterator[Job]:
        """Yield the gate that a job, or a batch that it waits for, waited for."""
        for at in job.spec.after:
            parent = self._by_id.get(at)
            if parent is not None and parent.type == GATE:
                yield parent
            elif parent is not None and parent.type.startswith("kue."):
                yield from self._gates(parent)

    # -- existence -------------------------------------------------------------

    def _twice(self) -> Iterator[Breach]:
        for (key, copy), jobs in self._jobs.items():
            if len(jobs) > 1:
                ids = ", ".join(str(job.id) for job in jobs)
                yield Breach("twice", f"{key}, copy {copy}, is jobs {ids}")
            for job in jobs:
                ends = [one for one in job.history if one.outcome == "complete"]
                if len(ends) > 1:
                    yield Breach("twice", f"{_name(job, key, copy)} completed twice")

    def _lost(self) -> Iterator[Breach]:
        """Yield what was acknowledged, or added by a job that ended, and is gone."""
        for portion in self._graph.portions:
            copy = self._copies.get(portion.key)
            if copy is None:
                yield Breach("lost", f"portion {portion.key} was never added")
                continue
            # The first failure may end a batch: no more is added then.
            may_fail = portion.way == "batch" and not portion.allow_failures
            is_cut_short = portion.has_failure and may_fail
            for node in portion.all_nodes:
                if (node.key, copy) not in self._jobs:
                    yield Breach("lost", f"{node.key}, copy {copy}, has no job")
                elif not is_cut_short:
                    yield from self._lost_children(node, copy)

    def _lost_children(self, node: Node, copy: int) -> Iterator[Breach]:
        if self._jobs[node.key, copy][0].state is not State.COMPLETE:
            return
        for key in node.child_keys:
            if (key, copy) not in self._jobs:
                yield Breach("lost", f"{key}, copy {copy}, was not added by its parent")

    # -- edges -----------------------------------------------------------------

    def _broken(self) -> Iterator[Breach]:
        """Yield the edges that were not respected, by the order of the journal."""
        for (key, copy), started in self._starts.items():
            if self._must_not_run(key.partition("/")[0], copy):
                yield Breach("ran", f"{key}, copy {copy}, of a flow not added whole")
            node = self._nodes.get(key)
            if node is None or (key, copy) not in self._jobs:
                continue
            yield from self._early(node, copy, started)
            yield from self._wrong_inputs(node, copy)

    def _must_not_run(self, key: str, copy: int) -> bool:
        portion = self._portion_of[key]
        if portion.way == "batch" or key in _unguarded(portion):
            return False
        return self._is_abandoned(portion, copy)

    def _early(self, node: Node, copy: int, started: int) -> Iterator[Breach]:
        parents = list(self._parents(node, copy))
        late = [one for one in parents if not self._ended(node, one, started)]
        if node.policy == "only":
            # One of them is enough.
            late = late if len(late) == len(node.parents) else []
        for parent in late:
            [job, *_] = self._jobs[node.key, copy]
            name = _name(job, node.key, copy)
            yield Breach("edge", f"{name} started before job {parent.id} had ended")

    def _parents(self, node: Node, copy: int) -> Iterator[Job]:
        for key in node.parents:
            if key in self._batches:
                yield self._batches[key]
                continue
            yield from self._jobs.get(self._copied(key, node, copy), ())[:1]
            parent = self._nodes[key]
            if parent.holds_next and self._same(key, node) and node.policy != "only":
                for child in parent.child_keys:
                    yield from self._jobs.get((child, copy), ())[:1]

    def _same(self, key: str, node: Node) -> bool:
        return self._portion_of[key] is self._portion_of[node.key]

    def _copied(self, key: str, node: Node, copy: int) -> Copied:
        if self._same(key, node):
            return key, copy
        return key, self._copies[self._portion_of[key].key]

    def _ended(self, node: Node, parent: Job, started: int) -> bool:
        """Return whether *parent* ended, as *node* needs it, before that line."""
        outcomes = _NEEDED[node.policy]
        found = [one for one in parent.history if one.outcome in outcomes]
        return any(self._is_before(parent.id, one, started) for one in found)

    def _is_before(self, job_id: int, end: Attempt, started: int) -> bool:
        at = self._ends.get((job_id, end.token))
        if at is not None:
            return at < started
        # A job that never ran has no line; the clock of the store has to do.
        return end.at <= Run.read(self._runs[started].run).started_at

    # -- results ---------------------------------------------------------------

    def _wrong_inputs(self, node: Node, copy: int) -> Iterator[Breach]:
        runs = [one for one in self._runs if (one.node, one.copy) == (node.key, copy)]
        for ran in runs:
            if ran.what != "start":
                continue
            wanted = self._inputs(node, copy)
            if wanted is not None and _flat(ran.inputs) not in wanted:
                yield Breach(
                    "inputs",
                    f"{node.key}, job {ran.job}, was called with {ran.inputs!r}, "
                    f"not {wanted[0]!r}",
                )

    def _inputs(self, node: Node, copy: int) -> list[list[Any]] | None:
        """Return what a job may be called with; None if anything."""
        portion = self._portion_of[node.key]
        if node.key.endswith(".catch"):
            failed = {
                job.id
                for one in portion.nodes
                for job in self._jobs.get((one.key, copy), ())
                if any(end.outcome == "failed" for end in job.history)
            }
            return [[at] for at in sorted(failed)] or [[None]]
        if portion.way == "batch":
            if node.key in {one.key for one in portion.callbacks.values()}:
                members = [
                    job.flow
                    for one in portion.nodes
                    for job in self._jobs.get((one.key, copy), ())
                ]
                return [[at] for at in sorted(set(filter(None, members)))]
            return None
        return [
            [
                job.result
                for key in node.inputs
                for job in self._jobs.get(self._copied(key, node, copy), ())
            ]
        ]


def _unguarded(portion: Portion) -> set[str]:
    """
    Return the jobs that may run although their flow was not added as a whole.

    One with "only" runs as soon as an earlier job fails, and others may follow it.
    """
    own = {node.key for node in portion.nodes}
    found: set[str] = set()
    for node in portion.nodes:
        is_released = node.policy == "only" and not own.issuperset(node.parents)
        if is_released or found.intersection(node.parents):
            found.add(node.key)
    return found


def _by_node(jobs: Iterable[Job]) -> dict[Copied, list[Job]]:
    found: dict[Copied, list[Job]] = defaultdict(list)
    for job in jobs:
        data = job.data
        if isinstance(data, dict) and "node" in data:
            found[str(data["node"]), int(str(data["copy"]))].append(job)
    return found


def _lines(runs: Sequence[Ran]) -> tuple[dict[Copied, int], Ends]:
    """Return the first start of each job, and the end of each run, as line numbers."""
    starts: dict[Copied, int] = {}
    ends: Ends = {}
    for number, ran in enumerate(runs):
        if ran.what == "start":
            starts.setdefault((ran.node, ran.copy), number)
        else:
            ends[ran.job, ran.run] = number
    return starts, ends


def _flat(value: Any) -> list[Any]:
    if isinstance(value, list):
        return [one for part in value for one in _flat(part)]
    return [] if value is None else [value]


def _name(job: Job, key: str, copy: int) -> str:
    return f"job {job.id} ({key}, copy {copy})"
