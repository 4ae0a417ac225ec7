"""
A process that a test may kill: ``python -m tests.faults.program ROLE URL PREFIX NAME``.

It says on a line of its own what is so by then, and does nothing it has not been asked
for: the test that started it reads those lines and decides when it dies.
"""

from __future__ import annotations

import asyncio
import itertools
import sys

from kue import Kue
from kue.model import settings
from kue.model.draft import draft
from kue.model.job import Completed, Error, Job
from kue.store import store_for
from kue.store.contract import Store
from kue.store.values import Claim, ClaimRequest, Outcome, RenewRequest
from kue.worker.active_job import ActiveJob
from tests.support.leases import PATIENT_LEASE_SECONDS, SHORT_LEASE_SECONDS

TYPE = "email"
#: What the role "add" adds, unless it is killed before.
MAX_BATCHES = 1000
MAX_BATCH = 10
#: Lease of the role "hold", in ms.
LEASE_MS = 600
#: Names that say how long the lease of the role "run" is.
VICTIM, PATIENT = "victim", "patient"
LEASES = {VICTIM: SHORT_LEASE_SECONDS, PATIENT: PATIENT_LEASE_SECONDS}


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


async def add(store: Store, name: str) -> None:
    """Add a lot; say the ids of each batch once it was acknowledged."""
    for seq in range(1, MAX_BATCHES + 1):
        batch = [draft(TYPE, {"by": name, "seq": seq})] * (1 + seq % MAX_BATCH)
        added = await store.add(batch, producer=name, seq=seq)
        say(*(one.id for one in added))
    await asyncio.Event().wait()


async def work(store: Store, name: str) -> None:
    """Run jobs until there are none; say each as it is started and once it ended."""
    ended: list[Outcome] = []
    for seq in itertools.count(1):
        words, claimed = await store.cycle(
            ended, ClaimRequest([TYPE], 7, worker=name, claim=Claim("a", seq))
        )
        for outcome, word in zip(ended, words, strict=True):
            say("ended", outcome.job.id, word)
        for job in claimed.jobs:
            say("started", job.id)
        ended = [Outcome(job, Completed(name)) for job in claimed.jobs]
        if not ended:
            return


async def hold(store: Store, name: str) -> None:
    """Start one job and keep it; end it when a line comes in, and say how that went."""
    claimed = await store.claim(
        ClaimRequest([TYPE], 1, worker=name, claim=Claim("a", 1), lease=LEASE_MS)
    )
    [job] = claimed.jobs
    say("started", job.id, job.token)
    await asyncio.to_thread(sys.stdin.readline)
    renewed = await store.renew(RenewRequest(name, runs=[job], lease=LEASE_MS))
    [word] = await store.settle([Outcome(job, Completed(name))])
    say("lost" if renewed.lost else "kept", word)


async def run(url: str, prefix: str, name: str) -> None:
    """Be a real worker, whose handler takes as long as its job says."""
    queue = Kue(url, prefix=prefix, lease=LEASES[name])

    @queue.process(TYPE, 5)
    async def handle(job: ActiveJob) -> int:
        say("started", job.id, job.attempt)
        await asyncio.sleep(job.data["seconds"])
        say("returned", job.id)
        return job.fence

    say("ready")
    async with queue:
        await queue.run(grace=5)


async def run_hooks(url: str, prefix: str, name: str) -> None:
    """Be a worker with a failure hook, which says each call; jobs hang, or raise."""
    queue = Kue(url, prefix=prefix, lease=LEASES[name], max_stalls=0)

    @queue.on_failure
    async def bury(job: Job, error: Error) -> None:
        say("hook", job.id, error.kind)

    @queue.task(name=TYPE, concurrency=3, attempts=1)
    async def handle(job: ActiveJob, hangs: bool) -> None:
        say("started", job.id)
        if hangs:
            await asyncio.Event().wait()
        raise ValueError("oops")

    say("ready")
    async with queue:
        await queue.run(grace=0)


async def tend(store: Store, name: str) -> None:
    """Make one pass of maintenance after the other, also when none is due."""
    while True:
        await store.tend(now=await store.now())


WORKERS = {"run": run, "run_hooks": run_hooks}
ROLES = {"add": add, "work": work, "hold": hold, "tend": tend}


async def main(role: str, url: str, prefix: str, name: str) -> None:
    if role in WORKERS:
        await WORKERS[role](url, prefix, name)
        return
    store = store_for(settings.load(environ={}, url=url, prefix=prefix))
    await store.open()
    say("ready")
    try:
        await ROLES[role](store, name)
    finally:
        await store.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
