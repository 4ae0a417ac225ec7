"""Parameter types: durations, times, priorities, states, names and ids of jobs."""

from __future__ import annotations

import asyncio
import contextlib
import re
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from kue.aio.event_loop import run
from kue.cli.context import settings_here
from kue.cli.input import STDIN, InputLine, read_lines
from kue.client.circuit_records import ROOM as CIRCUITS
from kue.client.queries import state_of
from kue.model.draft import UNLIMITED
from kue.model.duration import epoch_ms, milliseconds
from kue.model.job import State, priority_of
from kue.model.names import check_path_name
from kue.store import refuse_missing_file, store_for
from kue.store.values import MAX_BATCH

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator

    from kue.client.queue import Kue
    from kue.store.contract import Store

    Kind = click.ParamType[Any]
else:
    # Older versions of click have no type parameter here.
    Kind = click.ParamType

F = TypeVar("F", bound="Callable[..., Any]")

#: A shell that completes a word should not be kept waiting.
COMPLETION_SECONDS = 0.5

_NUMBER = re.compile(r"\d+(\.\d+)?", re.ASCII)


class Parsed(Kind):
    """A value that *parse* makes of text, completed with *words*."""

    def __init__(
        self,
        name: str,
        parse: Callable[[Any], Any],
        words: Callable[[click.Context], Iterable[str]] = lambda context: (),
    ) -> None:
        self.name = name
        self._parse = parse
        self._words = words

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        try:
            return self._parse(value)
        except (ValueError, OverflowError) as exc:
            self.fail(str(exc), param, ctx)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        words = self._words(ctx)
        return [CompletionItem(word) for word in words if word.startswith(incomplete)]


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


def _time(value: Any) -> datetime | timedelta:
    """Read a time with its zone, or a duration relative to now."""
    if not isinstance(value, str):
        return value  # type: ignore[no-any-return]
    text = value.strip().removeprefix("in ").removesuffix(" ago").strip()
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return _length(text)
    if moment.tzinfo is None:
        raise ValueError(
            f"{value!r} has no time zone, so it is ambiguous; "
            f"write {moment.isoformat()}Z or {moment.isoformat()}+02:00"
        )
    return moment


def _length(text: str) -> timedelta:
    try:
        return timedelta(milliseconds=milliseconds(text, field="time"))
    except (ValueError, OverflowError):
        raise ValueError(
            f"{text!r} is not a time; write 2026-11-15T09:30:00Z, or how far away "
            "it is, such as 10m or 2d"
        ) from None


def _attempts(value: Any) -> int | str:
    """Read a number of attempts; its limits are checked with the job."""
    if value == UNLIMITED:
        return UNLIMITED
    try:
        return int(value)
    except ValueError:
        raise ValueError(
            f"{value!r} is not a number of attempts; write 5, or {UNLIMITED}"
        ) from None


def _priority(value: Any) -> int:
    """Read a priority by number or by name."""
    with contextlib.suppress(ValueError):
        value = int(value)
    return priority_of(value)


POSITIVE = click.IntRange(1)
PORT_NUMBER = click.IntRange(0, 65535)
DURATION = DurationType()
TIME = Parsed("time", _time)
ATTEMPTS = Parsed("attempts", _attempts, lambda context: (UNLIMITED,))
_PRIORITIES = ("critical", "high", "medium", "normal", "low")
PRIORITY = Parsed("priority", _priority, lambda context: _PRIORITIES)
STATE = Parsed("state", state_of, lambda context: State)
#: The name of a type; completed from the store if it answers quickly.
TYPE = Parsed(
    "type",
    partial(check_path_name, what="type"),
    lambda context: names_from_store(context, lambda store: store.types()),
)


async def _schedule_names(store: Store) -> list[str]:
    return [schedule.name for schedule in await store.schedules()]


#: The name of a schedule; completed as that of a type is.
SCHEDULE = Parsed(
    "name",
    partial(check_path_name, what="schedule name"),
    lambda context: names_from_store(context, _schedule_names),
)


async def _circuit_names(store: Store) -> list[str]:
    return list(await store.all_kept(CIRCUITS))


#: The name of a circuit; completed as that of a type is.
CIRCUIT = Parsed(
    "name",
    partial(check_path_name, what="circuit name"),
    lambda context: names_from_store(context, _circuit_names),
)


async def _limit_names(store: Store) -> list[str]:
    return list(await store.named_limits())


#: The name of a limit that jobs share; completed as that of a type is.
LIMIT = Parsed(
    "name",
    partial(check_path_name, what="limit"),
    lambda context: names_from_store(context, _limit_names),
)


def _limit_and_key(value: Any) -> tuple[str, str]:
    """Read ``stripe``, or ``mail=42`` for a limit with keys."""
    name, _, key = value.partition("=")
    return check_path_name(name, what="limit"), key


#: A limit that a job counts against, with its key.
LIMITED_BY = Parsed(
    "name[=key]",
    _limit_and_key,
    lambda context: names_from_store(context, _limit_names),
)


def batches(ids: Collection[int | str]) -> Iterator[list[int]]:
    """
    Yield the ids given, up to 500 at a time; ``-`` stands for those on standard input.

    Of a line there only the text before the first tab counts, so the output of
    `kue job list` can be piped in.
    """
    named = [value for value in ids if isinstance(value, int)]
    for start in range(0, len(named), MAX_BATCH):
        yield named[start : start + MAX_BATCH]
    if STDIN in ids:
        for lines in read_lines():
            yield [_id_of(line) for line in lines]


def _id_of(line: InputLine) -> int:
    text = line.text.partition(b"\t")[0].strip().decode(errors="replace")
    try:
        return _job_id(text)
    except ValueError as exc:
        raise click.UsageError(f"{line.location}: {exc}") from None


def _job_id(text: str | int) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if not 1 <= number < 2**63:
        raise ValueError(f"{text!r} is not a job id; ids are whole numbers such as 7")
    return number


JOB_ID = Parsed("id", _job_id)
#: A job's id, or ``-`` for ids from standard input.
JOB_IDS = Parsed("id", lambda value: value if value == STDIN else _job_id(value))


def options(*parameters: Callable[[F], F]) -> Callable[[F], F]:
    """Return a decorator that adds *parameters* to a command, in this order."""

    def add(command: F) -> F:
        for parameter in reversed(parameters):
            command = parameter(command)
        return command

    return add


def env_option(group: str, *names: str, **settings: Any) -> Callable[[F], F]:
    """Return an option with the environment variable KUE_<GROUP>_<NAME>."""
    [name] = [name[2:] for name in names if name.startswith("--")]
    variable = f"KUE_{group}_{name.replace('-', '_').upper()}"
    settings.setdefault("show_default", bool(settings.get("default")))
    return click.option(*names, envvar=variable, show_envvar=True, **settings)


limit_options = options(
    click.option(
        "--limit",
        type=POSITIVE,
        default=50,
        show_default=True,
        help="How many at most.",
    ),
    click.option("--all", "every", is_flag=True, help="No limit."),
)


def names_from_store(
    context: click.Context, read: Callable[[Store], Awaitable[list[str]]]
) -> list[str]:
    """Return names for shell completion; none if the store does not answer quickly."""

    async def read_in_time(store: Store) -> list[str]:
        try:
            async with asyncio.timeout(COMPLETION_SECONDS):
                return await read(store)
        finally:
            await store.close()

    try:
        with context:
            config = settings_here(budget=COMPLETION_SECONDS)
        refuse_missing_file(config.url)
        return run(read_in_time(store_for(config)))
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
