"""Parameter types: durations, times, priorities, states and types of jobs."""

from __future__ import annotations

import asyncio
import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from kue.aio.event_loop import run
from kue.cli.context import refuse_missing_file, settings_here
from kue.client.queries import state_of
from kue.model.duration import epoch_ms, milliseconds
from kue.model.job import State, priority_of
from kue.model.names import check_path_name
from kue.store import store_for

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from kue.client.queue import Kue
    from kue.store.contract import Store

if TYPE_CHECKING:
    Kind = click.ParamType[Any]
else:
    # Older versions of click have no type parameter here.
    Kind = click.ParamType

#: A shell that completes a word should not be kept waiting.
COMPLETION_SECONDS = 0.5

_NUMBER = re.compile(r"\d+(\.\d+)?", re.ASCII)


class DurationType(Kind):
    """A length of time: seconds, or text such as 1h30m."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> timedelta:
        if isinstance(value, timedelta):
            return value
        seconds = float(value) if _NUMBER.fullmatch(value) else value
        field = param.name if param and param.name else "duration"
        try:
            return timedelta(milliseconds=milliseconds(seconds, field=field))
        except (ValueError, OverflowError) as exc:
            self.fail(str(exc), param, ctx)


class TimeType(Kind):
    """A time with its zone, or a duration relative to now."""

    name = "time"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime | timedelta:
        if not isinstance(value, str):
            return value  # type: ignore[no-any-return]
        text = value.strip().removeprefix("in ").removesuffix(" ago").strip()
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            return self._length(text, param, ctx)
        if moment.tzinfo is None:
            self.fail(
                f"{value!r} has no time zone, so it is ambiguous; "
                f"write {moment.isoformat()}Z or {moment.isoformat()}+02:00",
                param,
                ctx,
            )
        return moment

    def _length(
        self, text: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> timedelta:
        try:
            return timedelta(milliseconds=milliseconds(text, field="time"))
        except (ValueError, OverflowError):
            self.fail(
                f"{text!r} is not a time; write 2026-11-15T09:30:00Z, or how far away "
                "it is, such as 10m or 2d",
                param,
                ctx,
            )


class PriorityType(Kind):
    """A priority by number or by name."""

    name = "priority"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        try:
            return priority_of(int(value))
        except ValueError as number:
            if str(value).lstrip("+-").isdigit():
                self.fail(str(number), param, ctx)
        try:
            return priority_of(value)
        except ValueError as exc:
            self.fail(str(exc), param, ctx)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        names = ("critical", "high", "medium", "normal", "low")
        return _beginning_with(incomplete, names)


class StateType(Kind):
    """A state by name."""

    name = "state"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> State:
        try:
            return state_of(value)
        except ValueError as exc:
            self.fail(str(exc), param, ctx)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return _beginning_with(incomplete, State)


class TypeNameType(Kind):
    """The name of a type; completed from the store if it answers quickly."""

    name = "type"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        try:
            return check_path_name(value, what="type")
        except ValueError as exc:
            self.fail(str(exc), param, ctx)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return _beginning_with(incomplete, names_from_store(ctx, _types))


DURATION = DurationType()
TIME = TimeType()
PRIORITY = PriorityType()
STATE = StateType()
TYPE = TypeNameType()


def names_from_store(
    context: click.Context, read: Callable[[Store], Awaitable[list[str]]]
) -> list[str]:
    """Return names for shell completion; none if the store does not answer quickly."""
    try:
        with context:
            config = settings_here(budget=COMPLETION_SECONDS)
        refuse_missing_file(config.url)
        return run(_within_time(store_for(config), read))
    except Exception:
        # A message would appear in the middle of the line being typed.
        return []


async def moment_of(
    q: Kue, when: datetime | timedelta | None, *, ahead: bool = False
) -> int | None:
    """Return *when* as Unix ms; a duration counts back from now, or *ahead*."""
    if when is None:
        return None
    if isinstance(when, datetime):
        return epoch_ms(when)
    length = when // timedelta(milliseconds=1)
    return await q.now() + (length if ahead else -length)


def _beginning_with(incomplete: str, words: Iterable[str]) -> list[CompletionItem]:
    return [CompletionItem(word) for word in words if word.startswith(incomplete)]


async def _types(store: Store) -> list[str]:
    return await store.types()


async def _within_time(
    store: Store, read: Callable[[Store], Awaitable[list[str]]]
) -> list[str]:
    try:
        async with asyncio.timeout(COMPLETION_SECONDS):
            return await read(store)
    finally:
        await store.close()
