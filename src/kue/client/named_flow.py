"""Flows by name: each job names those that it waits for, and whose results it takes."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from kue.client.flow_enqueue import add_linked

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kue.client.connection import Connection
    from kue.model.job import Draft, OnParentFailure
    from kue.store.values import Added


class FlowStep(NamedTuple):
    """A job of a flow."""

    draft: Draft
    #: The names of the steps that it waits for.
    after: Sequence[str] = ()
    #: By argument, the step whose result it is, or a list of such.
    inputs: Mapping[str, str | Sequence[str]] = {}

    @property
    def parents(self) -> list[str]:
        """The names of all steps that it waits for."""
        taken = [
            name
            for names in self.inputs.values()
            for name in ([names] if isinstance(names, str) else names)
        ]
        return list(dict.fromkeys((*self.after, *taken)))


async def add_steps(
    connection: Connection,
    steps: Mapping[str, FlowStep],
    *,
    on_parent_failure: OnParentFailure = "block",
) -> tuple[int, dict[str, Added]]:
    """
    Add a flow of *steps*; return its id, and what was added by name.

    Raises:
        ValueError: A step waits for one that is not there, or for itself.
        What `Kue.enqueue` raises.
    """
    order = _ordered(steps)
    numbers = {name: number for number, name in enumerate(order, 1)}
    drafts = [_linked(steps[name], numbers, on_parent_failure) for name in order]
    added = await add_linked(connection, drafts)
    answers = dict(zip(order, added, strict=True))
    return added[0].id, {name: answers[name] for name in steps}


def _ordered(steps: Mapping[str, FlowStep]) -> list[str]:
    """Return the names; each comes after those it waits for."""
    for name, step in steps.items():
        for parent in step.parents:
            if parent not in steps:
                known = ", ".join(list(steps)[:10])
                raise ValueError(
                    f"{name} waits for {parent}, which the flow does not have; it has: "
                    f"{known}"
                )
    graph = {name: step.parents for name, step in steps.items()}
    try:
        return list(TopologicalSorter(graph).static_order())
    except CycleError as exc:
        cycle = " → ".join(exc.args[1])
        raise ValueError(f"the jobs of the flow wait for each other: {cycle}") from None


def _linked(
    step: FlowStep, numbers: Mapping[str, int], on_parent_failure: OnParentFailure
) -> Draft:
    draft, spec = step.draft, step.draft.spec
    after = (*spec.after, *(-numbers[name] for name in step.parents))
    places = {name: len(spec.after) + at for at, name in enumerate(step.parents)}
    inputs: dict[str, Any] = {
        argument: places[names]
        if isinstance(names, str)
        else [places[name] for name in names]
        for argument, names in step.inputs.items()
    }
    if step.parents and draft.on_parent_failure == "block":
        draft = replace(draft, on_parent_failure=on_parent_failure)
    return replace(draft, flow=-1, spec=replace(spec, after=after, inputs=inputs))
