"""``kue demo``: a queue at work, to be watched."""

from __future__ import annotations

import asyncio
import signal
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kue.cli.demo_jobs import Shop
from kue.cli.demo_view import RUNNING, Counts, View, counts_table, view_for
from kue.cli.terminal import EXIT_CODES, output, program, say
from kue.errors import KueError
from kue.job import UNFINISHED, State
from kue.loops import run
from kue.queue import Kue

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

    from kue.job import Draft

#: How often the picture is drawn anew, in seconds.
LOOK_SECONDS = 0.2
#: What share of the time orders come in; the rest is for the last ones to end.
OPEN_SHARE = 0.5
GRACE_SECONDS = 2.0


@click.command(epilog=EXIT_CODES)
@click.option("--url", help="Where to keep the jobs; else a temporary SQLite file.")
@click.option(
    "--seconds",
    type=click.FloatRange(1, 3600),
    default=15,
    show_default=True,
    help="How long it may take.",
)
@click.option(
    "--jobs",
    type=click.IntRange(1, 100_000),
    default=60,
    show_default=True,
    help="How many jobs come in.",
)
def demo(url: str | None, seconds: float, jobs: int) -> None:
    """
    Watch a queue at work: a small shop on a busy day.

    Emails, payments, reports and thumbnails come in with priorities and delays; some
    fail and are tried again, some fail for good.  On a terminal they are shown live,
    elsewhere as lines.  Ctrl-C ends it early.
    """
    with _place(url) as place:
        run(_demo(place, seconds=seconds, jobs=jobs))
    click.echo(_what_next(url))


@contextmanager
def _place(url: str | None) -> Iterator[str]:
    if url is not None:
        yield url
        return
    with tempfile.TemporaryDirectory(prefix="kue-demo-") as folder:
        yield f"sqlite:///{Path(folder) / 'demo.db'}"


async def _demo(url: str, *, seconds: float, jobs: int) -> None:
    console = output()
    async with Kue(url) as q:
        say(f"{jobs} jobs in {seconds:g} seconds; {await q.open()}")
        shop = Shop(q, seconds=seconds)
        with view_for(console) as view, _ended_by_ctrl_c() as ended:
            async with q.work(grace=GRACE_SECONDS):
                await _watch(q, shop.orders(jobs), view, ended, seconds)
        _summarise(console, await q.counts_by_type())


async def _watch(
    q: Kue, orders: list[Draft], view: View, ended: asyncio.Event, seconds: float
) -> None:
    """Let orders come in and show what becomes of them, until all of them ended."""
    try:
        async with asyncio.TaskGroup() as group:
            feeding = group.create_task(_feed(q, orders, seconds * OPEN_SHARE))
            tasks = [
                group.create_task(_show_until_done(q, view, feeding)),
                group.create_task(_until(ended)),
            ]
            telling = group.create_task(_tell(q, view))
            await asyncio.wait(
                tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
            for task in (*tasks, feeding, telling):
                task.cancel()
    except* KueError as errors:
        # The first says what is wrong; the others are the same from other tasks.
        raise errors.exceptions[0] from None


async def _feed(q: Kue, orders: list[Draft], seconds: float) -> None:
    ticks = max(1, round(seconds / LOOK_SECONDS))
    size = -(-len(orders) // ticks)
    for start in range(0, len(orders), size):
        await q.enqueue_many(orders[start : start + size])
        await asyncio.sleep(LOOK_SECONDS)


async def _show_until_done(q: Kue, view: View, feeding: asyncio.Task[None]) -> None:
    while True:
        # Asked before counting: what came in since then is counted next time.
        was_fed = feeding.done()
        counts = await q.counts_by_type()
        view.show(counts, await q.range(0, RUNNING - 1, state=State.ACTIVE))
        if was_fed and not _unfinished(counts):
            return
        await asyncio.sleep(LOOK_SECONDS)


async def _tell(q: Kue, view: View) -> None:
    async for event in q.events():
        view.tell(event)


async def _until(ended: asyncio.Event) -> None:
    await ended.wait()


@contextmanager
def _ended_by_ctrl_c() -> Iterator[asyncio.Event]:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, ended.set)
    try:
        yield ended
    finally:
        loop.remove_signal_handler(signal.SIGINT)


def _unfinished(counts: Counts) -> int:
    return sum(counts[type][state] for type in counts for state in UNFINISHED)


def _summarise(console: Console, counts: Counts) -> None:
    console.print(counts_table(counts))
    left = _unfinished(counts)
    if left:
        console.print(f"{left} jobs had not ended when the time was over.")


def _what_next(url: str | None) -> str:
    kept, kue = url or "sqlite:///kue.db", program()
    python = kue.removesuffix("kue") + "python"
    again = (
        ""
        if url
        else f"\n  {kue} demo --url {kept}\n      the same, and the jobs are kept"
    )
    return f"""
What to try next:{again}
  {kue} doctor {kept}
      prove that no job was lost

or with an app.py of your own:

    import kue

    q = kue.Kue("{kept}")

    @q.task
    def hello(name: str) -> str:
        return f"hello {{name}}"

    if __name__ == "__main__":
        print(hello.delay("world").result(timeout=60))

then, in one terminal and in another:

  {kue} worker app:q
      runs its jobs until Ctrl-C
  {python} app.py
      adds one and waits for the result"""
