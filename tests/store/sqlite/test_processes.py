"""Several processes on one file: they hear of each other, and survive each other."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kue.model.events import Kind
from kue.model.job import Completed, State
from kue.store.sqlite.store import SqliteStore
from kue.store.values import Outcome, PageRequest
from tests.support.jobs import add_one, claim, count_of
from tests.support.listening import read_until
from tests.support.patience import PATIENCE_SECONDS

#: What every child begins with: a store on the file it is given, and a way to talk.
PRELUDE = """
import asyncio, itertools, sys, time
from kue.model.draft import draft
from kue.model.job import Completed
from kue.store.sqlite.store import SqliteStore
from kue.store.values import Claim, ClaimRequest, Outcome

store = SqliteStore.from_url(sys.argv[1])

def say(text):
    print(text, flush=True)
"""
ADD_ONE = """
async def main():
    sys.stdin.readline()
    await store.add([draft("email")], producer="child", seq=1)
    await store.close()
asyncio.run(main())
"""
#: Adds in batches of 20, saying which were confirmed, and works on what it finds.
WORK = """
async def main():
    out = []
    for n in itertools.count(1):
        drafts = [draft("email", {"n": n}, attempts=5) for _ in range(20)]
        added = await store.add(drafts, producer=sys.argv[2], seq=n)
        say(" ".join(str(job.id) for job in added))
        claim = Claim(sys.argv[2], n)
        request = ClaimRequest(["email"], 15, worker=sys.argv[2], claim=claim)
        _, claimed = await store.cycle(out, request)
        out = [Outcome(job, Completed()) for job in claimed.jobs]
asyncio.run(main())
"""
#: Has written half of a transaction and never gets to the other half.
STOP_HALF_WAY = """
def write(turn):
    turn.run("UPDATE jobs SET state = 'complete'")
    turn.run("DELETE FROM counts")
    say("half way")
    time.sleep(60)

async def main():
    await store._engine.write(write, now=None)
asyncio.run(main())
"""


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/kue.db"


@pytest.fixture
async def store(url: str) -> AsyncIterator[SqliteStore]:
    store = SqliteStore.from_url(url)
    await store.open()
    yield store
    assert (await store.check()).findings == ()
    await store.close()


@asynccontextmanager
async def child(code: str, *args: str) -> AsyncIterator[Process]:
    """Run *code* in a process of its own, which is killed in the end."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PRELUDE + code, *args),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def line_of(process: Process) -> str:
    assert process.stdout is not None
    async with asyncio.timeout(PATIENCE_SECONDS):
        return (await process.stdout.readline()).decode().strip()


def tell(process: Process) -> None:
    assert process.stdin is not None
    process.stdin.write(b"go\n")


async def test_who_waits_is_woken_by_another_process(
    store: SqliteStore, url: str
) -> None:
    async with child(ADD_ONE, url) as process:
        waiting = asyncio.create_task(store.wait(["email"], PATIENCE_SECONDS))
        tell(process)
        await waiting
        assert await process.wait() == 0

    assert await count_of(store) == {State.WAITING: 1}


async def test_who_listens_hears_what_another_process_does(
    store: SqliteStore, url: str
) -> None:
    async with child(ADD_ONE, url) as process, store.watch() as events:
        tell(process)
        [event] = await read_until(events, lambda event: event.kind is Kind.ENQUEUE)

    assert (event.job_id, event.type) == (1, "email")


async def test_a_process_killed_half_way_through_a_transaction_leaves_no_trace(
    store: SqliteStore, url: str
) -> None:
    ids = [await add_one(store) for _ in range(3)]
    before = await store.get(ids)
    async with child(STOP_HALF_WAY, url) as process:
        assert await line_of(process) == "half way"
        assert await store.get(ids) == before
        process.send_signal(signal.SIGKILL)
        await process.wait()

        assert await store.get(ids) == before
        assert await add_one(store) == 4


async def test_killed_workers_lose_no_job_that_was_confirmed(
    store: SqliteStore, url: str
) -> None:
    """Two at a time, each killed where it happens to be; the others go on."""
    confirmed: set[int] = set()
    for round_ in range(6):
        async with (
            child(WORK, url, f"a{round_}") as first,
            child(WORK, url, f"b{round_}") as second,
        ):
            for number in range(3 + round_):
                for process in (first, second):
                    if number or process is first:
                        confirmed.update(map(int, (await line_of(process)).split()))

    assert len(confirmed) >= 6 * 3 * 20
    assert (await count_of(store))[State.COMPLETE] > 0
    assert confirmed <= await all_ids(store)
    assert (await store.check()).findings == ()
    await drain(store)


async def all_ids(store: SqliteStore) -> set[int]:
    page = await store.page(PageRequest(limit=500))
    ids = {job.id for job in page.jobs}
    while page.cursor is not None:
        page = await store.page(PageRequest(limit=500, cursor=page.cursor))
        ids |= {job.id for job in page.jobs}
    return ids


async def drain(store: SqliteStore) -> None:
    """Take back what the dead had in hand, and run everything to its end."""
    now = await store.now()
    for worker in await store.workers():
        await store.leave(worker.name, now=now)
    await store.tend(now=now)
    await store.tend(now=now + 1)
    while jobs := await claim(store, limit=500, now=now + 10_000):
        await store.settle([Outcome(job, Completed()) for job in jobs])
    assert (await count_of(store)).keys() == {State.COMPLETE}


async def test_two_busy_processes_share_the_file_fairly(
    store: SqliteStore, url: str
) -> None:
    """Neither waits until the other is done; SQLite's own waiting would starve one."""
    async with child(WORK, url, "a") as first, child(WORK, url, "b") as second:
        await asyncio.gather(line_of(first), line_of(second))
        slowest = 0.0
        for _ in range(30):
            began = time.monotonic()
            await add_one(store, "other")
            slowest = max(slowest, time.monotonic() - began)

    # Far more than it takes on a busy machine, far less than the budget of a call.
    assert slowest < 2.0
