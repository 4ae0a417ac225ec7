"""What the verbs of a store refuse: values that no call may carry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kue.job import State
from kue.names import check_name
from kue.store.values import MAX_BATCH, MAX_ERRORS, MAX_KEPT, ORDERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kue.store.values import Limits


def check_batch(things: Sequence[Any], what: str) -> None:
    """Raise `ValueError` when there are more than one call may carry."""
    if len(things) > MAX_BATCH:
        raise ValueError(
            f"one call takes at most {MAX_BATCH} {what}, not {len(things)}; "
            "split them up"
        )


def check_limit(limit: int) -> None:
    """Raise `ValueError` for a number of jobs that no call may ask for."""
    if not 0 <= limit <= MAX_BATCH:
        raise ValueError(f"limit must be from 0 to {MAX_BATCH}, not {limit}")


def check_move(to: State, at: int | None) -> None:
    """Raise `ValueError` for a move that no job can be asked to make."""
    if to not in (State.WAITING, State.DELAYED):
        raise ValueError(
            f"jobs are moved to waiting or delayed, not to {to}; workers start and "
            "end them, and cancel is a verb of its own"
        )
    if to is State.DELAYED and at is None:
        raise ValueError("a job that is moved to delayed needs at=, when it is due")


def check_pause(type: str | None, worker: str | None) -> None:
    """Raise `ValueError` when a pause is to be that of a type and of a worker."""
    if type is not None and worker is not None:
        raise ValueError(
            f"a pause is that of a type or of a worker, not of both ({type!r} and "
            f"{worker!r}); call once for each"
        )


def check_order(order: str) -> None:
    """Raise `ValueError` for an order that no worker understands."""
    if order not in ORDERS:
        raise ValueError(f"a worker is ordered to {' or '.join(ORDERS)}, not {order!r}")


def check_errors(limit: int) -> None:
    """Raise `ValueError` for a number of errors that no call may ask for."""
    if not 1 <= limit <= MAX_ERRORS:
        raise ValueError(f"limit must be from 1 to {MAX_ERRORS}, not {limit}")


def check_limits(limits: Limits | None) -> None:
    """Raise `ValueError` for limits that would let nothing through."""
    for name in ("concurrency", "rate", "per", "per_key") if limits else ():
        value = getattr(limits, name)
        if value is not None and value < 1:
            raise ValueError(f"{name} must be at least 1, not {value}; pause instead")


def check_kept(room: str, name: str, value: str = "") -> None:
    """Raise `ValueError` for a small record that cannot be."""
    if not (room.isascii() and room.isalpha() and room.islower() and len(room) <= 40):
        raise ValueError(f"a room is one word of small letters, not {room[:50]!r}")
    check_name(name, what="the name of a record")
    if len(value.encode()) > MAX_KEPT:
        raise ValueError(f"a record has at most {MAX_KEPT:,} bytes")


def read_act_cursor(cursor: str | None) -> int | None:
    """
    Return the number of the last act seen.

    Raises:
        ValueError: It did not come from a page.
    """
    if cursor is None:
        return None
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) <= 15):
        raise ValueError(
            f"cursor {cursor[:50]!r} did not come from a page; leave it out to start "
            "over"
        )
    return int(cursor)


def read_cursor(cursor: str | None) -> tuple[int, int] | None:
    """
    Take a page's cursor apart: the sort key and id of the last job seen.

    Raises:
        ValueError: It did not come from a page.
    """
    if cursor is None:
        return None
    key, _, job_id = cursor.partition(":")
    try:
        return int(key), int(job_id)
    except ValueError:
        raise ValueError(
            f"cursor {cursor!r} did not come from a page; leave it out to start over"
        ) from None
