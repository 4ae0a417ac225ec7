"""Which commands the engine sends to Redis."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import closing
from typing import Any

import pytest

from kue.model.draft import draft
from kue.model.job import Completed, State
from kue.store.contract import Store
from tests.support.engines import engine_at
from tests.support.jobs import claim_one, end, get_one
from tests.support.servers import RedisServer

#: In commands of the monitor: the end of what is looked at.
END = "end of the test"
#: What scripts are called by.
SCRIPT = "EVALSHA"


@pytest.fixture
async def redis_store(redis_server: RedisServer) -> AsyncIterator[Store]:
    store = engine_at("redis", redis_server.url).new_store()
    await store.open()
    yield store
    assert (await store.check()).findings == ()
    await store.close()


async def commands(
    server: RedisServer, work: Callable[[], Awaitable[object]]
) -> tuple[list[str], list[str]]:
    """Return the commands that clients sent during *work*, and those of scripts."""
    sent: list[str] = []
    by_scripts: list[str] = []
    with closing(server.client()) as client, closing(server.client()) as ending:
        # Connected before, so that only the work is seen.
        ending.ping()
        monitor: Any = client.monitor().__enter__()  # type: ignore[no-untyped-call]
        await work()
        ending.echo(END)
        for seen in monitor.listen():
            if END in seen["command"]:
                return sent, by_scripts
            words = by_scripts if seen["client_type"] == "lua" else sent
            words.append(seen["command"].split()[0].upper())
    raise AssertionError("the monitor came to an end")


@pytest.mark.parametrize(
    "options",
    [{"unique": "k"}, {"delay": "1h"}, {"ttl": "1m", "expires": "1h"}],
    ids=["unique", "delayed", "limited"],
)
async def test_a_job_is_added_by_one_command(
    redis_server: RedisServer, redis_store: Store, options: dict[str, Any]
) -> None:
    """D-24, K-5: there is no moment between two writes in which to crash."""
    # The script is known to the server after this.
    await redis_store.add([draft("email")], producer="p", seq=1)

    job = draft("email", **options)
    sent, by_scripts = await commands(
        redis_server, lambda: redis_store.add([job], producer="p", seq=2)
    )

    assert sent == [SCRIPT]
    assert "SET" in by_scripts or "MSET" in by_scripts


async def test_a_job_is_claimed_by_one_command(
    redis_server: RedisServer, redis_store: Store
) -> None:
    """K-1: it is never out of its queue and not yet leased to a worker."""
    await redis_store.add([draft("email")] * 2, producer="p", seq=1)
    await claim_one(redis_store, "email", now=None)

    sent, by_scripts = await commands(
        redis_server, lambda: claim_one(redis_store, "email", now=None)
    )

    assert sent == [SCRIPT]
    assert "HSET" in by_scripts


async def test_keys_are_never_searched_for(
    redis_server: RedisServer, redis_store: Store
) -> None:
    """U-10: types are in a set of their own, and maintenance reads an agenda."""
    store = redis_store

    async def live() -> None:
        for type in ("sms", "email"):
            await store.add([draft(type)], producer=type, seq=1)
            job = await claim_one(store, type, now=await store.now())
            await end(store, job, Completed(), now=await store.now())
        assert await store.types() == ["email", "sms"]
        await store.count()
        await store.tend()
        await store.workers()

    sent, by_scripts = await commands(redis_server, live)

    assert not {"KEYS", "SCAN", "RANDOMKEY"} & {*sent, *by_scripts}


async def test_the_clock_of_a_caller_decides_nothing(
    redis_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K-8: hosts whose clocks are a day ahead, or behind, see the same times."""
    true, real = await redis_store.now(), time.time_ns

    for number, days in enumerate((1, -1)):
        off = days * 86_400
        monkeypatch.setattr(time, "time_ns", lambda off=off: real() + off * 10**9)
        monkeypatch.setattr(time, "time", lambda off=off: real() / 1e9 + off)
        later = draft("email", delay="1h")
        [added] = await redis_store.add([later], producer="p", seq=number + 1)
        assert (await redis_store.tend()).promoted == 0
        job = await get_one(redis_store, added.id)
        assert job.state is State.DELAYED
        assert true <= job.created_at <= true + 3_600_000
        assert abs(await redis_store.now() - true) < 3_600_000
