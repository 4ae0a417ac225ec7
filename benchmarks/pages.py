"""
Load times of the dashboard's pages on a full store.

``python -m benchmarks.pages`` fills a separate store with a million jobs of 50 types,
of which half failed, and starts a server.  It measures the requests of the pages and
whole searches over HTTP, each page in a real browser, and a first visit to each over a
slow connection.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click
import httpx
import uvloop
from tests.browser.chromium import launched
from tests.support.servers import HOST, RedisServer

import kue
from benchmarks.serving import MEGABYTE, started
from kue.model.job import Error, Failed
from kue.store.values import MAX_BATCH, Claim, ClaimRequest, Outcome

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from playwright.async_api import Browser

    from benchmarks.serving import Serving

TYPES = (
    *("email", "invoice", "report", "thumbnail", "webhook"),
    *(f"type-{number}" for number in range(45)),
)
#: A type with few jobs among very many of others, and how many they are.
RARE, RARE_JOBS = "rare", 100
ERRORS = (
    ("TimeoutError", "no answer from mail.example.com after {} s"),
    ("ConnectionError", "connection {} refused"),
    ("ValueError", "the amount of invoice {} is negative"),
    ("KeyError", "'customer_{}'"),
)
#: Jobs added in one call.
PIECE = 10_000
ROUNDS = 5
#: The round-trip time of the slow connection, in seconds.
ROUND_TRIP = 0.1

#: Keeps the time at which a page shows its data.
NOTE_WHEN_SHOWN = """
new MutationObserver(() => {
  if (document.querySelector("main[data-ready]")) window.shown ??= performance.now();
}).observe(document, { subtree: true, childList: true, attributes: true });
"""
#: When the files were loaded, when the data was shown, and the number of requests.
VISIT = """() => [
  performance.getEntriesByType("navigation")[0].loadEventEnd,
  window.shown,
  performance.getEntriesByType("resource").length + 1,
]"""

#: The requests of the pages, below /api/v1.
REQUESTS = (
    "/stats",
    "/stats/history",
    "/stats/history?step=hour",
    "/queues",
    "/queues/email",
    "/jobs",
    "/jobs?state=failed&limit=200",
    "/jobs?state=waiting&type=email",
    f"/jobs?type={RARE}",
    f"/jobs?type={RARE}&text=nobody+says+this",
    "/jobs?state=failed&tag=nobody-has-this",
    "/jobs?data.n=7",
    "/jobs?text=nobody+says+this",
    "/jobs/1",
    "/jobs/1/logs",
    "/errors",
    "/workers",
    "/metrics",
)
#: Searches that look at all jobs, or at all failed ones.
SEARCHES = (
    "text=nobody+says+this",
    "text=no+answer+mail.example.com+nobody",
    "state=failed&text=nobody+says+this",
    "text=%E6%BC%A2%E5%AD%97",
)
PAGES = (
    "/",
    "/queues",
    "/queues/email",
    "/jobs",
    "/jobs?state=failed",
    "/jobs?state=failed&type=email&tag=nobody-has-this",
    "/jobs/1",
    "/errors",
    "/workers",
    "/metrics",
)


@click.command()
@click.option("--jobs", default=1_000_000, show_default=True, help="Half of them fail.")
@click.option("--browser/--no-browser", default=True, help="Whether to open pages.")
@click.option(
    "--engine",
    type=click.Choice(["redis", "sqlite"]),
    default="redis",
    show_default=True,
)
def main(jobs: int, browser: bool, engine: str) -> None:
    """
    Measure the load times of pages on a full store.

    Needs chromium and redis-server in PATH, and starts both.
    """
    with TemporaryDirectory() as folder, _store(engine, Path(folder)) as url:
        uvloop.run(_measure(url, jobs, opens=browser))


@contextmanager
def _store(engine: str, folder: Path) -> Iterator[str]:
    if engine == "sqlite":
        yield f"sqlite:///{folder}/kue.db"
        return
    server = RedisServer(folder)
    try:
        yield server.url
    finally:
        server.stop()


async def _measure(url: str, jobs: int, *, opens: bool) -> None:
    async with kue.Kue(url) as q:
        began = time.monotonic()
        await _fill(q, jobs)
        print(f"{jobs:,} jobs, half of them failed, in {_since(began):.0f} s\n")
    async with started(url) as server:
        alone = server.memory
        await _request(server)
        print()
        await _search(server)
        print()
        if opens:
            await _open_all(server.port)
        print(f"server's memory alone, MB  {alone / MEGABYTE:.1f}")
        print(f"after all of it, MB        {server.memory / MEGABYTE:.1f}")


async def _open_all(port: int) -> None:
    async with launched() as browser:
        await _open(port, browser)
        print(f"\nthe same with a round-trip time of {ROUND_TRIP * 1000:.0f} ms")
        async with _slow_connection(port) as far:
            await _open(far, browser)
    print()


async def _fill(q: kue.Kue, jobs: int) -> None:
    for first in range(0, jobs, PIECE):
        await q.enqueue_many(
            TYPES[first // PIECE % len(TYPES)],
            ({"n": n, "to": f"user-{n}@example.com"} for n in range(PIECE)),
        )
        few = max(1, RARE_JOBS * PIECE // jobs)
        await q.enqueue_many(RARE, ({"n": n} for n in range(few)))
    claim = Claim("fill", 0)
    failed = 0
    while failed < jobs // 2:
        claim = Claim(claim.lane, claim.seq + 1)
        claimed = await q.store.claim(
            ClaimRequest(TYPES, MAX_BATCH, worker="filler", claim=claim)
        )
        outcomes = []
        for job in claimed.jobs:
            kind, message = ERRORS[job.id % len(ERRORS)]
            outcomes.append(Outcome(job, Failed(Error(kind, message.format(job.id)))))
        await q.store.settle(outcomes)
        failed += len(outcomes)
    await q.store.leave("filler")


async def _request(server: Serving) -> None:
    address = f"http://{HOST}:{server.port}/api/v1"
    print(f"{'request':54}{'median ms':>10}{'worst ms':>10}")
    async with httpx.AsyncClient(timeout=60) as client:
        for path in REQUESTS:
            taken = []
            for _ in range(ROUNDS):
                began = time.monotonic()
                (await client.get(address + path)).raise_for_status()
                taken.append(_since(began) * 1000)
            print(f"{path:54}{median(taken):10.0f}{max(taken):10.0f}")


async def _search(server: Serving) -> None:
    """Time searches that find nothing, request by request, up to their end."""
    address = f"http://{HOST}:{server.port}/api/v1/jobs"
    print(f"{'search to the end':54}{'s':>10}{'requests':>10}{'worst ms':>10}")
    async with httpx.AsyncClient(timeout=60) as client:
        for query in SEARCHES:
            taken, cursor = [], ""
            while cursor is not None:
                began = time.monotonic()
                where = f"&cursor={cursor}" if cursor else ""
                answer = await client.get(f"{address}?{query}{where}")
                cursor = answer.raise_for_status().json()["cursor"]
                taken.append(_since(began))
            worst = max(taken) * 1000
            print(f"{query:54}{sum(taken):10.1f}{len(taken):10}{worst:10.0f}")


async def _open(port: int, browser: Browser) -> None:
    """Time first visits by the clock of the page, from the request of its address."""
    print(f"{'page':54}{'loaded ms':>10}{'shown ms':>10}{'requests':>10}")
    for path in PAGES:
        visits = [
            await _visit(f"http://{HOST}:{port}{path}", browser) for _ in range(ROUNDS)
        ]
        loaded, shown, requests = map(median, zip(*visits, strict=True))
        print(f"{path:54}{loaded:10.0f}{shown:10.0f}{requests:10.0f}")


async def _visit(url: str, browser: Browser) -> list[float]:
    """Return when the files were loaded and the data shown, and how many requests."""
    context = await browser.new_context()
    await context.add_init_script(NOTE_WHEN_SHOWN)
    page = await context.new_page()
    await page.goto(url, wait_until="commit")
    await page.wait_for_selector("main[data-ready]")
    visit: list[float] = await page.evaluate(VISIT)
    await context.close()
    return visit


@asynccontextmanager
async def _slow_connection(target: int) -> AsyncIterator[int]:
    """Yield a port that leads to *target*, as if that were far away."""
    loop = asyncio.get_running_loop()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A page that is left drops its connections.
        with suppress(ConnectionError):
            while data := await reader.read(65_536):
                loop.call_later(ROUND_TRIP / 2, writer.write, data)
        loop.call_later(ROUND_TRIP / 2, writer.close)

    async def connect(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        # The client has to wait for the handshake of TCP.
        await asyncio.sleep(ROUND_TRIP)
        there, back = await asyncio.open_connection(HOST, target)
        await asyncio.gather(relay(reader, back), relay(there, writer))

    server = await asyncio.start_server(connect, HOST, 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


def _since(began: float) -> float:
    return time.monotonic() - began


if __name__ == "__main__":
    main(prog_name="python -m benchmarks.pages")
