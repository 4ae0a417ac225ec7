"""The command line: run seeds one after another, with a line of JSON for each."""

from __future__ import annotations

import asyncio
import re
import shutil
import signal
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click
import msgspec
import uvloop

from chaos.plan import ENGINES, draw
from chaos.run import run
from chaos.view import View

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from chaos.figures import Figures
    from chaos.run import Outcome

T = TypeVar("T")

#: Figures that are summed over several seeds.
SUMS = (
    "acknowledged",
    "lost",
    "completed_twice",
    "stuck",
    "violations",
    "effects_repeated",
    "lost_by_store",
    "warned",
    "durable",
)


class Seeds(click.ParamType[list[int]]):
    """A seed, or a range of them: ``3`` or ``1..5``."""

    name = "seeds"

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> list[int]:
        given = re.fullmatch(r"(\d+)(?:\.\.(\d+))?", value)
        if given is None:
            self.fail(f"{value!r} is neither a seed nor a range such as 1..5")
        first = int(given[1])
        last = int(given[2] or first)
        if last < first:
            self.fail(f"{value!r} is empty; a range goes up")
        return list(range(first, last + 1))


@click.command()
@click.option(
    "--engine", type=click.Choice(ENGINES), default="redis", show_default=True
)
@click.option("--seconds", type=click.FloatRange(1), default=60, show_default=True)
@click.option("--seeds", type=Seeds(), default="1", show_default=True, help="1 or 1..5")
@click.option("--keep", is_flag=True, help="Keep the folder even if the run succeeds.")
def main(engine: str, seconds: float, seeds: list[int], keep: bool) -> None:
    """
    Run Kue under faults and check that it loses nothing.

    Exits with 1 when a job was lost, completed twice or stuck, when another rule was
    broken, or when too few jobs were added for a result.
    """
    outcomes = [_run(engine, seed, seconds, keep=keep) for seed in seeds]
    if len(seeds) > 1:
        every = [outcome.figures for outcome in outcomes]
        click.echo(msgspec.json.encode(summed(every)))
    if not all(outcome.figures.ok for outcome in outcomes):
        sys.exit(1)


def _run(engine: str, seed: int, seconds: float, *, keep: bool) -> Outcome:
    folder = Path(tempfile.mkdtemp(prefix=f"kue-chaos-{engine}-{seed}-"))
    outcome: Outcome | None = None
    try:
        with View() as view, asyncio.Runner(loop_factory=uvloop.new_event_loop) as loop:
            plan = draw(engine, seed, seconds)
            outcome = loop.run(until_terminated(run(plan, folder, view)))
            if keep or not outcome.figures.ok:
                _keep(outcome, folder, view)
    finally:
        if outcome is None:
            click.echo(f"kept: {folder}", err=True)
        elif outcome.figures.ok and not keep:
            shutil.rmtree(folder)
    click.echo(msgspec.json.encode(outcome.figures))
    return outcome


def _keep(outcome: Outcome, folder: Path, view: View) -> None:
    lines = "".join(f"{breach}\n" for breach in outcome.breaches)
    (folder / "breaches.txt").write_text(lines)
    (folder / "figures.json").write_bytes(msgspec.json.encode(outcome.figures))
    view.show_breaches(outcome.breaches, str(folder))


async def until_terminated(work: Coroutine[None, None, T]) -> T:
    """Do *work*; SIGTERM ends it as Ctrl-C does, with cleanup."""
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, task.cancel)
    return await task


def summed(every: list[Figures]) -> dict[str, object]:
    """Return the combined figures of several runs."""
    faults: Counter[str] = Counter()
    for one in every:
        faults.update(one.faults)
    return {
        "engine": every[0].engine,
        "seeds": len(every),
        "ok": all(one.ok for one in every),
        **{name: sum(getattr(one, name) for one in every) for name in SUMS},
        "recovery_max_s": max(one.recovery_max_s or 0.0 for one in every),
        "faults": dict(sorted(faults.items())),
    }
