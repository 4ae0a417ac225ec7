"""
A worker that sends chunks, and dies: ``python -m tests.faults.program_stream``.

Arguments: after how many chunks it kills itself (0 for never), the URL, the prefix and
a name.
"""

from __future__ import annotations

import asyncio
import sys

from kue import ActiveJob, Kue
from tests.faults.program import say
from tests.faults.program_steps import die
from tests.support.leases import PATIENT_LEASE_SECONDS, SHORT_LEASE_SECONDS

TYPE = "talk"
CHUNKS = 20


async def main(last: str, url: str, prefix: str, name: str) -> None:
    lease = SHORT_LEASE_SECONDS if int(last) else PATIENT_LEASE_SECONDS
    queue = Kue(url, prefix=prefix, lease=lease)

    async def handle(job: ActiveJob) -> None:
        for number in range(CHUNKS):
            await job.send([job.fence, number])
            if number + 1 == int(last):
                # What it dies with is in the store, and can be read.
                assert job.outbox is not None
                await job.outbox.flush()
                die()

    queue.process(TYPE, 1, handle)
    say("ready")
    async with queue:
        await queue.run(name=name, grace=0)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
