"""``kue queue stats``: throughput and run times, by minute and type."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from kue.cli.context import json_option, reads
from kue.cli.output.console import Command, print_message
from kue.cli.output.listing import Cell, Column, Listing, Row, count
from kue.cli.output.text import iso, words
from kue.cli.params import TYPE
from kue.cli.unknown_names import check_type
from kue.client.queries import STATS_MINUTES
from kue.store.values import Stat, summed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kue.client.queue import Kue

MINUTE_MS = 60_000
NUMBERS = tuple(
    Column(title, is_number=True, rank=int(title == "mean run"))
    for title in ("added", "complete", "failed", "mean run")
)


@click.command(cls=Command)
@click.argument("type", type=TYPE, required=False)
@click.option(
    "--minutes",
    type=click.IntRange(1, STATS_MINUTES),
    default=60,
    show_default=True,
    help="How far to look back.",
)
@click.option("--total", is_flag=True, help="One line per type, all minutes together.")
@json_option(help="Write one JSON object per line; minute is Unix time in minutes.")
@reads
async def stats(
    q: Kue, type: str | None, minutes: int, total: bool, as_json: bool
) -> None:
    """
    Show how many jobs were added, completed and failed, and how long runs took.

    One line per minute and type with activity.  Columns in a pipe: minute, type, added,
    complete, failed, mean run in ms; with --total without the minute.

    \b
      kue queue stats --total
      kue queue stats email --minutes 10
    """
    await check_type(q, type)
    last = await q.now() // MINUTE_MS
    found = await q.stats(last - minutes + 1, last)
    wanted = [stat for stat in found if type in (None, stat.type)]
    if total:
        listing = Listing(Column("type", wraps=True), *NUMBERS, as_json=as_json)
        listing.show(_row(stat, with_minute=False) for stat in _totals(wanted))
    else:
        columns = (Column("minute"), Column("type", wraps=True), *NUMBERS)
        ordered = sorted(wanted, key=lambda stat: (stat.minute, stat.type))
        Listing(*columns, as_json=as_json).show(map(_row, ordered))
    if not wanted:
        print_message(f"nothing happened in the last {words(minutes * MINUTE_MS)}")


def _totals(stats: Iterable[Stat]) -> list[Stat]:
    by_type: dict[str, list[Stat]] = {}
    for stat in stats:
        by_type.setdefault(stat.type, []).append(stat)
    return [
        msgspec.structs.replace(summed(0, type, of_type), waits={}, runs={})
        for type, of_type in sorted(by_type.items())
    ]


def _row(stat: Stat, *, with_minute: bool = True) -> Row:
    mean = stat.run_ms // stat.ended if stat.ended else None
    item = msgspec.structs.asdict(stat) | {"mean_ms": mean}
    if not with_minute:
        del item["minute"]
    minute = iso(stat.minute * MINUTE_MS)
    cells = [
        Cell(minute.partition("T")[2][:5], minute),
        stat.type,
        *map(count, (stat.added, stat.complete, stat.failed)),
        "" if mean is None else Cell(words(mean), str(mean)),
    ]
    return Row(cells if with_minute else cells[1:], item=lambda: item)
