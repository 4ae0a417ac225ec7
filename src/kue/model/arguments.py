"""
Arguments of a task as JSON: bound from a call, converted for the handler.

A task's data is an object with one member per parameter.  A call is bound to the
signature, so that a missing argument is an error where it was forgotten.  Before the
run each value is converted to the type of its annotation.
"""

from __future__ import annotations

import inspect
import typing
from inspect import Parameter
from typing import TYPE_CHECKING, Any

import msgspec

from kue.model.errors import BadArguments

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kue.model.payload import JSON


class Arguments:
    """
    The parameters of one function.

    A parameter annotated with *job_type* (or with it or None), or a first one named
    ``job`` without an annotation, gets the job itself instead of data.

    Raises:
        TypeError: A parameter cannot be made from JSON, or not be passed by name.
    """

    def __init__(self, function: Callable[..., Any], job_type: type) -> None:
        self._name = getattr(function, "__name__", repr(function))
        hints = _hints(function)
        signature = inspect.signature(function)
        parameters = list(signature.parameters.values())
        #: The parameter that gets the job; None when there is none.
        self.job = _job_parameter(parameters, hints, job_type)
        kept = [item for item in parameters if item.name != self.job]
        self._signature = signature.replace(parameters=kept)
        #: The parameter that takes all other names (``**kwargs``).
        self._others = [
            item.name for item in kept if item.kind is Parameter.VAR_KEYWORD
        ]
        self._types = {item.name: self._type(item, hints) for item in kept}
        #: The values of parameters that a call leaves out.
        self.defaults = {
            item.name: item.default
            for item in kept
            if item.default is not Parameter.empty
        }
        self._known = self._types.keys() - set(self._others)
        self._needed = self._known - self.defaults.keys()
        #: What the function is annotated to return.
        self.returns = hints.get("return", Any)

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """
        Return a call as data.

        Raises:
            TypeError: The function cannot be called like that.
        """
        if not args and self._needed <= kwargs.keys() <= self._known:
            return kwargs
        try:
            bound = self._signature.bind(*args, **kwargs).arguments
        except TypeError as exc:
            raise TypeError(f"{self._name}(): {exc}") from None
        return self._data(bound)

    def bind_some(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> dict[str, Any]:
        """
        Return a part of a call as data.

        Raises:
            TypeError: The function has no such parameters.
        """
        try:
            return self._data(self._signature.bind_partial(*args, **kwargs).arguments)
        except TypeError as exc:
            raise TypeError(f"{self._name}(): {exc}") from None

    def _data(self, bound: dict[str, Any]) -> dict[str, Any]:
        """Return bound arguments as data; those of ``**kwargs`` are members, too."""
        others: dict[str, Any] = {}
        for name in self._others:
            others = bound.pop(name, others)
        return bound | others

    def bind_after_result(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[str, dict[str, Any]]:
        """
        Return the parameter that gets a result, and the rest of a call as data.

        It is the first parameter that *kwargs* do not name; *args* are for the next.

        Raises:
            TypeError: The function cannot be called like that.
        """
        left = [name for name in self._types if name in self._known - kwargs.keys()]
        if not left:
            raise TypeError(
                f"{self._name}(): no parameter is left for the result of the job "
                "before it; use .si(…) to pass none"
            )
        rest = [
            item for item in self._signature.parameters.values() if item.name != left[0]
        ]
        try:
            bound = self._signature.replace(parameters=rest).bind(*args, **kwargs)
        except TypeError as exc:
            raise TypeError(
                f"{self._name}(): {exc}; {left[0]} is the result of the job before it, "
                "and .si(…) passes none"
            ) from None
        return left[0], self._data(bound.arguments)

    def check_path(self, path: str | None, what: str) -> None:
        """Raise `ValueError` if *path* does not begin with the name of a parameter."""
        first = "" if path is None else path.partition(".")[0]
        if first and first not in self._known and not self._others:
            known = ", ".join(sorted(self._known)) or "none"
            raise ValueError(
                f"{what} is by {path!r}, which {self._name} has no parameter for; "
                f"there are: {known}"
            )

    def read(self, data: JSON, job: object) -> dict[str, Any]:
        """
        Return the keyword arguments to call the function with.

        Raises:
            BadArguments: *data* does not fit; the message names the parameter.
        """
        given: JSON = {} if data is None else data
        if not isinstance(given, dict):
            raise BadArguments(
                f"{self._name} takes an object of arguments, but the data is a "
                f"{type(given).__name__}"
            )
        self._check_names(given.keys())
        call = {name: self._convert(name, value) for name, value in given.items()}
        if self.job is not None:
            call[self.job] = job
        return call

    def _check_names(self, given: Iterable[str]) -> None:
        missing = sorted(self._needed - set(given))
        if missing:
            raise BadArguments(f"{self._name} needs the argument {missing[0]}")
        unknown = sorted(set(given) - self._known)
        if unknown and not self._others:
            known = ", ".join(self._types) or "none"
            raise BadArguments(
                f"{self._name} has no parameter {unknown[0]}; there are: {known}"
            )

    def _convert(self, name: str, value: JSON) -> Any:
        kind = self._types[name if name in self._known else self._others[0]]
        if kind is Any:
            return value
        try:
            return msgspec.convert(value, kind)
        except msgspec.ValidationError as exc:
            raise BadArguments(f"argument {name} of {self._name}: {exc}") from None

    def _type(self, parameter: Parameter, hints: dict[str, Any]) -> Any:
        name, kind = parameter.name, hints.get(parameter.name, Any)
        if parameter.kind in (Parameter.POSITIONAL_ONLY, Parameter.VAR_POSITIONAL):
            raise TypeError(
                f"parameter {name} of {self._name} cannot be passed by name; "
                "write it without / and *"
            )
        try:
            info = msgspec.inspect.type_info(kind)
        except Exception as exc:
            raise TypeError(f"parameter {name} of {self._name}: {exc}") from exc
        if isinstance(info, msgspec.inspect.CustomType):
            raise TypeError(
                f"parameter {name} of {self._name} is a {kind!r}, which cannot be made "
                "from JSON; use a dataclass, a msgspec struct or plain values"
            )
        return kind


def result_reader(returns: Any) -> Callable[[JSON], Any] | None:
    """Return what converts a result from JSON; None when no conversion is needed."""
    if returns in (Any, None, type(None)):
        return None
    try:
        info = msgspec.inspect.type_info(returns)
    except Exception:
        # It could be written, so it is read as plain JSON.
        return None
    if isinstance(info, msgspec.inspect.CustomType):
        return None
    # A job that was skipped has no result, whatever the function returns.
    return lambda value: None if value is None else msgspec.convert(value, returns)


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function, include_extras=True)
    except NameError as exc:
        raise TypeError(
            f"an annotation of {function!r} cannot be read: {exc}; names that "
            "annotations use must exist when the task is defined"
        ) from exc
    except TypeError:
        # A callable object: its annotations are those of its __call__.
        return typing.get_type_hints(type(function).__call__, include_extras=True)


def _job_parameter(
    parameters: list[Parameter], hints: dict[str, Any], job_type: type
) -> str | None:
    for position, parameter in enumerate(parameters):
        hint = hints.get(parameter.name)
        if hint is None and position == 0 and parameter.name == "job":
            return "job"
        if job_type in (hint, *typing.get_args(hint)):
            return parameter.name
    return None
