"""Validation of the arguments of a store's verbs: `CHECKS`, for both engines."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from kue.model.failure_rule import check_rule
from kue.model.histogram import KNOWN
from kue.model.job import MAX_BEFORE, State
from kue.model.names import check_name, check_path_name
from kue.model.schedule import MAX_SCHEDULES
from kue.store.values import (
    MAX_AGEING_MS,
    MAX_BATCH,
    MAX_ERRORS,
    MAX_KEPT,
    MAX_WEIGHT,
    MAX_WEIGHTS,
    ORDERS,
    WhenFull,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kue.model.failure_rule import FailureRule
    from kue.model.histogram import Timing
    from kue.model.job import Draft
    from kue.model.schedule import Schedule
    from kue.model.steps import Signal
    from kue.model.stream import SentChunks
    from kue.store.values import Limits, MoveRequest


class InvalidCall(ValueError):
    """A verb was called with an invalid value; nothing was sent."""


class IdNotReserved(InvalidCall):
    """A draft has an id that was not reserved, or was used; or the store lost that."""

    def __init__(self, job_id: int) -> None:
        super().__init__(
            f"no job was added: id {job_id} is not reserved, or was used before; "
            "reserve another one"
        )


def check_batch(things: Sequence[Any], what: str) -> None:
    """Raise `InvalidCall` for more than one call may have."""
    if len(things) > MAX_BATCH:
        raise InvalidCall(
            f"one call takes at most {MAX_BATCH} {what}, not {len(things)}; "
            "split them up"
        )


def check_drafts(drafts: Sequence[Draft]) -> bool:
    """
    Raise `InvalidCall` for too many drafts, or an invalid reference in one.

    Returns whether any of them refers to another job, or has a reserved id.
    """
    check_batch(drafts, "drafts")
    # Hot path: mostly there are none, and this is the shortest pass that shows it.
    if not [
        True
        for one in drafts
        if one.spec.after or one.before or one.flow is not None or one.id is not None
    ]:
        return False
    for position, draft in enumerate(drafts):
        _check_references(draft, position)
    return True


def _check_references(draft: Draft, position: int) -> None:
    if len(draft.before) > MAX_BEFORE:
        raise InvalidCall(
            f"a job makes at most {MAX_BEFORE} others wait for it, "
            f"not {len(draft.before)}"
        )
    _check_numbers("after", draft.spec.after, -position)
    _check_numbers("before", draft.before, -position)
    _check_numbers("flow", () if draft.flow is None else (draft.flow,), -position - 1)
    if both := set(draft.spec.after) & set(draft.before):
        raise InvalidCall(f"a job cannot both wait for job {min(both)} and precede it")
    if draft.on_conflict == "replace" and (draft.before or draft.flow is not None):
        raise InvalidCall(
            "on_conflict 'replace' does not go with before and flow: the job that is "
            "replaced keeps its own"
        )


def _check_numbers(what: str, numbers: Sequence[int], lowest: int) -> None:
    for number in numbers:
        if number == 0 or number < lowest:
            raise InvalidCall(
                f"{what} has ids of jobs, or -1 for the first draft of the call and so "
                f"on up to earlier ones, not {number}"
            )


def check_chunks(sent: Sequence[SentChunks]) -> None:
    """Raise `InvalidCall` for more chunks than one call may have."""
    check_batch([value for one in sent for value in one.values], "chunks")


def check_limit(limit: int, *, least: int = 0, most: int = MAX_BATCH) -> None:
    """Raise `InvalidCall` for an invalid number of jobs, or other things."""
    if not least <= limit <= most:
        raise InvalidCall(f"limit must be from {least} to {most}, not {limit}")


def check_move(request: MoveRequest) -> None:
    """Raise `InvalidCall` for a move to a state that jobs cannot be moved to."""
    check_batch(request.job_ids, "jobs")
    to = request.to
    if to not in (State.WAITING, State.DELAYED, State.BLOCKED):
        raise InvalidCall(
            f"jobs can be moved to waiting, delayed or blocked, not to {to}; workers "
            "start and end them, and cancel is a separate verb"
        )
    if to is State.DELAYED and request.at is None:
        raise InvalidCall("moving a job to delayed needs at=, the time it is due")


def check_pause(type: str | None, worker: str | None) -> None:
    """Raise `InvalidCall` for a pause of both a type and a worker."""
    if type is not None and worker is not None:
        raise InvalidCall(
            f"pause a type or a worker, not both ({type!r} and {worker!r}); "
            "call once for each"
        )


def check_order(order: str) -> None:
    """Raise `InvalidCall` for an order that does not exist."""
    if order not in ORDERS:
        raise InvalidCall(
            f"an order for a worker is {' or '.join(ORDERS)}, not {order!r}"
        )


def check_limits(limits: Limits | None) -> None:
    """Raise `InvalidCall` for limits under which no job could start, or no order."""
    if limits is None:
        return
    for name in ("concurrency", "rate", "per", "per_key", "max_waiting", "ageing"):
        value = getattr(limits, name)
        if value is not None and value < 1:
            raise InvalidCall(f"{name} must be at least 1, not {value}; pause instead")
    if limits.ageing is not None and limits.fair:
        raise InvalidCall("a type is either fair or has ageing, not both")
    if limits.ageing is not None and limits.ageing > MAX_AGEING_MS:
        raise InvalidCall(f"ageing must be at most {MAX_AGEING_MS:,} ms for one step")
    has_order = limits.fair or limits.ageing is not None
    if has_order and limits.when_full is WhenFull.DROP_OLDEST:
        raise InvalidCall(
            "when_full 'drop-oldest' does not go with fair or ageing: the first in "
            "line is not the oldest there; use 'refuse' or 'wait'"
        )
    if limits.full_timeout < 0:
        raise InvalidCall(f"full_timeout must not be negative: {limits.full_timeout}")
    _check_weights(limits)


def _check_weights(limits: Limits) -> None:
    if limits.weights and not limits.fair:
        raise InvalidCall("weights are for groups of a fair type; set fair as well")
    if len(limits.weights) > MAX_WEIGHTS:
        raise InvalidCall(
            f"{len(limits.weights)} groups have weights, and a type has at most "
            f"{MAX_WEIGHTS}; groups without one weigh 1"
        )
    for group, weight in limits.weights.items():
        check_name(group, what="group")
        if not 1 <= weight <= MAX_WEIGHT:
            raise InvalidCall(
                f"the weight of group {group!r} must be from 1 to {MAX_WEIGHT}, "
                f"not {weight}"
            )


def check_step(name: str, number: int = 1) -> None:
    """Raise `InvalidCall` for a name that a step or a signal cannot have."""
    try:
        check_name(name, what="the name of a step or a signal")
    except (ValueError, TypeError) as exc:
        raise InvalidCall(str(exc)) from None
    if number < 1:
        raise InvalidCall(f"waits are numbered from 1, not {number}")


def check_signal(signal: Signal) -> None:
    """Raise `InvalidCall` for a signal with an invalid name or id."""
    check_step(signal.name)
    if not re.fullmatch("[0-9a-f]{1,40}", signal.id):
        raise InvalidCall(f"the id of a signal is hexadecimal, not {signal.id[:60]!r}")


def check_named_limit(name: str) -> None:
    """Raise `InvalidCall` for a name that a limit cannot have."""
    try:
        check_path_name(name, what="limit")
    except TypeError as exc:
        raise InvalidCall(str(exc)) from None


def check_timings(timings: Sequence[Timing]) -> None:
    """Raise `InvalidCall` for timings with an unknown bucket or a negative count."""
    check_batch(timings, "types")
    for timing in timings:
        for counts in (timing.waits, timing.runs):
            if not counts.keys() <= KNOWN:
                raise InvalidCall(f"{min(counts.keys() - KNOWN)} is not a bucket")
            if min(counts.values(), default=0) < 0:
                raise InvalidCall("a bucket cannot count less than 0")


def check_kept(room: str, name: str, value: str = "") -> None:
    """Raise `InvalidCall` for an invalid room, name or value of a small record."""
    if not (room.isascii() and room.isalpha() and room.islower() and len(room) <= 40):
        raise InvalidCall(f"a room is one word of lowercase letters, not {room[:50]!r}")
    try:
        check_name(name, what="the name of a record")
    except (ValueError, TypeError) as exc:
        raise InvalidCall(str(exc)) from None
    if len(value.encode()) > MAX_KEPT:
        raise InvalidCall(f"a record has at most {MAX_KEPT:,} bytes")


def read_act_cursor(cursor: str | None) -> int | None:
    """
    Return the number of the last audit log entry seen.

    Raises:
        InvalidCall: It did not come from a page.
    """
    if cursor is None:
        return None
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) <= 15):
        raise InvalidCall(
            f"cursor {cursor[:50]!r} did not come from a page; leave it out to start "
            "over"
        )
    return int(cursor)


def read_cursor(cursor: str | None) -> tuple[int, int] | None:
    """
    Return the sort key and id of the last job seen, from a page's cursor.

    Raises:
        InvalidCall: It did not come from a page.
    """
    if cursor is None:
        return None
    key, _, job_id = cursor.partition(":")
    try:
        return int(key), int(job_id)
    except ValueError:
        raise InvalidCall(
            f"cursor {cursor!r} did not come from a page; leave it out to start over"
        ) from None


def check_schedule(schedule: Schedule, expected: Schedule | None = None) -> None:
    """Raise `InvalidCall` for a change of the type of a schedule's jobs."""
    if expected is None:
        return
    if (schedule.name, schedule.draft.type) != (expected.name, expected.draft.type):
        raise InvalidCall(
            f"schedule {expected.name!r} cannot change its name or the type of its "
            "jobs; delete it first"
        )


def too_many_schedules() -> InvalidCall:
    return InvalidCall(
        f"a store has at most {MAX_SCHEDULES:,} schedules; delete some first"
    )


def check_failure_rule(type: str | None, rule: FailureRule | None) -> None:
    """Raise `InvalidCall` for a rule that makes no sense."""
    try:
        check_rule(type, rule)
    except (ValueError, TypeError) as exc:
        raise InvalidCall(str(exc)) from None


def _check_acts(limit: int = 50, cursor: str | None = None) -> None:
    check_limit(limit)
    read_act_cursor(cursor)


#: What engines call before a verb, by its name, with the arguments of the verb.  Those
#: of the hot path, and verbs whose engines differ, check their arguments themselves.
CHECKS: dict[str, Callable[..., None]] = {
    "reserve": lambda types, **_: check_batch(types, "drafts"),
    "measure": lambda timings, **_: check_timings(timings),
    "progress": lambda updates, **_: check_batch(updates, "updates"),
    "update": lambda changes, **_: check_batch(changes, "changes"),
    "move": lambda request, **_: check_move(request),
    "cancel": lambda job_ids, **_: check_batch(job_ids, "jobs"),
    "remove": lambda request, **_: check_batch(request.job_ids, "jobs"),
    "pause": lambda request, **_: check_pause(request.type, request.worker),
    "resume": lambda type=None, worker=None, **_: check_pause(type, worker),
    "order": lambda worker, order, **_: check_order(order),
    "set_named_limit": lambda name, limit, **_: check_named_limit(name),
    "set_failure_rule": lambda type, rule, **_: check_failure_rule(type, rule),
    "failures": lambda limit=MAX_BATCH, **_: check_limit(limit),
    "forget_failures": lambda failures, **_: check_batch(failures, "failures"),
    "limit_use": lambda name, limit=100, **_: check_limit(limit, least=1),
    "append_chunks": lambda sent, **_: check_chunks(sent),
    "chunks": lambda job_id, after=None, limit=MAX_BATCH: check_limit(limit, least=1),
    "record_step": lambda job, name, result, **_: check_step(name),
    "receive": lambda job, signal, number, **_: check_step(signal, number),
    "signal": lambda job_id, signal, **_: check_signal(signal),
    "schedule": check_schedule,
    "get": lambda job_ids: check_batch(job_ids, "jobs"),
    "newest_logs": lambda job_ids, lines: check_batch(job_ids, "jobs"),
    "parents": lambda job_ids: check_batch(job_ids, "jobs"),
    "flow_counts": lambda flows: check_batch(flows, "flows"),
    "errors": lambda type=None, limit=50: check_limit(limit, least=1, most=MAX_ERRORS),
    "keep": lambda request, **_: check_kept(request.room, request.name, request.value),
    "kept": lambda room, name, **_: check_kept(room, name),
    "all_kept": lambda room, **_: check_kept(room, room),
    "forget": lambda room, name, **_: check_kept(room, name),
    "acts": _check_acts,
}
