r"""
Record of the steps of a job: fields and values, the same in both engines.

Times are in Unix ms, names are quoted, and *n* numbers steps, sleeps and waits as they
came, and signals, too::

    step:<name>        n ⇥ at ⇥ duration ⇥ result
    sleep:<name>       n ⇥ at ⇥ until
    wait:<k>:<signal>  n ⇥ at ⇥ until, then once it ended ⇥ ended at ⇥ which signal
                       it received (empty: it timed out)
    signal:<k>:<name>  n ⇥ at ⇥ data
    signals:<name>     sent:received:wait, the last being the k of a wait that is open
    id:<id>            the k of the signal with that id
    steps, sent        the last n of steps, and that of signals
    last               the field of the last step, sleep or wait
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from kue.model.errors import StoreCorrupt
from kue.model.names import check_name, quote, unquote
from kue.model.steps import JobSteps, Signal, Step, until_of

if TYPE_CHECKING:
    from collections.abc import Iterable

_N = r"(\d{1,15})"
_FORMS = {
    "step": (r"()([^:]+)", rf"{_N}\t{_N}\t{_N}\t(.*)"),
    "sleep": (r"()([^:]+)", rf"{_N}\t{_N}\t{_N}"),
    "wait": (rf"{_N}:([^:]+)", rf"{_N}\t{_N}\t{_N}(?:\t{_N}\t(\d{{0,15}}))?"),
    "signal": (rf"{_N}:([^:]+)", rf"{_N}\t{_N}\t(.*)"),
    "signals": (r"()([^:]+)", rf"{_N}:{_N}:{_N}"),
    "id": (r"()([0-9a-f]{1,40})", _N),
    "steps": (r"()()", _N),
    "sent": (r"()()", _N),
    "last": (r"()()", r"(step:[^:]+|sleep:[^:]+|wait:\d{1,15}:[^:]+)"),
}
_PATTERNS = {
    kind: (re.compile(field), re.compile(value, re.DOTALL))
    for kind, (field, value) in _FORMS.items()
}
_Match = re.Match[str]


def field_of(kind: str, name: str, number: int = 0) -> str:
    """Return the field of a step, sleep, wait or signal."""
    return f"{kind}:{number}:{quote(name)}" if number else f"{kind}:{quote(name)}"


def is_valid(field: str, value: str) -> bool:
    """Return whether an entry of the record is as Kue writes it."""
    try:
        kind, _, _, parts = _parse(field, value)
        if kind in ("step", "signal"):
            msgspec.json.decode(parts[parts.lastindex or 1])
    except (ValueError, RecursionError):
        return False
    return True


def read_step(field: str, value: str, data: str | None = None) -> Step:
    """
    Return a step, sleep or wait; *data* is that of the signal a wait received.

    Raises:
        ValueError: The entry is damaged.
    """
    kind, number, name, parts = _parse(field, value)
    at, third = int(parts[2]), int(parts[3])
    if kind == "step":
        result = msgspec.json.decode(parts[4])
        return Step(kind="step", name=name, at=at, duration=third, result=result)
    until = until_of(at, third)
    if kind == "sleep":
        return Step(kind="sleep", name=name, at=at, until=until)
    return Step(
        kind="wait",
        name=name,
        number=number,
        at=at,
        until=until,
        ended_at=None if parts[4] is None else int(parts[4]),
        timed_out=parts[5] == "",
        result=msgspec.json.decode(data) if data else None,
    )


def read_steps(job_id: int, fields: Iterable[tuple[Any, Any]]) -> JobSteps:
    """
    Return the steps and signals of a record.

    Raises:
        StoreCorrupt: An entry is damaged.  It is not left out: the handler would do
            again what it has done.
    """
    record = {_text(field): _text(value) for field, value in fields}
    try:
        steps = sorted(_steps_in(record), key=lambda pair: pair[0])
        signals = sorted(_signals_in(record), key=lambda pair: pair[0])
    except (ValueError, LookupError, RecursionError) as exc:
        raise StoreCorrupt(
            f"the steps of job {job_id} cannot be read ({exc}); run kue doctor for "
            "details"
        ) from exc
    return JobSteps(
        tuple(step for _, step in steps), tuple(signal for _, signal in signals)
    )


def _steps_in(record: dict[str, str]) -> Iterable[tuple[int, Step]]:
    for field, value in record.items():
        kind, _, name, parts = _parse(field, value)
        if kind not in ("step", "sleep", "wait"):
            continue
        received = parts[5] if kind == "wait" else None
        data = None
        if received:
            data = data_of(record[field_of("signal", name, int(received))])
        yield int(parts[1]), read_step(field, value, data)


def data_of(value: str) -> str:
    """Return the data of a signal."""
    return value.split("\t", 2)[2]


def _signals_in(record: dict[str, str]) -> Iterable[tuple[int, Signal]]:
    for field, value in record.items():
        kind, number, name, parts = _parse(field, value)
        if kind == "signal":
            counts = record.get(field_of("signals", name), "0:0:0").split(":")
            yield (
                int(parts[1]),
                Signal(
                    name=name,
                    data=msgspec.json.decode(parts[3]),
                    id="",
                    at=int(parts[2]),
                    received=number <= int(counts[1]),
                ),
            )


def _parse(field: str, value: str) -> tuple[str, int, str, _Match]:
    """Return kind, number and name of a field, and the parts of its value."""
    kind, _, rest = field.partition(":")
    if kind not in _PATTERNS:
        raise ValueError(f"{field[:60]!r} is not a step")
    is_field, is_value = _PATTERNS[kind]
    named, parts = is_field.fullmatch(rest), is_value.fullmatch(value)
    if named is None or parts is None:
        raise ValueError(f"{field[:60]!r} has {value[:60]!r}")
    number, name = named.groups()
    if name:
        check_name(unquote(name), what="a step")
    return kind, int(number or 0), unquote(name), parts


def _text(given: str | bytes) -> str:
    return given.decode() if isinstance(given, bytes) else given
