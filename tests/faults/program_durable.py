"""
A worker whose process dies after a step: ``python -m tests.faults.program_durable``.

Arguments: the step after which it kills itself (or none), the URL, the prefix, and a
file to which each step adds a line.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from kue import ActiveJob, Kue
from tests.faults.program import say
from tests.faults.program_steps import die
from tests.support.leases import PATIENT_LEASE_SECONDS

TYPE = "order"
STEPS = ("charge", "ship", "mail")


def effect(path: Path, name: str) -> str:
    """Do something that the world can see."""
    with path.open("a") as file:
        file.write(f"{name}\n")
    return f"{name} done"


async def main(last: str, url: str, prefix: str, effects: str) -> None:
    queue = Kue(url, prefix=prefix, lease=PATIENT_LEASE_SECONDS)

    async def handle(job: ActiveJob) -> list[str]:
        done = []
        for name in STEPS:
            done.append(await job.step(name, effect, Path(effects), name))
            if name == last:
                die()
        return done

    queue.process(TYPE, 1, handle)
    say("ready")
    async with queue:
        await queue.run(grace=0)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
