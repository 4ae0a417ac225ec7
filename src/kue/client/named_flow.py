"""Flows by name: each job names those that it waits for, and whose results it takes."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from kue.client.flow_enqueue import add_linked
from kue.client.new_job import NewJob, invalid_option
from kue.model.errors import BadPayload
from kue.model.job import MAX_PARENTS, OnParentFailure
from kue.model.names import Name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kue.client.connection import Connection
    from kue.client.queue import Kue
    from kue.model.job import Draft
    from kue.store.values import Added

#: The most jobs that are added at once.
MAX_STEPS = 1_000
Names = Annotated[list[Name], Meta(max_length=MAX_PARENTS)]


class NewStep(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A job of a flow."""

    #: What other steps call it.
    name: Name
    job: NewJob
    #: The steps that must end before it.
    after: Names = []
    #: Arguments that are results of steps: by argument, one step or a list of them.
    #: The data must be an object.
    inputs: dict[str, Name | Names] = {}


class NewFlow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A flow to add; the order of its steps does not matter."""

    steps: Annotated[list[NewStep], Meta(min_length=1, max_length=MAX_STEPS)]
    #: What happens to steps after a failed one that have no rule of their own.
    on_parent_failure: OnParentFailure = "block"


class InvalidStep(ValueError):
    """Something in a step of a flow makes no sense."""

    def __init__(self, step: str, field: str, problem: str) -> None:
        super().__init__(problem)
        self.step = step
        #: Where in the document, such as ``steps[1].job.attempts``.
        self.field = field


class FlowStep(NamedTuple):
    """A job of a flow."""

    draft: Draft
    #: The names of the steps that it waits for.
    after: Sequence[str] = ()
    #: By argument, the step whose result it is, or a list of such.
    inputs: Mapping[str, str | Sequence[str]] = {}

    @property
    def taken(self) -> list[str]:
        """The names of the steps whose results are its arguments."""
        return [
            name
            for names in self.inputs.values()
            for name in ([names] if isinstance(names, str) else names)
        ]

    @property
    def parents(self) -> list[str]:
        """The names of all steps that it waits for."""
        return list(dict.fromkeys((*self.after, *self.taken)))


def steps_of(q: Kue, flow: NewFlow) -> dict[str, FlowStep]:
    """
    Return the steps of *flow* by name, all options checked.

    Raises:
        InvalidStep: One makes no sense, or two have one name.
    """
    steps: dict[str, FlowStep] = {}
    for number, step in enumerate(flow.steps):
        location = f"steps[{number}]"
        if step.name in steps:
            problem = f"two steps are named {step.name!r}"
            raise InvalidStep(step.name, f"{location}.name", problem)
        steps[step.name] = _step(q, step, f"{location}.job")
    return steps


def _step(q: Kue, step: NewStep, location: str) -> FlowStep:
    job, options = step.job, step.job.options
    if step.inputs and not isinstance(job.data, dict | None):
        problem = "inputs need data that is an object"
        raise InvalidStep(step.name, f"{location}.data", problem)
    try:
        draft = q.draft(job.type, job.data, **options)
    except BadPayload as exc:
        raise InvalidStep(step.name, f"{location}.{exc.field}", str(exc)) from exc
    except (ValueError, TypeError) as exc:
        field, why = invalid_option(q, job.type, options)
        raise InvalidStep(step.name, f"{location}.{field}", why) from exc
    if draft.on_conflict != "existing":
        problem = "a job of a flow cannot replace or reject another"
        raise InvalidStep(step.name, location, problem)
    return FlowStep(draft, step.after, step.inputs)


async def add_steps(
    connection: Connection,
    steps: Mapping[str, FlowStep],
    *,
    on_parent_failure: OnParentFailure = "block",
) -> tuple[int, dict[str, Added]]:
    """
    Add a flow of *steps*; return its id, and what was added by name.

    Raises:
        ValueError: A step waits for one that is not there, or for itself, or takes a
            result that is not kept.
        What `Kue.enqueue` raises.
    """
    order = _ordered(steps)
    numbers = {name: number for number, name in enumerate(order, 1)}
    drafts = [_linked(steps[name], numbers, on_parent_failure) for name in order]
    added = await add_linked(await connection.home_of_flow(), drafts)
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
        for parent in step.taken:
            if steps[parent].draft.spec.remove_on_complete:
                raise ValueError(
                    f"{parent} has remove_on_complete, and so leaves no result for "
                    f"{name}; keep the job, or wait for it without its result (after)"
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
    return replace(
        draft, flow=-1, spec=replace(spec, after=after, inputs=inputs or None)
    )
