"""``python -m benchmarks``: measure, print the table, write the figures."""

from __future__ import annotations

import asyncio
import gc
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click
import uvloop
from rich.console import Console
from rich.progress import Progress

from benchmarks.kue_redis import RedisFigures
from benchmarks.kue_sqlite import SqliteFigures
from benchmarks.readings import Readings
from benchmarks.report import conditions, print_table, write_json
from benchmarks.scale import FULL, QUICK, Scale

if TYPE_CHECKING:
    from benchmarks.steps import Step

ENGINES: dict[str, type[RedisFigures | SqliteFigures]] = {
    "redis": RedisFigures,
    "sqlite": SqliteFigures,
}


@click.command()
@click.option("--quick", is_flag=True, help="Fewer jobs and rounds: less reliable.")
@click.option("--only", type=click.Choice(list(ENGINES)), help="Measure one engine.")
@click.option(
    "--json",
    "path",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("build/bench.json"),
    show_default=True,
    help="Where to write the figures.",
)
@click.option("--markdown", is_flag=True, help="Print the table as Markdown.")
def main(quick: bool, only: str | None, path: Path, markdown: bool) -> None:
    """
    Compare Kue with minimal code that does the same work, and with Huey.

    Needs redis-server in PATH, and starts it on a free port.
    """
    readings = Readings()
    scale = QUICK if quick else FULL
    engines = [only] if only else list(ENGINES)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        caption = runner.run(_measure(readings, scale, engines))
    print_table(readings, caption, as_markdown=markdown)
    write_json(readings, path)
    click.echo(f"written to {path}", err=True)


async def _measure(readings: Readings, scale: Scale, engines: list[str]) -> str:
    """Run every step; return the conditions."""
    versions = []
    # auto_refresh is off, so that no thread draws during a measurement.
    with Progress(console=Console(stderr=True), auto_refresh=False) as progress:
        for engine in engines:
            async with AsyncExitStack() as cleanup:
                figures = ENGINES[engine](readings, scale, cleanup)
                versions.append(await figures.version())
                # Keep the garbage collector from scanning prepared objects, which
                # would distort the measurement.
                gc.freeze()
                await _run(figures.steps, progress)
                figures.derive()
    return conditions(versions, rounds=scale.rounds)


async def _run(steps: list[Step], progress: Progress) -> None:
    task = progress.add_task("", total=len(steps))
    for step in steps:
        progress.update(task, description=step.label, refresh=True)
        await step.run()
        progress.advance(task)
    progress.refresh()


main(prog_name="python -m benchmarks")
