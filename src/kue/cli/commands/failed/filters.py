"""Filters for failed jobs: options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kue.cli.known_names import check_type
from kue.cli.params import TIME, TYPE, moment_of
from kue.client.filters import Selection
from kue.model.job import State

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from kue.client.queue import Kue

F = TypeVar("F", bound=Callable[..., Any])


def filter_options(command: F) -> F:
    """Add ``--type``, ``--error`` and ``--since``."""
    for option in (
        click.option("--since", type=TIME, help="Failed at or after: 2h, or a time."),
        click.option("--error", help="Text in the error, ignoring case."),
        click.option("--type", type=TYPE, help="Only jobs of this type."),
    ):
        command = option(command)
    return command


async def selected(
    q: Kue,
    type: str | None,
    error: str | None = None,
    since: datetime | timedelta | None = None,
    until: timedelta | None = None,
) -> Selection:
    """
    Return the selection that the options describe.

    Raises:
        UnknownName: There is no such type.
    """
    await check_type(q, type)
    return Selection(
        type=type,
        error=error,
        since=await moment_of(q, since),
        until=await moment_of(q, until),
    )


async def failed_count(q: Kue, wanted: Selection) -> int | None:
    """Return how many jobs are selected, or None if each would have to be read."""
    if wanted.error is None and wanted.since is None and wanted.until is None:
        return await q.count(State.FAILED, wanted.type)
    return None
