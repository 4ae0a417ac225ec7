"""Classes of exceptions that middleware compares errors with."""

from __future__ import annotations

from typing import TypeAlias

from kue.model.errors import STEERING
from kue.store.codec import error_of
from kue.worker.executor import RunEnded
from kue.worker.pools.child_names import class_name

#: One class of exceptions or several, as `isinstance` takes them.
ExceptionKinds: TypeAlias = type[Exception] | tuple[type[Exception], ...]


def as_tuple(kinds: ExceptionKinds) -> tuple[type[Exception], ...]:
    return tuple(kinds) if isinstance(kinds, tuple | list) else (kinds,)


def check_kinds(kinds: tuple[object, ...], name: str) -> None:
    """Raise `TypeError` unless all of *kinds* are classes of errors."""
    for kind in kinds or (None,):
        if not (isinstance(kind, type) and issubclass(kind, Exception)):
            raise TypeError(
                f"{name} takes classes of exceptions, such as ValueError, not {kind!r}"
            )
        if issubclass(kind, STEERING):
            raise TypeError(
                f"{name} is for errors, and {kind.__name__} is how a handler ends "
                "its own run"
            )


def is_one_of(exc: Exception, kinds: tuple[type[Exception], ...]) -> bool:
    """Return whether *exc* is an error of these *kinds*, rather than steering."""
    if isinstance(exc, RunEnded):
        wanted = map(class_name, kinds)
        return not frozenset(exc.raised).isdisjoint(wanted) and not is_steering(exc)
    return isinstance(exc, kinds) and not is_steering(exc)


def is_steering(exc: BaseException) -> bool:
    """Return whether a handler raised *exc* to decide how its run ends."""
    if isinstance(exc, RunEnded):
        return not frozenset(exc.raised).isdisjoint(map(class_name, STEERING))
    return isinstance(exc, STEERING)


def summary(exc: Exception) -> str:
    """Return kind and message of *exc*, as one text."""
    return str(exc) if isinstance(exc, RunEnded) else error_of(exc).summary
