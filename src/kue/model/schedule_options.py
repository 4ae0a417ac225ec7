"""Options of a schedule: every one is checked and normalised, before any I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict, Unpack, get_args

import msgspec
from msgspec.structs import replace

from kue.model.cron import check_cron, zone_of
from kue.model.draft import check_options
from kue.model.duration import Duration, epoch_ms, milliseconds
from kue.model.job import MAX_TAGS
from kue.model.names import check_name, check_path_name
from kue.model.payload import encode
from kue.model.schedule import Missed, Overlap, Schedule, tag_of

if TYPE_CHECKING:
    from datetime import datetime

    from kue.model.job import Draft

#: Shorter intervals are a busy loop, not a schedule.
MIN_EVERY_MS = 100
#: Bytes of a job's data: all schedules are read together.
MAX_SCHEDULE_DATA = 16 * 1024
#: What decides when a schedule is due.
_TIMING = ("every", "cron", "tz", "starts_at", "ends_at")

_decode = msgspec.json.Decoder(Schedule).decode


class DeclaredOptions(TypedDict, total=False):
    """Options of a schedule that recurs."""

    tz: str
    start: datetime | None
    end: datetime | None
    jitter: Duration
    missed: Missed
    overlap: Overlap


class ScheduleOptions(DeclaredOptions, total=False):
    """Options of any schedule: exactly one of *every*, *cron* and *at* is given."""

    every: Duration | None
    cron: str | None
    at: datetime | None


_OPTIONS = frozenset(
    {*DeclaredOptions.__annotations__, *ScheduleOptions.__annotations__}
)


def schedule_of(
    name: str,
    draft: Draft,
    *,
    now: int,
    stored: Schedule | None = None,
    declared_by: str = "",
    **options: Unpack[ScheduleOptions],
) -> Schedule:
    """
    Return a valid schedule.

    One that changes a *stored* one keeps its pause and its ticks; and its next tick, if
    it is due at the same times.

    Raises:
        ValueError, TypeError: An option makes no sense; the message names it.
        BadPayload: The data of its jobs is too large.
    """
    check_options(options, _OPTIONS, what="a schedule")
    check_path_name(name, what="schedule name")
    check_name(tag_of(name), what="tag of the schedule")
    _check_draft(draft)
    wanted = Schedule(
        name=name,
        draft=draft,
        declared_by=declared_by,
        missed=_one_of("missed", options.get("missed", "once"), Missed),
        overlap=_one_of("overlap", options.get("overlap", "allow"), Overlap),
        **_timing(options, now, stored),
    )
    return _placed(_decode(msgspec.json.encode(wanted)), now, stored)


def _placed(wanted: Schedule, now: int, stored: Schedule | None) -> Schedule:
    """Return a schedule with its next tick, and what it keeps of the *stored* one."""
    if stored is not None and all(
        getattr(wanted, name) == getattr(stored, name) for name in _TIMING
    ):
        due_at = stored.due_at
    elif wanted.is_one_off:
        # Also one in the past is due: it fires at once.
        due_at = wanted.starts_at
    else:
        due_at = wanted.tick_after(now)
    wanted = replace(wanted, due_at=due_at)
    if stored is not None:
        wanted = replace(wanted, paused=stored.paused, ticks=stored.ticks)
    return wanted


def _timing(
    options: ScheduleOptions, now: int, stored: Schedule | None
) -> dict[str, Any]:
    every, cron, at = (options.get(name) for name in ("every", "cron", "at"))
    if sum(value is not None for value in (every, cron, at)) != 1:
        raise ValueError("a schedule needs one of every, cron and at")
    start, end = _moment(options, "start"), _moment(options, "end")
    if start is not None and end is not None and end < start:
        raise ValueError("end must not be before start")
    tz = options.get("tz", "UTC")
    zone_of(tz)
    timing: dict[str, Any] = {"tz": tz, "starts_at": start, "ends_at": end}
    timing["jitter"] = milliseconds(options.get("jitter", 0), field="jitter")
    if options.get("every") is not None:
        timing |= _interval(options, timing, now, stored)
    elif options.get("cron") is not None:
        timing["cron"] = check_cron(str(cron), tz, now=max(now, start or 0))
    else:
        timing |= _one_off(options)
    return timing


def _interval(
    options: ScheduleOptions,
    timing: dict[str, Any],
    now: int,
    stored: Schedule | None,
) -> dict[str, Any]:
    """Return when a schedule by interval is due: in step with the *stored* one."""
    given = options["every"]
    every = milliseconds(given or 0, field="every")
    if every < MIN_EVERY_MS:
        raise ValueError(f"every must be at least {MIN_EVERY_MS} ms, not {given}")
    if timing["jitter"] >= every:
        raise ValueError("jitter must be shorter than the interval, every")
    first = timing["starts_at"]
    if first is None:
        is_same = stored is not None and stored.every == every
        first = stored.starts_at if stored and is_same else now + every
    return {"every": every, "starts_at": first}


def _one_off(options: ScheduleOptions) -> dict[str, Any]:
    for name in ("start", "end"):
        if options.get(name) is not None:
            raise ValueError(f"{name} goes with every or cron, not with at")
    return {"starts_at": _moment(options, "at")}


def _moment(options: ScheduleOptions, name: str) -> int | None:
    value: Any = options.get(name)
    return None if value is None else epoch_ms(value, field=name)


def _one_of(name: str, value: str, choices: Any) -> Any:
    if value not in get_args(choices):
        words = ", ".join(repr(choice) for choice in get_args(choices))
        raise ValueError(f"{name} is one of {words}, not {value!r}")
    return value


def _check_draft(draft: Draft) -> None:
    spec = draft.spec
    if draft.at is not None or spec.after or spec.parent or spec.address_id:
        raise ValueError(
            "a job of a schedule has no time, parents or address of its own; "
            "leave out at, after, parent and address_id"
        )
    if spec.retry_until is not None:
        raise ValueError(
            "retry_until of a job of a schedule is a duration, not a moment: it "
            "counts from when each job is added"
        )
    if len(spec.tags) >= MAX_TAGS:
        raise ValueError(
            f"a job of a schedule has at most {MAX_TAGS - 1} tags; one is added"
        )
    encode(spec.data, field="data", limit=MAX_SCHEDULE_DATA)
