"""
A worker under a circuit breaker: ``python -m tests.faults.program_circuit``.

Given ROLE URL PREFIX NAME, it runs jobs of type NAME until it is killed.  The role is
how long its lease is: "short" or "patient".
"""

from __future__ import annotations

import asyncio
import sys

import kue
from kue import ActiveJob, Kue
from tests.faults.program import say
from tests.support.leases import PATIENT_LEASE_SECONDS, SHORT_LEASE_SECONDS

CIRCUIT = "stripe"
FAILURES = 4
LEASES = {"short": SHORT_LEASE_SECONDS, "patient": PATIENT_LEASE_SECONDS}


class ProviderDown(Exception):
    """What the circuit counts."""


breaker = kue.circuit_breaker(
    CIRCUIT, on=ProviderDown, failures=FAILURES, within="1d", open_for="1h"
)


async def call(job: ActiveJob) -> None:
    """Fail, return, or hang in the hands of the first worker that has it."""
    say("started", job.id)
    match job.data:
        case "fail":
            raise ProviderDown("503")
        case "hang" if not job.job.stalls:
            await asyncio.Event().wait()


async def main(role: str, url: str, prefix: str, name: str) -> None:
    async with Kue(url, prefix=prefix, lease=LEASES[role]) as q:
        q.middleware(breaker)
        q.process(name, 5, call)
        say("ready")
        await q.run(signals=False)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:5]))
