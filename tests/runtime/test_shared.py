"""
Shared maps, locks and counters, as `kue.runtime.shared.contract` says they are.

In the runtime itself, in a Redis, and in a Redis Cluster.
"""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kue.model.errors import BadPayload
from kue.runtime import AsyncMap, Counter, LockTimedOut, Runtime, SharedData
from kue.runtime.shared.redis import RedisShared
from tests.runtime.waiting import Signal
from tests.support.patience import PATIENCE_SECONDS, until
from tests.support.servers import RedisCluster, RedisServer


@pytest.fixture(params=["local", "redis", "redis-cluster"])
async def threaded(request: pytest.FixtureRequest) -> AsyncIterator[Runtime]:
    """A runtime of two threads, with shared data of each kind."""
    wide = None
    if request.param == "redis":
        server: RedisServer = request.getfixturevalue("redis_server")
        wide = RedisShared(server.url, prefix=uuid.uuid4().hex)
    elif request.param == "redis-cluster":
        cluster: RedisCluster = request.getfixturevalue("redis_cluster")
        wide = RedisShared(cluster.url(shards=1), prefix=uuid.uuid4().hex)
    async with Runtime(loops=2, shared=wide) as runtime:
        yield runtime


@pytest.fixture
def shared(threaded: Runtime) -> SharedData:
    return threaded.shared


@pytest.fixture
async def table(shared: SharedData) -> AsyncMap:
    return await shared.map("table")


@pytest.fixture
async def counter(shared: SharedData) -> Counter:
    return await shared.counter("visits")


# -- maps ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "value", [1, 1.5, True, "text", "", [1, [2]], {"a": {"b": None}}, 10**30]
)
async def test_what_was_put_last_is_got(table: AsyncMap, value: Any) -> None:
    assert await table.get("key") is None
    await table.put("key", "old")
    await table.put("key", value)

    assert await table.get("key") == value
    assert await table.size() == 1


async def test_maps_of_one_name_are_one_map(shared: SharedData) -> None:
    await (await shared.map("one")).put("key", 1)

    assert await (await shared.map("one")).get("key") == 1
    assert await (await shared.map("other")).get("key") is None


async def test_everybody_gets_a_copy(table: AsyncMap) -> None:
    value = {"items": [1]}
    await table.put("key", value)

    value["items"].append(2)
    (await table.get("key"))["items"].append(3)

    assert await table.get("key") == {"items": [1]}


async def test_a_value_is_put_only_where_there_is_none(table: AsyncMap) -> None:
    assert await table.put_if_absent("key", 1) is None
    assert await table.put_if_absent("key", 2) == 1
    assert await table.get("key") == 1


async def test_what_is_removed_is_returned(table: AsyncMap) -> None:
    await table.put("key", 1)

    assert await table.remove("key") == 1
    assert await table.remove("key") is None
    assert await table.get("key") is None


async def test_a_value_is_removed_if_it_is_the_one_that_was_meant(
    table: AsyncMap,
) -> None:
    await table.put("key", {"a": 1, "b": 2})

    assert not await table.remove_if_present("key", {"a": 1})
    assert not await table.remove_if_present("other", {"a": 1, "b": 2})
    assert await table.remove_if_present("key", {"b": 2, "a": 1})
    assert await table.size() == 0


async def test_only_what_is_there_is_replaced(table: AsyncMap) -> None:
    assert await table.replace("key", 1) is None
    assert not await table.replace_if_present("key", 1, 2)
    assert await table.size() == 0

    await table.put("key", 1)
    assert await table.replace("key", 2) == 1
    assert not await table.replace_if_present("key", 1, 3)
    assert await table.get("key") == 2
    assert await table.replace_if_present("key", 2, 3)
    assert await table.get("key") == 3


@pytest.mark.parametrize("alike", [1.0, True, "1"])
async def test_values_that_only_look_alike_are_not_equal(
    table: AsyncMap, alike: Any
) -> None:
    await table.put("key", 1)

    assert not await table.remove_if_present("key", alike)


async def test_keys_values_and_entries_are_listed(table: AsyncMap) -> None:
    await table.put("a", 1)
    await table.put("b", [2])

    assert sorted(await table.keys()) == ["a", "b"]
    assert sorted(await table.values(), key=str) == [1, [2]]
    assert await table.entries() == {"a": 1, "b": [2]}
    assert await table.size() == 2


async def test_a_map_is_cleared(table: AsyncMap) -> None:
    await table.put("a", 1)
    await table.put("b", 2, ttl="1h")

    await table.clear()

    assert await table.entries() == {}


async def test_none_is_neither_a_key_nor_a_value(table: AsyncMap) -> None:
    nothing: Any = None

    with pytest.raises(TypeError):
        await table.put(nothing, 1)
    with pytest.raises(TypeError, match="must not be None"):
        await table.put("key", None)
    with pytest.raises(TypeError):
        await table.put_if_absent("key", None)
    with pytest.raises(TypeError):
        await table.replace_if_present("key", 1, None)
    with pytest.raises(TypeError):
        await table.get(nothing)


async def test_a_value_is_json_of_no_more_than_the_limit(table: AsyncMap) -> None:
    with pytest.raises(BadPayload):
        await table.put("key", object())
    with pytest.raises(BadPayload, match="the limit is"):
        await table.put("key", "x" * 300_000)

    assert await table.size() == 0


@pytest.mark.parametrize("key", ["", "x" * 201, "line\nbreak"])
async def test_a_key_has_limits(table: AsyncMap, key: str) -> None:
    with pytest.raises(ValueError, match="a key"):
        await table.put(key, 1)


async def test_an_entry_with_a_ttl_ends(table: AsyncMap) -> None:
    began = time.monotonic()
    await table.put("brief", 1, ttl="30ms")
    await table.put_if_absent("absent", 1, ttl="10ms")
    await table.put("lasting", 1)

    await gone(table, "absent")
    await gone(table, "brief")

    # Loops count in milliseconds.
    assert time.monotonic() - began >= 0.029
    assert await table.keys() == ["lasting"]
    assert await table.put_if_absent("brief", 2) is None


async def test_a_value_without_a_ttl_in_the_place_of_one_with_it_stays(
    table: AsyncMap,
) -> None:
    await table.put("key", 1, ttl="700ms")
    await table.put("key", 2)
    await table.put("other", 1, ttl="700ms")
    await table.replace("other", 2)
    await table.put("later", 1, ttl="700ms")

    await gone(table, "later")

    assert await table.entries() == {"key": 2, "other": 2}


async def test_a_longer_ttl_takes_the_place_of_a_shorter(table: AsyncMap) -> None:
    await table.put("key", 1, ttl="20ms")
    await table.put("key", 1, ttl="1h")
    await table.put("later", 1, ttl="40ms")

    await gone(table, "later")

    assert await table.get("key") == 1


@pytest.mark.parametrize("ttl", [0, -1])
async def test_a_ttl_is_at_least_a_millisecond(table: AsyncMap, ttl: int) -> None:
    with pytest.raises(ValueError, match="ttl"):
        await table.put("key", 1, ttl=ttl)


async def test_of_many_who_put_if_absent_one_succeeds(
    shared: SharedData, threaded: Runtime
) -> None:
    async def put(number: int) -> bool:
        table = await shared.map("race")
        return await table.put_if_absent("key", number) is None

    calls = [threaded.context().call(put, number) for number in range(50)]

    assert sum(await asyncio.gather(*calls)) == 1


async def gone(table: AsyncMap, key: str) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        # Nobody is told of it.
        while await table.get(key) is not None:  # noqa: ASYNC110
            await asyncio.sleep(0.002)


async def test_maps_with_a_ttl_locks_and_counters_are_shared(
    shared: SharedData, threaded: Runtime
) -> None:
    async def use() -> int:
        async with await shared.lock("door"):
            table = await shared.map("table")
            number = await table.get("visits") or 0
            await asyncio.sleep(0)
            await table.put("visits", number + 1)
        return await (await shared.counter("visits")).increment_and_get()

    counted = await asyncio.gather(*(threaded.context().call(use) for _ in range(9)))
    table = await shared.map("table")
    await table.put("brief", 1, ttl="10ms")
    await gone(table, "brief")

    assert sorted(counted) == list(range(1, 10))
    assert await table.entries() == {"visits": 9}


# -- locks ---------------------------------------------------------------------
# -- locks ---------------------------------------------------------------------


async def test_a_lock_is_held_by_one_at_a_time(
    shared: SharedData, threaded: Runtime
) -> None:
    inside, most = 0, 0

    async def enter() -> None:
        nonlocal inside, most
        async with await shared.lock("door"):
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0)
            inside -= 1

    await asyncio.gather(*(threaded.context().call(enter) for _ in range(50)))

    assert most == 1


async def test_who_came_first_is_served_first_and_nobody_pushes_in(
    shared: SharedData,
) -> None:
    seen: list[int] = []
    first = await shared.lock("door")

    async def enter(number: int) -> None:
        async with await shared.lock("door"):
            seen.append(number)

    tasks = []
    for number in range(20):
        tasks.append(asyncio.create_task(enter(number)))
        # In this order.
        await asyncio.sleep(0)
    await first.release()
    await enter(20)
    await asyncio.gather(*tasks)

    assert seen == list(range(21))


async def test_who_waits_too_long_is_told(shared: SharedData) -> None:
    await shared.lock("door")

    with pytest.raises(LockTimedOut, match="Timed out waiting to get lock 'door'"):
        await shared.lock("door", timeout="10ms")
    with pytest.raises(TimeoutError):
        await shared.lock("door", timeout=0)


async def test_who_gave_up_does_not_get_the_lock(shared: SharedData) -> None:
    first = await shared.lock("door")
    with pytest.raises(LockTimedOut):
        await shared.lock("door", timeout="5ms")
    cancelled = asyncio.create_task(shared.lock("door"))
    await asyncio.sleep(0)
    cancelled.cancel()
    await asyncio.wait([cancelled])

    await first.release()

    async with await shared.lock("door", timeout="1s"):
        pass


async def test_a_lock_that_comes_when_its_waiter_is_cancelled_is_handed_on(
    shared: SharedData,
) -> None:
    for _ in range(10):
        first = await shared.lock("door")
        cancelled = asyncio.create_task(shared.lock("door"))
        await asyncio.sleep(0)

        await first.release()
        cancelled.cancel()
        await asyncio.wait([cancelled])

        if not cancelled.cancelled():
            # It was there before it could be cancelled.
            await cancelled.result().release()
        async with await shared.lock("door", timeout=0):
            pass


async def test_a_local_lock_is_handed_on_by_a_waiter_that_was_cancelled(
    shared: SharedData,
) -> None:
    first = await shared.local_lock("door")
    cancelled = asyncio.create_task(shared.local_lock("door"))
    await asyncio.sleep(0)

    await first.release()
    cancelled.cancel()
    await asyncio.wait([cancelled])

    assert cancelled.cancelled()
    async with await shared.local_lock("door", timeout=0):
        pass


async def test_releasing_twice_releases_once(shared: SharedData) -> None:
    first = await shared.lock("door", timeout=0)
    assert first.is_held
    await first.release()
    assert not first.is_held
    second = await shared.lock("door")

    await first.release()

    assert second.is_held
    with pytest.raises(LockTimedOut):
        await shared.lock("door", timeout="5ms")
    await second.release()


async def test_each_who_holds_a_lock_has_a_greater_number(shared: SharedData) -> None:
    fences = []
    for _ in range(5):
        async with await shared.lock("door") as lock:
            fences.append(lock.fence)
    first = await shared.lock("door")
    waiting = asyncio.create_task(shared.lock("door"))
    await asyncio.sleep(0)
    await first.release()
    fences += [first.fence, (await waiting).fence]

    assert fences == sorted(set(fences))


async def test_locks_of_different_names_do_not_wait_for_each_other(
    shared: SharedData,
) -> None:
    async with await shared.lock("front"), await shared.lock("back", timeout=0):
        pass


async def test_an_error_inside_releases_the_lock(shared: SharedData) -> None:
    with pytest.raises(LookupError):
        async with await shared.lock("door"):
            raise LookupError

    async with await shared.lock("door", timeout=0):
        pass


# -- counters ------------------------------------------------------------------


async def test_a_counter_counts_from_0(counter: Counter) -> None:
    assert await counter.get() == 0
    assert await counter.increment_and_get() == 1
    assert await counter.get_and_increment() == 1
    assert await counter.decrement_and_get() == 1
    assert await counter.add_and_get(5) == 6
    assert await counter.get_and_add(-10) == 6
    assert await counter.get() == -4


async def test_a_counter_is_set_if_it_is_what_was_expected(counter: Counter) -> None:
    assert not await counter.compare_and_set(1, 7)
    assert await counter.get() == 0
    assert await counter.compare_and_set(0, 7)
    assert await counter.get() == 7


async def test_counters_of_one_name_are_one_counter(shared: SharedData) -> None:
    await (await shared.counter("one")).add_and_get(3)

    assert await (await shared.counter("one")).get() == 3
    assert await (await shared.counter("other")).get() == 0


async def test_no_count_is_lost_between_threads(
    shared: SharedData, threaded: Runtime
) -> None:
    async def count() -> None:
        counter = await shared.counter("visits")
        for _ in range(500):
            await counter.increment_and_get()

    await asyncio.gather(*(threaded.context().call(count) for _ in range(4)))

    assert await (await shared.counter("visits")).get() == 2000


async def test_a_counter_has_64_bits(counter: Counter) -> None:
    await counter.add_and_get(2**63 - 1)

    with pytest.raises(OverflowError):
        await counter.increment_and_get()
    with pytest.raises(OverflowError):
        await counter.compare_and_set(2**63 - 1, -(2**63) - 1)
    assert await counter.get() == 2**63 - 1


async def test_a_counter_is_exact_to_the_last_bit(counter: Counter) -> None:
    assert await counter.add_and_get(2**62 + 1) == 2**62 + 1
    assert await counter.increment_and_get() == 2**62 + 2
    assert await counter.get_and_add(-(2**63)) == 2**62 + 2
    assert await counter.get() == 2 - 2**62
    assert await counter.compare_and_set(2 - 2**62, -(2**63))
    assert await counter.get() == -(2**63)


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 10**30])
async def test_no_number_has_more_than_64_bits(counter: Counter, number: int) -> None:
    with pytest.raises(OverflowError, match="a counter has 64 bits"):
        await counter.add_and_get(number)
    with pytest.raises(OverflowError, match="a counter has 64 bits"):
        await counter.compare_and_set(1, number)
    assert not await counter.compare_and_set(number, 1)
    assert await counter.get() == 0


@pytest.mark.parametrize("number", [1.0, "1", None, True])
async def test_a_counter_counts_in_whole_numbers(counter: Counter, number: Any) -> None:
    with pytest.raises(TypeError, match="whole numbers"):
        await counter.add_and_get(number)
    with pytest.raises(TypeError, match="whole numbers"):
        await counter.compare_and_set(0, number)
    assert await counter.get() == 0


# -- names, and what is local --------------------------------------------------


@pytest.mark.parametrize("name", ["", "x" * 201, "line\nbreak"])
async def test_a_name_has_limits(shared: SharedData, name: str) -> None:
    for get in (shared.map, shared.lock, shared.counter, shared.local_async_map):
        with pytest.raises(ValueError, match="the name of a"):
            await get(name)
    with pytest.raises(ValueError, match="the name of a map"):
        shared.local_map(name)


async def test_what_is_local_is_kept_apart_from_what_is_wide() -> None:
    async with Runtime() as wide:
        async with Runtime(shared=wide.shared) as runtime:
            shared = runtime.shared
            await (await shared.map("map")).put("key", "wide")
            await (await shared.local_async_map("map")).put("key", "local")
            await (await shared.counter("counter")).add_and_get(1)
            await (await shared.local_counter("counter")).add_and_get(2)
            await shared.lock("lock")
            await shared.local_lock("lock", timeout=0)

            assert await (await shared.local_async_map("map")).get("key") == "local"
        assert await (await wide.shared.map("map")).get("key") == "wide"
        assert await (await wide.shared.counter("counter")).get() == 1
        with pytest.raises(LockTimedOut):
            await wide.shared.lock("lock", timeout=0)


async def test_entries_that_ended_take_no_memory() -> None:
    async with Runtime() as runtime:
        table: Any = await runtime.shared.map("table")
        for number in range(100):
            await table.put(str(number), number, ttl="5ms")

        await until(lambda: not table._entries)


async def test_a_waiter_on_a_blocked_thread_gets_the_lock_in_its_turn(
    threaded: Runtime,
) -> None:
    shared, context = threaded.shared, threaded.context()
    first = await shared.lock("door")
    got, held = Signal(), threading.Event()

    async def enter() -> None:
        async with await shared.lock("door"):
            got.tell()

    context.run(enter)
    context.run(held.wait, 10)
    await first.release()
    held.set()

    await got.told()
