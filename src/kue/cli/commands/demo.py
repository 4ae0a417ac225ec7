"""``kue demo``: a demonstration of a queue at work."""

from __future__ import annotations

import asyncio
import random
import signal
import tempfile
from contextlib import asynccontextmanager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kue.aio.event_loop import on_signals, run
from kue.cli.commands.dashboard import PORT, DashboardOptions
from kue.cli.commands.demo_jobs import DemoJobs
from kue.cli.commands.demo_view import RUNNING, Counts, DemoView, counts_table, view_for
from kue.cli.output.console import EXIT_CODES, output, print_message, program
from kue.cli.params import PORT_NUMBER
from kue.client.queue import Kue
from kue.model.errors import ConfigError, KueError
from kue.model.job import UNFINISHED, State
from kue.model.settings import DEFAULT_PREFIX

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator, Coroutine, Iterator
    from typing import Any

#: Seconds between two updates of the view.
LOOK_SECONDS = 0.2
#: How long --jobs may take, without --seconds.
BURST_SECONDS = 15.0
#: How long the jobs of a burst take at pace 1; they are scaled to the time given.
SCRIPT_SECONDS = 150.0
#: The share of the time in which jobs are added; in the rest, the last ones end.
OPEN_SHARE = 0.5
#: Jobs are added in waves: how many, and how many seconds apart.
WAVE, CALM_SECONDS = (2, 20), (0.5, 2.5)
FILM_SECONDS = 15.0
GRACE_SECONDS = 2.0
#: Signals that stop it gracefully: Ctrl-C, `kill`, and a closed terminal.
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@click.command(epilog=EXIT_CODES)
@click.option("--url", help="Where to keep the jobs; else a temporary SQLite file.")
@click.option(
    "--seconds",
    type=click.FloatRange(1, 86_400),
    help="How long it may take; else until Ctrl-C.",
)
@click.option(
    "--jobs",
    type=click.IntRange(1, 100_000),
    help="Add this many jobs quickly, and end after the last one.",
)
@click.option(
    "--port",
    type=PORT_NUMBER,
    help=f"The port of the dashboard; else {PORT}, or a free one if that is taken.",
)
@click.option("--no-dashboard", is_flag=True, help="Serve no dashboard.")
@click.option("--open", "opens", is_flag=True, help="Open the dashboard in a browser.")
def demo(
    url: str | None,
    seconds: float | None,
    jobs: int | None,
    port: int | None,
    no_dashboard: bool,
    opens: bool,
) -> None:
    """
    Watch a queue at work: a film service on a busy day.

    Emails, payments, webhooks, reports and videos are added with priorities and delays,
    without end; some fail and are retried, some fail for good, some wait for others.
    The address of a dashboard is printed first.  On a terminal the jobs are shown live,
    elsewhere as lines.  Ctrl-C stops it.

    \b
      kue demo --open
      kue demo --jobs 60             sixty jobs in a quarter of a minute
    """
    listening = nullcontext() if no_dashboard else _listener(port)
    with _ending_signals() as numbers:
        for number in numbers:
            # They raise, so that the temporary folder is removed.
            signal.signal(number, signal.default_int_handler)
        with _store_url(url) as store_url, listening as listener:
            plan = DemoPlan(jobs, seconds)
            run(_demo(store_url, plan, listener, opens=opens))
    click.echo(_what_next(url))


@contextmanager
def _ending_signals() -> Iterator[list[signal.Signals]]:
    """Yield the signals to handle, and restore their handlers afterwards."""
    before = {number: signal.getsignal(number) for number in ENDING}
    try:
        # If the parent process ignored one, as nohup does with SIGHUP, keep that.
        yield [number for number in ENDING if before[number] is not signal.SIG_IGN]
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _store_url(url: str | None) -> Iterator[str]:
    if url is not None:
        yield url
        return
    with tempfile.TemporaryDirectory(prefix="kue-demo-") as folder:
        yield f"sqlite:///{Path(folder) / 'demo.db'}"


class DemoPlan:
    """What is added, and how fast: a burst of jobs, or an endless day."""

    def __init__(self, jobs: int | None, seconds: float | None) -> None:
        self._jobs = jobs
        self.is_endless = jobs is None
        self.pace = 1.0
        if jobs is not None:
            seconds = seconds or BURST_SECONDS
            self.pace = seconds / SCRIPT_SECONDS
        #: How long it may take; None is forever.
        self.seconds = seconds
        self._random = random.Random(3)

    def __str__(self) -> str:
        if self._jobs is not None:
            return f"{self._jobs} jobs in {self.seconds:g} seconds"
        if self.seconds is None:
            return "jobs until Ctrl-C"
        return f"jobs for {self.seconds:g} seconds"

    def unfinished(self, counts: Counts) -> int:
        """Return how many jobs of a burst have not ended, or were not even added."""
        if self._jobs is None:
            return 0
        added = sum(sum(states.values()) for states in counts.values())
        return _unfinished(counts) + max(0, self._jobs - added)

    async def feed(self, q: Kue, jobs: DemoJobs) -> None:
        """Add jobs."""
        if self._jobs is None or self.seconds is None:
            await self._feed_without_end(q, jobs)
            return
        orders = jobs.orders(self._jobs)
        ticks = max(1, round(self.seconds * OPEN_SHARE / LOOK_SECONDS))
        size = -(-len(orders) // ticks)
        for start in range(0, len(orders), size):
            await q.enqueue_many(orders[start : start + size])
            await asyncio.sleep(LOOK_SECONDS)

    async def _feed_without_end(self, q: Kue, jobs: DemoJobs) -> None:
        await jobs.begin()
        await jobs.schedule()
        calm = 0.0
        while True:
            await q.enqueue_many(jobs.orders(self._random.randint(*WAVE)))
            pause = self._random.uniform(*CALM_SECONDS)
            await asyncio.sleep(pause)
            calm += pause
            if calm > FILM_SECONDS:
                calm -= FILM_SECONDS
                await jobs.film()


async def _demo(
    url: str, plan: DemoPlan, listener: socket.socket | None, *, opens: bool
) -> None:
    console = output()
    # A file of its own has no use for the prefix that is set for a Redis.
    prefix = DEFAULT_PREFIX if url.startswith("sqlite:") else None
    async with Kue(url, prefix=prefix) as q:
        print_message(f"{plan}; {await q.open()}")
        jobs = DemoJobs(q, pace=plan.pace)
        async with _dashboard(q, listener, opens=opens) as link:
            chosen = view_for(console, link, is_brief=plan.is_endless)
            ended = asyncio.Event()
            with (
                chosen as view,
                _ending_signals() as numbers,
                on_signals(dict.fromkeys(numbers, ended.set)),
            ):
                async with q.work(grace=GRACE_SECONDS):
                    feeding = plan.feed(q, jobs)
                    await _watch(q, feeding, view, ended, plan.seconds)
        counts = await q.counts_by_type()
        console.print(counts_table(counts))
        if left := plan.unfinished(counts):
            console.print(f"{left} jobs had not ended when the time was over.")


def _listener(port: int | None) -> socket.socket:
    """Return the dashboard's socket; on a free port if the usual one is taken."""
    from kue.cli.commands import dashboard_server

    if port is not None:
        return dashboard_server.listener_for(DashboardOptions(port=port))
    try:
        return dashboard_server.listener_for(DashboardOptions())
    except ConfigError as exc:
        print_message(f"{exc}; using a free port instead")
        return dashboard_server.listener_for(DashboardOptions(port=0))


@asynccontextmanager
async def _dashboard(
    q: Kue, listener: socket.socket | None, *, opens: bool
) -> AsyncIterator[str]:
    """Serve the dashboard, unless *listener* is None, and yield its address."""
    if listener is None:
        yield ""
        return
    from kue.cli.commands import dashboard_server

    options = DashboardOptions(badge="demo")
    async with dashboard_server.running(q, options, listener) as (url, _):
        print_message(f"the dashboard is at {url}")
        if opens:
            dashboard_server.open_browser(url)
        yield url


async def _watch(
    q: Kue,
    feeding: Coroutine[Any, Any, None],
    view: DemoView,
    ended: asyncio.Event,
    seconds: float | None,
) -> None:
    """Add jobs and show what happens to them, until all have ended."""
    try:
        async with asyncio.TaskGroup() as group:
            fed = group.create_task(feeding)
            tasks: list[asyncio.Task[Any]] = [
                group.create_task(_show_until_done(q, view, fed)),
                group.create_task(ended.wait()),
            ]
            events = group.create_task(_show_events(q, view))
            await asyncio.wait(
                tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
            for task in (*tasks, fed, events):
                task.cancel()
    except* KueError as errors:
        # The others are the same error from other tasks.
        raise errors.exceptions[0] from None


async def _show_until_done(q: Kue, view: DemoView, feeding: asyncio.Task[None]) -> None:
    while True:
        # Read before counting: jobs added since then are counted next time.
        was_fed = feeding.done()
        counts = await q.counts_by_type()
        view.show(counts, await q.range(0, RUNNING - 1, state=State.ACTIVE))
        if was_fed and not _unfinished(counts):
            return
        await asyncio.sleep(LOOK_SECONDS)


async def _show_events(q: Kue, view: DemoView) -> None:
    async for event in q.events():
        view.show_event(event)


def _unfinished(counts: Counts) -> int:
    return sum(counts[type][state] for type in counts for state in UNFINISHED)


def _what_next(url: str | None) -> str:
    kept, kue = url or "sqlite:///kue.db", program()
    python = kue.removesuffix("kue") + "python"
    again = (
        ""
        if url
        else f"\n  {kue} demo --url {kept}\n      the same, but the jobs are kept"
    )
    return f"""
What to try next:{again}
  {kue} doctor {kept}
      check that no job was lost

or with your own app.py:

    import kue

    q = kue.Kue("{kept}")

    @q.task
    def hello(name: str) -> str:
        return f"hello {{name}}"

    if __name__ == "__main__":
        print(hello.delay("world").result(timeout=60))

then, in one terminal and in another:

  {kue} up app:q
      runs its jobs and serves its dashboard until Ctrl-C
  {python} app.py
      adds one and waits for the result"""
