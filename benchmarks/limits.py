"""
How exactly a rate by key is kept and used, by ten workers.

``python -m benchmarks.limits`` gives 50 keys a rate of 100 starts a second, and more
jobs than that allows.  It reports the most starts of one key in any second, by the
clock of the store, the share of the rate that was used, and the commands that Redis
gets while all jobs wait for a rate that lets none start.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

import click
import uvloop
from rich.console import Console
from rich.table import Table
from tests.support.servers import RedisServer

import kue
from kue.model.draft import draft

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    import redis

WORKERS, KEYS, RATE, SECONDS = 10, 50, 100, 10
#: How long Redis is watched while all jobs wait.
PARKED_SECONDS = 10.0
TYPE, LIMIT = "call", "api"


class RateFigures(NamedTuple):
    """What one run measured."""

    #: The most starts of one key within any second; the rate allows `RATE`.
    most_in_a_second: int
    #: Of what the rate allows in the time.
    used: float
    #: Commands a second while nothing may start; None for SQLite.
    parked_commands: float | None


@click.command()
@click.option("--only", type=click.Choice(["redis", "sqlite"]), help="One engine only.")
def main(only: str | None) -> None:
    """Measure rates by key on both engines; write build/limits.json."""
    found = {}
    with TemporaryDirectory() as folder:
        if only != "sqlite":
            server = RedisServer(Path(folder))
            try:
                with server.client() as client:
                    found["redis"] = uvloop.run(_measure(server.url, client))
            finally:
                server.stop()
        if only != "redis":
            url = f"sqlite:///{folder}/kue.db"
            found["sqlite"] = uvloop.run(_measure(url, None))
    _report(found)


async def _measure(url: str, client: redis.Redis | None) -> RateFigures:
    starts: dict[str, list[int]] = defaultdict(list)
    async with AsyncExitStack() as stack:
        q = await stack.enter_async_context(_queue(url, starts))
        await q.set_limit(LIMIT, kue.rate(f"{RATE}/s"))
        # Half a second more than can start, so that jobs wait to the end.
        await _fill(q, int(RATE * (SECONDS + 0.5)))
        workers = [
            await stack.enter_async_context(_queue(url, starts)) for _ in range(WORKERS)
        ]
        running = [asyncio.create_task(worker.run()) for worker in workers]
        await asyncio.sleep(SECONDS)
        total = sum(len(moments) for moments in starts.values())
        commands = None if client is None else await _parked(q, client)
        for task in running:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
    most = max(_most_in_a_second(sorted(moments)) for moments in starts.values())
    # One window more than seconds: the first second may start with a full one.
    return RateFigures(most, total / (KEYS * RATE * SECONDS), commands)


@asynccontextmanager
async def _queue(url: str, starts: dict[str, list[int]]) -> AsyncIterator[kue.Kue]:
    q = kue.Kue(url)

    @q.process(TYPE, 200)
    async def call(job: kue.ActiveJob) -> None:
        run = job.job.run
        assert run is not None
        starts[job.job.limited_by[0][1]].append(run.started_at)

    try:
        yield q
    finally:
        await q.close()


async def _fill(q: kue.Kue, per_key: int) -> None:
    """Add jobs of all keys in turn."""
    await q.enqueue_many(
        draft(TYPE, limited_by={LIMIT: str(key)}, remove_on_complete=True)
        for _ in range(per_key)
        for key in range(KEYS)
    )


async def _parked(q: kue.Kue, client: redis.Redis) -> float:
    """Return the commands a second while all jobs wait for a rate."""
    await q.set_limit(LIMIT, kue.rate("1/h"))
    await _fill(q, 20)
    await asyncio.sleep(3)
    before = _commands(client)
    await asyncio.sleep(PARKED_SECONDS)
    return (_commands(client) - before) / PARKED_SECONDS


def _commands(client: redis.Redis) -> int:
    """Return the commands that Redis ran so far, inside scripts too."""
    stats = client.info("commandstats")
    assert isinstance(stats, dict)
    return sum(int(each["calls"]) for each in stats.values())


def _most_in_a_second(moments: list[int]) -> int:
    return max(_counts(moments), default=0)


def _counts(moments: list[int]) -> Iterator[int]:
    """Yield how many of *moments* lie in the second up to each."""
    first = 0
    for last, moment in enumerate(moments):
        while moments[first] <= moment - 1000:
            first += 1
        yield last - first + 1


def _report(found: dict[str, RateFigures]) -> None:
    table = Table(title=f"{RATE}/s by key, {KEYS} keys, {WORKERS} workers, {SECONDS} s")
    for title in ("engine", "most in any second", "used", "commands/s while waiting"):
        table.add_column(title)
    for engine, one in found.items():
        parked = "" if one.parked_commands is None else f"{one.parked_commands:.0f}"
        table.add_row(engine, str(one.most_in_a_second), f"{one.used:.1%}", parked)
    Console().print(table)
    path = Path("build/limits.json")
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({name: one._asdict() for name, one in found.items()}))


if __name__ == "__main__":
    main()
