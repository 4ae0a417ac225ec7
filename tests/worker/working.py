"""A worker for one job."""

from __future__ import annotations

from typing import TypeVar

from kue import JobHandle, Kue
from tests.support.patience import PATIENCE_SECONDS

T = TypeVar("T")


async def worked(q: Kue, job: JobHandle[T]) -> T:
    """Work until *job* has ended; return or raise what its `result` does."""
    async with q.work():
        return await job.result(timeout=PATIENCE_SECONDS)
