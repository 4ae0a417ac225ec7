"""What the worker of a test runs: ``kue worker tests.browser.tasks:q``."""

from __future__ import annotations

import asyncio
import os

from kue import ActiveJob, Kue

q = Kue(os.environ.get("KUE_URL", "memory://"))


@q.task(attempts=1)
async def email(to: str = "") -> str:
    """End at once, and well."""
    return f"sent to {to}"


@q.task(attempts=1)
async def broken(message: str = "oops") -> None:
    """Fail."""
    raise ValueError(message)


@q.task(attempts=1)
async def steps(job: ActiveJob, count: int = 10) -> int:
    """Tell progress and log a line, *count* times, a moment apart."""
    for number in range(1, count + 1):
        job.log(f"step {number} of {count}")
        job.progress(number, count)
        # So that whoever looks on sees it move.
        await asyncio.sleep(0.2)
    return count
