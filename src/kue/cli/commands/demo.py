"""``kue demo``: a queue at work, to be watched."""

from __future__ import annotations

import asyncio
import random
import signal
import tempfile
from contextlib import asynccontextmanager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kue.aio.event_loop import run
from kue.cli.commands.dashboard_options import PORT, DashboardOptions
from kue.cli.commands.demo_jobs import DemoJobs
from kue.cli.commands.demo_view import RUNNING, Counts, DemoView, counts_table, view_for
from kue.cli.output.terminal import EXIT_CODES, output, program, say
from kue.client.queue import Kue
from kue.model.errors import ConfigError, KueError
from kue.model.job import UNFINISHED, State

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator, Coroutine, Iterator
    from typing import Any

#: How often the picture is drawn anew, in seconds.
LOOK_SECONDS = 0.2
#: What --jobs may take, unless --seconds says it.
BURST_SECONDS = 15.0
#: The time that a burst was written for; everything scales with the time it has.
SCRIPT_SECONDS = 150.0
#: What share of the time orders come in; the rest is for the last ones to end.
OPEN_SHARE = 0.5
#: Orders come in waves: how many, and after how many seconds the next.
WAVE, CALM_SECONDS = (2, 20), (0.5, 2.5)
FILM_SECONDS = 15.0
GRACE_SECONDS = 2.0
#: What ends it in order: Ctrl-C, `kill`, and a terminal that is closed.
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
    help="Take in so many jobs, in a hurry, and end with the last of them.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help=f"Where the dashboard is; else {PORT}, or any free one if that is taken.",
)
@click.option("--no-dashboard", is_flag=True, help="Do without it.")
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

    Mails, payments, web hooks, reports and videos come in with priorities and delays,
    without end; some fail and are tried again, some fail for good, some wait for
    others.  The address of a dashboard is told first.  On a terminal the jobs are shown
    live, elsewhere as lines.  Ctrl-C ends it.

    \b
      kue demo --open
      kue demo --jobs 60             sixty jobs in a quarter of a minute
    """
    listening = nullcontext() if no_dashboard else _listener(port)
    with _interruptible(), _place(url) as place, listening as listener:
        script = DemoPlan(jobs, seconds)
        run(_demo(place, script, listener, opens=opens))
    click.echo(_what_next(url))


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let every signal that ends it unwind it, so that its folder is removed."""
    before = {number: signal.getsignal(number) for number in ENDING}
    for number, handler in before.items():
        # Ignored by the parent process, as nohup does with SIGHUP: it stays so.
        if handler is not signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _place(url: str | None) -> Iterator[str]:
    if url is not None:
        yield url
        return
    with tempfile.TemporaryDirectory(prefix="kue-demo-") as folder:
        yield f"sqlite:///{Path(folder) / 'demo.db'}"


class DemoPlan:
    """What happens, and how fast: so many jobs in a hurry, or a day without end."""

    def __init__(self, jobs: int | None, seconds: float | None) -> None:
        self._jobs = jobs
        #: How long it may take; None is for ever.
        self.seconds = seconds if jobs is None else seconds or BURST_SECONDS
        self._random = random.Random(3)

    def __str__(self) -> str:
        if self._jobs is not None:
            return f"{self._jobs} jobs in {self.seconds:g} seconds"
        if self.seconds is None:
            return "jobs until Ctrl-C"
        return f"jobs for {self.seconds:g} seconds"

    @property
    def is_endless(self) -> bool:
        return self._jobs is None

    def studio(self, q: Kue) -> DemoJobs:
        if self._jobs is None or self.seconds is None:
            return DemoJobs(q)
        return DemoJobs(q, pace=self.seconds / SCRIPT_SECONDS)

    async def feed(self, q: Kue, studio: DemoJobs) -> None:
        """Let jobs come in."""
        if self._jobs is None or self.seconds is None:
            await self._feed_without_end(q, studio)
            return
        orders = studio.orders(self._jobs)
        ticks = max(1, round(self.seconds * OPEN_SHARE / LOOK_SECONDS))
        size = -(-len(orders) // ticks)
        for start in range(0, len(orders), size):
            await q.enqueue_many(orders[start : start + size])
            await asyncio.sleep(LOOK_SECONDS)

    async def _feed_without_end(self, q: Kue, studio: DemoJobs) -> None:
        await studio.begin()
        calm = 0.0
        while True:
            await q.enqueue_many(studio.orders(self._random.randint(*WAVE)))
            pause = self._random.uniform(*CALM_SECONDS)
            await asyncio.sleep(pause)
            calm += pause
            if calm > FILM_SECONDS:
                calm -= FILM_SECONDS
                await studio.film()


async def _demo(
    url: str, script: DemoPlan, listener: socket.socket | None, *, opens: bool
) -> None:
    console = output()
    async with Kue(url) as q:
        say(f"{script}; {await q.open()}")
        studio = script.studio(q)
        async with _dashboard(q, listener, opens=opens) as link:
            picture = view_for(console, link, is_brief=script.is_endless)
            with picture as view, _ended_by_signal() as ended:
                async with q.work(grace=GRACE_SECONDS):
                    feeding = script.feed(q, studio)
                    await _watch(q, feeding, view, ended, script.seconds)
        counts = await q.counts_by_type()
        console.print(counts_table(counts))
        if not script.is_endless and (left := _unfinished(counts)):
            console.print(f"{left} jobs had not ended when the time was over.")


def _listener(port: int | None) -> socket.socket:
    """Return where the dashboard is to listen; any free port if the usual is taken."""
    from kue.cli.commands import dashboard_server

    if port is not None:
        return dashboard_server.listener_for(DashboardOptions(port=port))
    try:
        return dashboard_server.listener_for(DashboardOptions())
    except ConfigError as exc:
        say(f"{exc}; this time a free one is taken")
        return dashboard_server.listener_for(DashboardOptions(port=0))


@asynccontextmanager
async def _dashboard(
    q: Kue, listener: socket.socket | None, *, opens: bool
) -> AsyncIterator[str]:
    """Serve the dashboard, if there is to be one, and give its address."""
    if listener is None:
        yield ""
        return
    from kue.cli.commands import dashboard_server

    site = DashboardOptions(badge="demo")
    async with dashboard_server.shown(q, site, listener) as one:
        say(f"the dashboard is at {one.url}")
        if opens:
            dashboard_server.open_browser(one.url)
        yield one.url


async def _watch(
    q: Kue,
    feeding: Coroutine[Any, Any, None],
    view: DemoView,
    ended: asyncio.Event,
    seconds: float | None,
) -> None:
    """Let jobs come in and show what becomes of them, until all of them ended."""
    try:
        async with asyncio.TaskGroup() as group:
            fed = group.create_task(feeding)
            tasks = [
                group.create_task(_show_until_done(q, view, fed)),
                group.create_task(_until(ended)),
            ]
            telling = group.create_task(_tell(q, view))
            await asyncio.wait(
                tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
            for task in (*tasks, fed, telling):
                task.cancel()
    except* KueError as errors:
        # The first says what is wrong; the others are the same from other tasks.
        raise errors.exceptions[0] from None


async def _show_until_done(q: Kue, view: DemoView, feeding: asyncio.Task[None]) -> None:
    while True:
        # Asked before counting: what came in since then is counted next time.
        was_fed = feeding.done()
        counts = await q.counts_by_type()
        view.show(counts, await q.range(0, RUNNING - 1, state=State.ACTIVE))
        if was_fed and not _unfinished(counts):
            return
        await asyncio.sleep(LOOK_SECONDS)


async def _tell(q: Kue, view: DemoView) -> None:
    async for event in q.events():
        view.tell(event)


async def _until(ended: asyncio.Event) -> None:
    await ended.wait()


@contextmanager
def _ended_by_signal() -> Iterator[asyncio.Event]:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in ENDING}
    heeded = [number for number in ENDING if before[number] is not signal.SIG_IGN]
    for number in heeded:
        loop.add_signal_handler(number, ended.set)
    try:
        yield ended
    finally:
        for number in heeded:
            loop.remove_signal_handler(number)
            signal.signal(number, before[number])


def _unfinished(counts: Counts) -> int:
    return sum(counts[type][state] for type in counts for state in UNFINISHED)


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

  {kue} up app:q
      runs its jobs and serves its dashboard until Ctrl-C
  {python} app.py
      adds one and waits for the result"""
