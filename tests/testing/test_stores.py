"""Jobs of a queue on any store can be run in a test."""

from __future__ import annotations

import pytest

import kue
from kue.testing import run_all


async def test_what_is_due_is_run_on_every_store(q: kue.Kue) -> None:
    @q.task
    async def greet() -> str:
        return "hello"

    job = await greet.enqueue()
    await greet.options(delay="1d").enqueue()

    assert await run_all(q) == 1
    assert await job.result() == "hello"
    with pytest.raises(kue.ConfigError, match="has no clock to set forward"):
        await run_all(q, advance="1d")
