"""Shared data in Redis: lost answers, large maps, leases, and a Redis that restarts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from random import Random
from typing import Any

import pytest
import redis

from kue.model.errors import StoreFull, StoreRefused, StoreUnavailable
from kue.runtime import LockTimedOut, Runtime, RuntimeClosed
from kue.runtime.shared.redis import RedisShared
from kue.runtime.shared.redis.lock_tickets import LockAction, LockReply
from kue.store.redis import scripts
from tests.support.patience import PATIENCE_SECONDS, until
from tests.support.proxy import Fate, Proxy
from tests.support.servers import RedisServer, free_port

SCRIPTS = "kue.runtime.shared.redis"


@pytest.fixture
def client(redis_server: RedisServer) -> Iterator[redis.Redis]:
    with redis_server.client() as client:
        yield client


@pytest.fixture
async def shared(redis_server: RedisServer, prefix: str) -> AsyncIterator[RedisShared]:
    async with RedisShared(redis_server.url, prefix=prefix) as shared:
        yield shared


@pytest.fixture
async def proxy(redis_server: RedisServer) -> AsyncIterator[Proxy]:
    async with Proxy(redis_server.port) as proxy:
        yield proxy


@pytest.fixture
async def shaky(proxy: Proxy, prefix: str) -> AsyncIterator[RedisShared]:
    """Shared data on the other side of a network."""
    async with RedisShared(proxy.url, prefix=prefix) as shared:
        yield shared


@pytest.fixture
async def pair(own_redis: RedisServer) -> AsyncIterator[list[RedisShared]]:
    """Shared data of two processes, as far as Redis knows."""
    async with (
        RedisShared(own_redis.url, lease=3) as one,
        RedisShared(own_redis.url, lease=3) as other,
    ):
        yield [one, other]


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls to a Redis that is away fail soon, those to a slow one do not."""
    monkeypatch.setattr("kue.runtime.shared.redis.shared_data._BUDGET_SECONDS", 2.0)


def line(prefix: str) -> str:
    return f"{{{prefix}:locks}}:line:door"


def keys(client: redis.Redis, prefix: str, kind: str) -> list[bytes]:
    return list(client.scan_iter(f"{{{prefix}:shared:*}}:{kind}:*", count=10_000))


# -- answers that get lost -----------------------------------------------------


async def test_a_count_whose_answer_was_lost_counts_once(
    shaky: RedisShared, proxy: Proxy
) -> None:
    counter = await shaky.counter("visits")
    await counter.increment_and_get()

    proxy.plan(Fate.CUT_AFTER, Fate.CUT_BEFORE, Fate.CUT_AFTER)
    assert await counter.increment_and_get() == 2
    assert await counter.get_and_increment() == 2
    assert await counter.compare_and_set(3, 10)

    assert proxy.struck[Fate.CUT_AFTER] == 2
    assert await counter.get() == 10


async def test_a_change_of_a_map_whose_answer_was_lost_is_answered_as_it_was_made(
    shaky: RedisShared, proxy: Proxy
) -> None:
    table = await shaky.map("table")
    await table.put("key", 0)
    await table.remove("key")

    proxy.plan(Fate.CUT_AFTER)
    assert await table.put_if_absent("key", "first") is None
    proxy.plan(Fate.CUT_AFTER)
    assert await table.replace("key", "second") == "first"
    proxy.plan(Fate.CUT_AFTER)
    assert await table.replace_if_present("key", "second", "third")
    proxy.plan(Fate.CUT_AFTER)
    assert await table.remove_if_present("key", "third")
    await table.put("key", "fourth")
    proxy.plan(Fate.CUT_AFTER)
    assert await table.remove("key") == "fourth"
    assert proxy.struck[Fate.CUT_AFTER] == 5


async def test_a_change_that_arrives_after_all_is_made_once(
    shaky: RedisShared, proxy: Proxy
) -> None:
    counter = await shaky.counter("visits")
    await counter.increment_and_get()

    proxy.plan(Fate.HOLD)
    assert await counter.increment_and_get() == 2
    await proxy.release()

    assert await counter.get() == 2


async def test_a_change_that_was_given_up_does_not_come_after_a_later_one(
    shaky: RedisShared, proxy: Proxy
) -> None:
    table = await shaky.map("table")
    await table.put("key", "first")

    proxy.plan(Fate.HOLD)
    given_up = asyncio.create_task(table.put("key", "second"))
    await until(lambda: proxy.struck[Fate.HOLD] == 1)
    given_up.cancel()
    await asyncio.wait([given_up])
    await table.put("key", "third")
    await proxy.release()

    assert await table.get("key") == "third"


async def test_a_lock_whose_answers_were_lost_is_held_and_released_once(
    shaky: RedisShared, proxy: Proxy, client: redis.Redis, prefix: str
) -> None:
    async with await shaky.lock("door", timeout=0):
        pass

    proxy.plan(Fate.CUT_AFTER)
    lock = await shaky.lock("door", timeout=0)
    assert client.zcard(line(prefix)) == 1
    proxy.plan(Fate.CUT_AFTER)
    await lock.release()

    assert proxy.struck[Fate.CUT_AFTER] == 2
    assert client.zcard(line(prefix)) == 0


async def test_a_step_that_arrives_late_leaves_nobody_in_a_line(
    shaky: RedisShared, proxy: Proxy, client: redis.Redis, prefix: str
) -> None:
    async with await shaky.lock("door", timeout=0):
        pass

    proxy.plan(Fate.HOLD)
    async with await shaky.lock("door", timeout=0):
        pass
    assert b"LATE" in await proxy.release()

    assert client.zcard(line(prefix)) == 0


@pytest.mark.parametrize("seed", range(3))
async def test_whatever_a_network_does_each_call_counts_once(
    shaky: RedisShared, proxy: Proxy, client: redis.Redis, prefix: str, seed: int
) -> None:
    counter, table = await shaky.counter("visits"), await shaky.map("table")
    inside, won = 0, 0

    async def work(name: str) -> None:
        nonlocal inside, won
        for number in range(30):
            await counter.increment_and_get()
            is_first = await table.put_if_absent(str(number), name) is None
            won += is_first
            async with await shaky.lock("door", timeout="50s"):
                inside += 1
                assert inside == 1
                await asyncio.sleep(0)
                inside -= 1

    chances = {Fate.CUT_AFTER: 0.1, Fate.CUT_BEFORE: 0.05, Fate.HOLD: 0.05}
    proxy.draw(Random(seed), chances)
    await asyncio.gather(*(work(name) for name in "abcd"))
    proxy.heal()
    for _ in range(proxy.struck[Fate.HOLD]):
        await proxy.release()

    assert proxy.struck[Fate.HOLD] > 0
    assert await counter.get() == 120
    assert won == 30
    assert client.zcard(line(prefix)) == 0


# -- maps ----------------------------------------------------------------------


async def test_a_large_map_is_read_in_pieces(shared: RedisShared) -> None:
    table = await shared.map("table")
    wanted = {f"key {number}": number for number in range(2000)}
    await asyncio.gather(*(table.put(key, value) for key, value in wanted.items()))
    await table.put("brief", 1, ttl="1ms")
    while await table.get("brief") is not None:
        pass

    assert await table.entries() == wanted
    assert sorted(await table.keys()) == sorted(wanted)
    assert sorted(await table.values()) == sorted(wanted.values())
    assert await table.size() == 2000
    await table.clear()
    assert await table.entries() == {}


async def test_what_stays_is_read_whatever_else_comes_and_goes(
    shared: RedisShared,
) -> None:
    table = await shared.map("table")
    lasting = {f"lasting {number}": "x" * 200 for number in range(600)}
    await asyncio.gather(*(table.put(key, value) for key, value in lasting.items()))

    async def change() -> None:
        for number in range(100):
            await table.put(f"brief {number}", number)
            await table.remove(f"brief {number - 5}")

    changing = asyncio.create_task(change())
    while not changing.done():
        entries = await table.entries()
        assert entries.items() >= lasting.items()
    await changing


async def test_large_values_are_read_in_small_pieces(shared: RedisShared) -> None:
    table = await shared.map("table")
    value = "x" * 100_000
    await asyncio.gather(*(table.put(str(number), value) for number in range(300)))

    assert await table.values() == [value] * 300


async def test_a_map_whose_entries_have_ended_takes_no_memory(
    shared: RedisShared, client: redis.Redis, prefix: str
) -> None:
    table = await shared.map("table")
    for number in range(50):
        await table.put(str(number), number, ttl="20ms")

    await until(lambda: not keys(client, prefix, "map"))
    assert keys(client, prefix, "ends") == []


async def test_entries_that_have_ended_make_room_when_others_are_put(
    shared: RedisShared, client: redis.Redis, prefix: str
) -> None:
    table = await shared.map("table")
    await table.put("lasting", 1)
    for number in range(50):
        await table.put(str(number), number, ttl="20ms")
    [key] = keys(client, prefix, "map")

    # Each change removes up to 20.
    async with asyncio.timeout(PATIENCE_SECONDS):
        while client.hlen(key) > 1:
            await table.put("lasting", 2)

    assert await table.entries() == {"lasting": 2}
    assert client.pttl(key) == -1


async def test_a_map_with_an_end_loses_it_with_an_entry_that_stays(
    shared: RedisShared, client: redis.Redis, prefix: str
) -> None:
    table = await shared.map("table")
    await table.put("key", 1, ttl="1h")
    [key] = keys(client, prefix, "map")
    assert 0 < client.pttl(key) <= 3_600_000

    await table.put("key", 2)

    assert client.pttl(key) == -1
    assert keys(client, prefix, "ends") == []


async def test_names_that_look_like_structures_are_only_names(
    shared: RedisShared, client: redis.Redis, prefix: str
) -> None:
    for name in ("a:b", "{x}", "%7B", "a b", "ü", "*"):
        table, counter = await shared.map(name), await shared.counter(name)
        await table.put("{k}:", name)
        assert await counter.increment_and_get() == 1
        async with await shared.lock(name, timeout=0):
            pass

        assert await table.entries() == {"{k}:": name}
    assert len(keys(client, prefix, "map")) == 6


# -- locks ---------------------------------------------------------------------


async def test_a_call_that_nobody_heard_is_found_out(
    shared: RedisShared, client: redis.Redis, prefix: str
) -> None:
    first = await shared.lock("door", timeout=0)
    waiting = asyncio.create_task(shared.lock("door", timeout="30s"))
    await until(lambda: listeners(client, prefix) > 0)

    client.client_kill_filter(_type="pubsub")
    await first.release()

    assert (await waiting).is_held


async def test_an_answer_that_is_older_than_a_call_takes_no_lock_away(
    shared: RedisShared,
) -> None:
    lock = await shared.lock("door", timeout=0)
    assert shared._session is not None
    locks, entry = shared._session.locks, lock._entry

    async def hear() -> None:
        answer = (LockAction("?", entry), -entry.ticket)
        locks._apply(LockReply([answer], entry.born, 1.0, 1))

    await shared._session.thread.call(hear)

    assert lock.is_held


async def test_a_call_of_another_ticket_is_not_followed(
    shared: RedisShared, client: redis.Redis, prefix: str
) -> None:
    first = await shared.lock("door", timeout=0)
    waiting = asyncio.create_task(shared.lock("door", timeout="30s"))
    await until(lambda: client.zcard(line(prefix)) == 2)
    await until(lambda: listeners(client, prefix) > 0)
    tools: Any = client
    process, number = tools.zrange(line(prefix), 1, 1)[0].decode().split(".")
    for message in (f"{number}\t{first.fence}", number, f"{number}\tx", "\xff"):
        channel = f"{{{prefix}:locks}}:to:{process}"
        assert tools.execute_command("SPUBLISH", channel, message) == 1

    for _ in range(10):
        # By then it has heard them.
        await (await shared.counter("turns")).increment_and_get()
    assert not waiting.done()
    await first.release()
    assert (await waiting).is_held


async def test_a_place_that_nobody_knows_of_is_left(
    shared: RedisShared, client: redis.Redis, prefix: str
) -> None:
    """As after a fail-over to a replica that had not heard of a release."""
    await shared.lock("gate", timeout=0)
    root = f"{{{prefix}:locks}}"
    tools: Any = client
    process = tools.zrange(f"{root}:processes", 0, 0)[0].decode()
    with client.pipeline() as at_once:
        at_once.hset(f"{root}:of:{process}", mapping={"999999999": "door"})
        at_once.zadd(line(prefix), {f"{process}.999999999": 1})
        at_once.execute()

    async with await shared.lock("door", timeout="30s"):
        assert client.zcard(line(prefix)) == 1


def listeners(client: redis.Redis, prefix: str) -> int:
    send: Any = client.execute_command
    return len(send("PUBSUB", "SHARDCHANNELS", f"{{{prefix}:locks}}:to:*"))


async def test_a_handler_that_blocks_its_loop_keeps_its_lock(
    pair: list[RedisShared],
) -> None:
    one, other = pair
    lock = await one.lock("door", timeout=0)
    waiting = asyncio.create_task(other.lock("door", timeout="30s"))
    await asyncio.sleep(0)
    # The loop of this test, and of both of them, for all they know.
    time.sleep(3.3)  # noqa: ASYNC251

    assert lock.is_held
    assert not waiting.done()
    await lock.release()
    await waiting


async def test_a_process_without_locks_leaves_nothing_to_renew(
    shared: RedisShared, client: redis.Redis, prefix: str
) -> None:
    async with await shared.lock("door", timeout=0):
        assert client.zcard(f"{{{prefix}:locks}}:processes") == 1

    assert client.zcard(f"{{{prefix}:locks}}:processes") == 0
    assert client.exists(line(prefix)) == 0


async def test_closing_releases_what_is_held_and_ends_waiting(
    shared: RedisShared, redis_server: RedisServer, prefix: str
) -> None:
    async with RedisShared(redis_server.url, prefix=prefix) as other:
        lock = await other.lock("door", timeout=0)
        waiting = asyncio.create_task(other.lock("door", timeout="30s"))
        await asyncio.sleep(0)

    with pytest.raises(RuntimeClosed, match="was closed"):
        await waiting
    assert not lock.is_held
    await lock.release()
    async with await shared.lock("door", timeout=0):
        pass


async def test_many_locks_are_held_at_once(
    shared: RedisShared, client: redis.Redis, prefix: str
) -> None:
    names = [f"door {number}" for number in range(1200)]
    locks = await asyncio.gather(*(shared.lock(it, timeout=0) for it in names))

    assert all(lock.is_held for lock in locks)
    await asyncio.gather(*(lock.release() for lock in locks))
    assert client.keys(f"{{{prefix}:locks}}:line:*") == []


# -- a Redis that is away, empty or full ---------------------------------------


async def test_a_redis_that_lost_everything_is_told_who_holds_a_lock(
    own_redis: RedisServer, pair: list[RedisShared], caplog: pytest.LogCaptureFixture
) -> None:
    one, other = pair
    lock = await one.lock("door", timeout=0)
    await asyncio.to_thread(own_redis.restart)
    with own_redis.client() as client:
        await until(lambda: client.zcard(line("kue")) == 1)

    await until(lambda: lock.is_held)
    with pytest.raises(LockTimedOut):
        await other.lock("door", timeout=0)
    await lock.release()
    async with await other.lock("door", timeout=0) as later:
        assert later.fence > lock.fence
    assert "is lost" not in caplog.text


async def test_those_who_waited_in_a_redis_that_lost_everything_wait_again(
    own_redis: RedisServer, pair: list[RedisShared]
) -> None:
    one, other = pair
    lock = await one.lock("door", timeout=0)
    waiting = asyncio.create_task(other.lock("door", timeout="50s"))
    with own_redis.client() as client:
        await until(lambda: client.zcard(line("kue")) == 2)
        await asyncio.to_thread(own_redis.restart)
        await until(lambda: client.zcard(line("kue")) == 2)

    assert not waiting.done()
    await lock.release()
    assert (await waiting).is_held


async def test_a_lock_that_another_got_from_a_redis_that_lost_everything_is_lost(
    shared: RedisShared,
    client: redis.Redis,
    prefix: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    lock = await shared.lock("door", timeout=0)
    root = f"{{{prefix}:locks}}"
    with client.pipeline() as at_once:
        at_once.delete(f"{root}:server", f"{root}:ticket", f"{root}:processes")
        at_once.delete(line(prefix))
        at_once.zadd(line(prefix), {"abc.1": lock.fence + 1})
        at_once.hset(f"{root}:of:abc", mapping={"1": "door"})
        at_once.zadd(f"{root}:processes", {"abc": 2**50})
        at_once.execute()

    await until(lambda: "lock 'door' is lost" in caplog.text)
    assert not lock.is_held
    await lock.release()
    assert client.zrange(line(prefix), 0, -1) == [b"abc.1"]


async def test_a_loss_is_noticed_even_if_the_answer_that_told_of_it_got_lost(
    proxy: Proxy, client: redis.Redis, prefix: str
) -> None:
    async with RedisShared(proxy.url, prefix=prefix, lease=1) as shared:
        lock = await shared.lock("door", timeout=0)
        proxy.always(Fate.CUT_AFTER)
        client.delete(*client.keys(f"{{{prefix}:locks}}:*"))
        await until(lambda: client.exists(f"{{{prefix}:locks}}:server") == 1)
        proxy.heal()

        await until(lambda: client.zcard(line(prefix)) == 1)
        await until(lambda: lock.is_held)


@pytest.mark.usefixtures("impatient")
async def test_a_redis_that_is_away_is_told_of(own_redis: RedisServer) -> None:
    async with RedisShared(own_redis.url, lease=1) as shared:
        table, counter = await shared.map("table"), await shared.counter("visits")
        own_redis.kill()

        answers = await asyncio.gather(
            table.put("key", 1),
            table.get("key"),
            table.entries(),
            counter.increment_and_get(),
            shared.lock("door", timeout=0),
            return_exceptions=True,
        )

    for answer in answers:
        assert isinstance(answer, StoreUnavailable)
        assert "is it running" in str(answer)


@pytest.mark.usefixtures("impatient")
async def test_a_lock_is_in_doubt_while_redis_is_away_and_ours_when_it_is_back(
    proxy: Proxy, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with RedisShared(proxy.url, prefix=prefix, lease=1) as shared:
        lock = await shared.lock("door", timeout=0)
        proxy.refuse()
        proxy.cut()
        await until(lambda: not lock.is_held)
        await until(lambda: "cannot be renewed" in caplog.text)

        await proxy.accept()
        await until(lambda: lock.is_held)
        await until(lambda: "is renewed again" in caplog.text)
    assert "is lost" not in caplog.text


@pytest.mark.usefixtures("impatient")
async def test_a_lock_that_cannot_be_released_is_released_later(
    proxy: Proxy, client: redis.Redis, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with RedisShared(proxy.url, prefix=prefix) as shared:
        lock = await shared.lock("door", timeout=0)
        proxy.refuse()
        proxy.cut()
        await lock.release()

        assert "lock 'door' is released later" in caplog.text
        assert client.zcard(line(prefix)) == 1
        await proxy.accept()
        await until(lambda: client.zcard(line(prefix)) == 0)


async def test_a_redis_that_is_full_takes_no_entries_and_still_has_locks(
    own_redis: RedisServer,
) -> None:
    async with RedisShared(own_redis.url) as shared:
        table = await shared.map("table")
        await table.put("key", 1)
        with own_redis.client() as client:
            client.config_set("maxmemory", "1")

        with pytest.raises(StoreFull):
            await table.put("other", 2)
        async with await shared.lock("door", timeout=0):
            assert await table.entries() == {"key": 1}
        assert await table.remove("key") == 1
        await table.clear()


async def test_a_password_that_is_wrong_is_told_of(redis_server: RedisServer) -> None:
    url = redis_server.url.replace("redis://", "redis://nobody:wrong@")

    with pytest.raises(StoreRefused, match="check user, password and ACL"):
        await RedisShared(url).open()


# -- opening and closing -------------------------------------------------------


async def test_a_runtime_opens_and_closes_it(
    redis_server: RedisServer, prefix: str
) -> None:
    wide = RedisShared(redis_server.url, prefix=prefix)
    async with Runtime(shared=wide) as runtime:
        table = await runtime.shared.map("table")
        await table.put("key", 1)
        assert await table.get("key") == 1

    with pytest.raises(RuntimeClosed, match="closed"):
        await table.get("key")


@pytest.mark.usefixtures("impatient")
async def test_a_runtime_whose_shared_data_is_not_there_does_not_open() -> None:
    wide = RedisShared(f"redis://127.0.0.1:{free_port()}/0")
    runtime = Runtime(loops=1, shared=wide)

    with pytest.raises(StoreUnavailable, match="is it running"):
        await runtime.open()
    assert runtime.is_closed


async def test_what_is_not_open_is_refused(redis_server: RedisServer) -> None:
    shared = RedisShared(redis_server.url)
    uses: list[Callable[[], Any]] = [
        lambda: shared.map("table"),
        lambda: shared.counter("visits"),
        lambda: shared.lock("door", timeout=0),
    ]
    for use in uses:
        with pytest.raises(RuntimeClosed, match="is not open"):
            await use()
    async with shared:
        with pytest.raises(RuntimeClosed, match="opened only once"):
            await shared.open()
    await shared.close()
    for use in uses:
        with pytest.raises(RuntimeClosed, match="is not open"):
            await use()


@pytest.mark.parametrize("lease", [0, 0.1, 4000, float("nan")])
def test_a_lease_has_limits(lease: float) -> None:
    with pytest.raises(ValueError, match="lease must be"):
        RedisShared("redis://localhost", lease=lease)


async def test_those_of_another_prefix_share_nothing(
    shared: RedisShared, redis_server: RedisServer, prefix: str
) -> None:
    async with RedisShared(redis_server.url, prefix=f"{prefix}-2") as other:
        await (await shared.map("table")).put("key", 1)
        await shared.lock("door", timeout=0)

        assert await (await other.map("table")).get("key") is None
        async with await other.lock("door", timeout=0):
            pass


@pytest.mark.parametrize("name", scripts.names(SCRIPTS))
def test_every_script_states_its_contract(name: str) -> None:
    first, _, source = scripts.load(name, SCRIPTS).source.partition("\n")
    header = source[: source.index("]]")]

    assert first.startswith("#!lua")
    assert header.startswith(f"--[[\n  {name}: ")
    for section in ("KEYS", "ARGV", "Returns", "Events"):
        assert section in header
