"""``kue top``: a live view of queues and workers, with keys to pause and retry."""

from __future__ import annotations

from datetime import timedelta
from shutil import get_terminal_size
from typing import TYPE_CHECKING

import click

from kue.cli.commands.top.frame import Size, TopView, frame
from kue.cli.commands.top.live import LiveTop
from kue.cli.commands.top.snapshot import SnapshotReader
from kue.cli.commands.top.state import ViewState
from kue.cli.commands.top.terminal import is_interactive
from kue.cli.context import reads
from kue.cli.params import DURATION, TYPE
from kue.cli.unknown_names import check_type

if TYPE_CHECKING:
    from kue.cli.commands.top.snapshot import Snapshot
    from kue.client.queue import Kue

__all__ = ["top"]

MIN_INTERVAL, MAX_INTERVAL = timedelta(milliseconds=100), timedelta(hours=1)
#: Enough for every column, where nobody has a screen.
WIDE = 160


@reads
@click.option(
    "--interval",
    type=DURATION,
    default="1s",
    show_default=True,
    help="How often to read the queue; at least 100ms.",
)
@click.option(
    "--type", "types", type=TYPE, multiple=True, help="Only this type; may be repeated."
)
@click.option("--once", is_flag=True, help="Print one frame as plain text and exit.")
async def top(q: Kue, interval: timedelta, types: tuple[str, ...], once: bool) -> None:
    """
    Watch queues and workers, pause and resume them, and retry failed jobs.

    Keys: arrows select, Tab switches between queues and workers, p pauses or resumes,
    r retries failed jobs, d shows details, / filters, s sorts, ? shows all keys, and q
    leaves.  Without a terminal one frame is printed, as with --once.

    \b
      kue top
      kue top --interval 5s --type email --type report
      kue top --once | head -3
    """
    if not MIN_INTERVAL <= interval <= MAX_INTERVAL:
        raise click.UsageError("--interval is from 100ms to 1h")
    for type in types:
        await check_type(q, type)
    reader = SnapshotReader(q, types)
    first = await reader.read()
    facts = await reader.facts()
    store = f"{q.store.name}  {facts.engine} {facts.version}"
    if once or not is_interactive():
        await _print_frame(reader, first, store)
    else:
        seconds = interval.total_seconds()
        await LiveTop(q, reader, first, store=store, interval=seconds).show()


async def _print_frame(reader: SnapshotReader, snapshot: Snapshot, store: str) -> None:
    size = Size(get_terminal_size((WIDE, 0)).columns)
    view = TopView(ViewState(), snapshot, store=store, size=size, is_live=False)
    details = await reader.details(snapshot, view.wanted())
    for line in frame(view._replace(details=details)):
        click.echo(line.plain.rstrip())
