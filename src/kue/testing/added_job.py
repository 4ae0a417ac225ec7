"""A job that was added while the queue is faked, and what is expected of one."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kue.client.flow import Signature
from kue.client.task import Task, TaskCalls
from kue.model.draft import draft as make_draft
from kue.model.duration import words
from kue.model.errors import BadPayload
from kue.model.payload import JSON, decode, encode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import TypeAlias

    from kue.model.job import Draft

    #: A task, a call of one, or the type of jobs.
    Call: TypeAlias = str | TaskCalls[..., Any] | Signature[Any]

#: Where drafts keep options that they have under another name.
_FIELDS: dict[str, tuple[str, ...]] = {
    "queue": ("type",),
    "delay": ("spec.delay", "at"),
    "attempts": ("spec.max_attempts",),
    "retry_until": ("spec.retry_for", "spec.retry_until"),
    "delivery": ("once",),
    "events": ("spec.quiet",),
    "throttle": ("unique_for", "unique_at_most"),
}
#: Shown with every job that has them.
_SHOWN = ("queue", "priority", "delay", "expires", "unique", "group", "tags", "parent")
_DURATIONS = frozenset(
    {
        *("timeout", "soft_timeout", "ttl", "expires", "debounce", "debounce_max"),
        *("unique_for", "unique_at_most"),
    }
)
#: Stands for the key of a job that is unique by its arguments.
_ANY_KEY = "…"


@dataclass(frozen=True, eq=False)
class AddedJob:
    """A job that was added."""

    id: int
    #: As it was added; other jobs are referred to by their ids.
    draft: Draft

    @property
    def name(self) -> str:
        """The name of its task, or its type."""
        return self.draft.name

    @property
    def queue(self) -> str:
        return self.draft.type

    @property
    def data(self) -> JSON:
        """Its data; for a task, the arguments by name."""
        return decode(self.draft.spec.data)

    @property
    def after(self) -> tuple[int, ...]:
        """The ids of the jobs that it waits for."""
        return self.draft.spec.after

    @property
    def call(self) -> str:
        """It as a call: ``send_mail(to='ann@example.com')``."""
        return _call(self.name, self.data)

    def __repr__(self) -> str:
        return f"<AddedJob {self.id} {self}>"

    def __str__(self) -> str:
        plain = make_draft(self.name)
        options = {
            option: _value(self.draft, option)
            for option in _SHOWN
            if _value(self.draft, option) != _value(plain, option)
        }
        return self.call + _with(options, _shown)


def _value(draft: Draft, option: str) -> object:
    """Return what *draft* has for an option."""
    values = [_field(draft, field) for field in _FIELDS.get(option, (option,))]
    return values[0] if len(values) == 1 else tuple(values)


def _field(draft: Draft, field: str) -> object:
    owner: object = draft if hasattr(draft, field) else draft.spec
    return getattr(owner, field.removeprefix("spec."))


def _shown(option: str, value: Any) -> str:
    if option in ("delay", "retry_until"):
        length, moment = value
        return words(length) if moment is None else f"{moment} (Unix ms)"
    return words(value) if option in _DURATIONS else repr(value)


def _call(name: str, data: JSON) -> str:
    if isinstance(data, dict):
        return f"{name}({', '.join(f'{key}={value!r}' for key, value in data.items())})"
    return f"{name}({'' if data is None else repr(data)})"


def _with(options: Mapping[str, object], shown: Callable[[str, Any], str]) -> str:
    texts = [f"{option}={shown(option, value)}" for option, value in options.items()]
    return f" with {', '.join(texts)}" if texts else ""


@dataclass(frozen=True, eq=False)
class ExpectedJob:
    """What a test expects of a job: whatever is not given may be anything."""

    name: str
    arguments: Mapping[str, Any]
    #: What calls leave out.
    defaults: Mapping[str, Any]
    options: Mapping[str, Any]
    #: All of the data, instead of *arguments*.
    data: Any = ...
    where: Callable[[AddedJob], object] | None = None

    @classmethod
    def of(
        cls,
        call: Call,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
        **rest: Any,
    ) -> ExpectedJob:
        """
        Return what is expected if *call* was made with these arguments.

        Raises:
            TypeError, ValueError: That cannot be expected of any job.
        """
        given: dict[str, Any] = dict(kwargs or {})
        if isinstance(call, Signature):
            return cls.of(call.calls, call.args, call.kwargs, options, **rest)
        if isinstance(call, str):
            if args:
                raise TypeError(f"arguments of {call!r} are given by name, or as data=")
            made = cls(call, given, {}, options or {}, **rest)
        else:
            if not isinstance(call, TaskCalls):
                raise TypeError(f"{call!r} is not a task, a call of one, or a type")
            # Options of the task itself are those of every call.
            own = {} if isinstance(call, Task) else call._options
            bound = call._arguments.bind_some(args, given)
            every = {**own, **(options or {})}
            made = cls(call.name, bound, call._arguments.defaults, every, **rest)
        made._expected()
        return made

    def __str__(self) -> str:
        if self.data is not ...:
            shown = _call(self.name, self.data)
        elif self.arguments:
            shown = _call(self.name, dict(self.arguments))
        else:
            shown = self.name
        return shown + _with(self.options, lambda _, value: repr(value))

    def is_met(self, job: AddedJob) -> bool:
        return job.name == self.name and not any(self.differences(job))

    def differences(self, job: AddedJob) -> Iterator[str]:
        """Yield how a job of the same name differs."""
        if self.data is not ... and not _same(self.data, job.data):
            yield f"data is not {self.data!r}"
        found = job.data if isinstance(job.data, dict) else {}
        for name, value in self.arguments.items():
            actual = found.get(name, self.defaults.get(name, ...))
            if not _same(value, actual):
                known = "missing" if actual is ... else repr(actual)
                yield f"{name} is {known}, not {value!r}"
        yield from self._option_differences(job)
        if self.where is not None and not self.where(job):
            yield "where= is false"

    def _option_differences(self, job: AddedJob) -> Iterator[str]:
        expected = self._expected()
        for option, given in self.options.items():
            actual = _value(job.draft, option)
            if option == "unique" and given is True:
                is_same = actual is not None
            else:
                is_same = actual == _value(expected, option)
            if not is_same:
                yield f"{option} is {_shown(option, actual)}, not {given!r}"

    def _expected(self) -> Draft:
        options = dict(self.options)
        if options.get("unique") is True:
            options["unique"] = _ANY_KEY
        # Rules of a key make no sense without one, but may be all that is expected.
        if any(name.startswith(_OF_KEYS) for name in options):
            options.setdefault("unique", _ANY_KEY)
        return make_draft(self.name, None, **options)


_OF_KEYS = ("unique_", "throttle", "debounce", "on_conflict")


def _same(expected: Any, actual: object) -> bool:
    """Compare as JSON; with what has none, such as `unittest.mock.ANY`, as it is."""
    with suppress(BadPayload):
        expected = decode(encode(expected))
    return bool(expected == actual)
