"""Every verb that is awaited has a blocking twin with the same parameters."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from kue import JobBuilder, JobHandle, Kue
from kue.client.registration_methods import Registration
from kue.client.sync import SyncJobBuilder, SyncJobHandle, SyncKue

TWINS: tuple[tuple[type, type], ...] = (
    (Kue, SyncKue),
    (JobBuilder, SyncJobBuilder),
    (JobHandle, SyncJobHandle),
)
#: Of the blocking side alone: how others run things on its loop, and hold their jobs.
OWN = frozenset({"call", "held", "is_open"})
AWAITED = ("Coroutine", "Awaitable", "AsyncIterator", "AsyncGenerator", "Future")


def public(kind: type) -> dict[str, Any]:
    """Return what the class and its bases offer by name, as it was written down."""
    return {
        name: inspect.getattr_static(kind, name)
        for name in dir(kind)
        if not name.startswith("_")
    }


#: They say who handles jobs, and neither wait nor do I/O: ordinary code calls them on
#: the queue itself.
NEEDS_NO_TWIN = public(Registration).keys()
CASES = [
    pytest.param(name, ours, theirs, id=f"{theirs.__name__}.{name}")
    for theirs, ours in TWINS
    for name, verb in public(theirs).items()
    if inspect.isfunction(verb) and name not in NEEDS_NO_TWIN
]


@pytest.mark.parametrize(("name", "ours", "theirs"), CASES)
def test_every_verb_has_a_twin_with_the_same_parameters(
    name: str, ours: type, theirs: type
) -> None:
    twin, verb = public(ours).get(name), public(theirs)[name]
    assert twin is not None, f"{ours.__name__} lacks {name}: write it in kue/sync"
    assert parameters(twin) == parameters(verb)


@pytest.mark.parametrize(("name", "ours", "theirs"), CASES)
def test_no_twin_is_awaited(name: str, ours: type, theirs: type) -> None:
    twin = public(ours)[name]

    assert not inspect.iscoroutinefunction(twin)
    assert not inspect.isasyncgenfunction(twin)
    assert not str(inspect.signature(twin).return_annotation).startswith(AWAITED)


@pytest.mark.parametrize(("theirs", "ours"), TWINS)
def test_a_twin_has_nothing_the_other_lacks(theirs: type, ours: type) -> None:
    assert public(ours).keys() - public(theirs).keys() <= OWN


def test_both_can_be_used_as_context_managers() -> None:
    assert hasattr(Kue, "__aenter__")
    assert hasattr(SyncKue, "__enter__")


def parameters(verb: Any) -> list[tuple[str, inspect._ParameterKind, object]]:
    """Return name, kind and default of each parameter."""
    return [
        (parameter.name, parameter.kind, parameter.default)
        for parameter in inspect.signature(verb).parameters.values()
    ]
