"""Tasks that are waited for and cancelled together."""

from __future__ import annotations

import asyncio

from kue.aio.tasks import wait_for_first


async def test_the_coroutines_that_did_not_end_first_are_cancelled() -> None:
    cancelled = asyncio.Event()

    async def wait_forever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    await wait_for_first(asyncio.sleep(0.01), wait_forever())
    await asyncio.wait_for(cancelled.wait(), 5)


async def test_a_task_of_the_caller_goes_on() -> None:
    release = asyncio.Event()
    task = asyncio.create_task(release.wait())

    await wait_for_first(asyncio.sleep(0), task)
    release.set()

    assert await task


async def test_the_wait_ends_after_the_timeout() -> None:
    started = asyncio.get_running_loop().time()

    await wait_for_first(asyncio.Event().wait(), timeout=0.01)

    assert asyncio.get_running_loop().time() - started < 5
