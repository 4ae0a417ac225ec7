"""No call outlives its budget, and each says what to do about it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import closing

import pytest

from kue.model.errors import StoreError, StoreUnavailable
from kue.store.contract import Store
from kue.store.redis.verbs import runs
from kue.store.redis.wire import client as link
from kue.store.redis.wire import connecting
from tests.faults.conftest import NewServer, NewStore
from tests.faults.scene import TYPE, VERBS, Scene, build
from tests.support.patience import PATIENCE_SECONDS, until
from tests.support.proxy import Proxy
from tests.support.servers import HOST, RedisServer, black_hole, free_port

BUDGET_SECONDS = 2.0
#: Far beyond that: a call that waited for anything but its budget would be noticed.
ENDLESS_SECONDS = 3600.0
#: Verbs that sleep in Redis have no budget, but the patience of one call.
SLEEPING = {"wait", "watch"}
SECRET = "hunter2"


@pytest.fixture(autouse=True)
def _only_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing but its budget end a call."""
    monkeypatch.setattr(link, "COMMAND_TIMEOUT_SECONDS", ENDLESS_SECONDS)
    monkeypatch.setattr(connecting, "CONNECT_TIMEOUT_SECONDS", ENDLESS_SECONDS)


async def assert_all_give_up(
    store: Store, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Say every verb at once; each must end with an error, when its budget is spent."""
    await _assert_give_up(
        store, scene, [verb for verb in VERBS if verb not in SLEEPING]
    )
    monkeypatch.setattr(link, "COMMAND_TIMEOUT_SECONDS", BUDGET_SECONDS)
    await _assert_give_up(store, scene, SLEEPING)


async def _assert_give_up(store: Store, scene: Scene, verbs: Iterable[str]) -> None:
    outcomes = await asyncio.gather(*(_give_up(store, scene, verb) for verb in verbs))
    assert "\n".join(filter(None, outcomes)) == ""


async def _give_up(store: Store, scene: Scene, verb: str) -> str:
    """Return what is wrong with how *verb* gives up; nothing if nothing is."""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await VERBS[verb](store, scene)
    except TimeoutError:
        return f"{verb} hangs"
    except StoreUnavailable as exc:
        return _fault_of(verb, str(exc), store.name)
    except StoreError as exc:
        return f"{verb} says {exc!r}"
    return f"{verb} claims to have worked"


def _fault_of(verb: str, message: str, name: str) -> str:
    if SECRET in message:
        return f"{verb} shows the password: {message}"
    if name not in message or "is it running" not in message:
        return f"{verb} does not say what to do: {message}"
    return ""


async def test_no_verb_hangs_when_the_network_swallows_everything(
    direct: Store, proxy: Proxy, new_store: NewStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = await build(direct)
    store = new_store(proxy.url, budget=BUDGET_SECONDS)
    await store.open()

    proxy.swallow()

    await assert_all_give_up(store, scene, monkeypatch)


async def test_no_verb_hangs_when_redis_is_frozen(
    new_server: NewServer, new_store: NewStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = new_server()
    store = new_store(_protected(server), budget=BUDGET_SECONDS)
    scene = await build(store)

    with server.frozen():
        await assert_all_give_up(store, scene, monkeypatch)


async def test_no_verb_hangs_when_redis_is_gone(
    new_server: NewServer, new_store: NewStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = new_server()
    store = new_store(_protected(server), budget=BUDGET_SECONDS)
    scene = await build(store)

    server.kill()

    await assert_all_give_up(store, scene, monkeypatch)


async def test_a_store_that_was_never_there_says_so_in_time(
    new_store: NewStore,
) -> None:
    url = f"redis://:{SECRET}@{HOST}:{free_port()}/0"
    store = new_store(url, budget=BUDGET_SECONDS)

    async with asyncio.timeout(PATIENCE_SECONDS):
        with pytest.raises(StoreUnavailable, match="is it running") as caught:
            await store.open()

    assert SECRET not in str(caught.value)


async def test_callers_of_a_store_that_cannot_be_opened_do_not_queue_up(
    new_store: NewStore, direct: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = await build(direct)
    with black_hole() as port:
        store = new_store(f"redis://{HOST}:{port}/0", budget=BUDGET_SECONDS)

        await assert_all_give_up(store, scene, monkeypatch)


async def test_a_host_that_does_not_answer_at_all_is_given_up_in_time(
    new_store: NewStore,
) -> None:
    with black_hole() as port:
        store = new_store(f"redis://{HOST}:{port}/0", budget=BUDGET_SECONDS)

        async with asyncio.timeout(PATIENCE_SECONDS):
            with pytest.raises(StoreUnavailable, match="is it running"):
                await store.open()


async def test_a_wait_that_lost_its_connection_unnoticed_ends(
    redis_server: RedisServer,
    proxy: Proxy,
    new_store: NewStore,
    quick: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    Half-open: the sleeper is never notified that the other side is gone.

    However long it is to wait, it looks after `MAX_BLOCK_SECONDS` if Redis is there.
    """
    monkeypatch.setattr(runs, "MAX_BLOCK_SECONDS", 0.5)
    store = new_store(proxy.url, budget=BUDGET_SECONDS)
    await store.open()
    sleeper = asyncio.create_task(store.wait([TYPE], ENDLESS_SECONDS))
    await _until_blocked(redis_server)

    proxy.swallow()

    with pytest.raises(StoreUnavailable):
        await asyncio.wait_for(sleeper, PATIENCE_SECONDS)


async def test_slow_answers_within_the_budget_are_waited_for(
    direct: Store, proxy: Proxy, new_store: NewStore
) -> None:
    scene = await build(direct)
    store = new_store(proxy.url, budget=PATIENCE_SECONDS)
    await store.open()

    proxy.delay(0.3)

    jobs = await store.get([scene.waiting, scene.complete])
    assert [job and job.id for job in jobs] == [scene.waiting, scene.complete]


async def _until_blocked(server: RedisServer) -> None:
    """Return once a client sleeps in Redis."""
    with closing(server.client()) as client:
        await until(lambda: bool(client.info("clients")["blocked_clients"]))


def _protected(server: RedisServer) -> str:
    """Give *server* a password; return a URL with it."""
    server.send("CONFIG", "SET", "requirepass", SECRET)
    return f"redis://:{SECRET}@{server.address}/0"
