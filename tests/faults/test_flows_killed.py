"""Flows whose producers and workers are killed after each of their writes."""

from __future__ import annotations

import itertools
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.faults.conftest import assert_sound
from tests.faults.flow_scenes import SCENES, Scene, live
from tests.faults.mortal import Life
from tests.support.engines import Engine, engine_at
from tests.support.exploring import EXPLORES
from tests.support.servers import RedisServer
from tests.support.warm import start

SHARDS = 6
#: `make test` tries each so many-th kill, `make explore` all of them.
STRIDES = {"sqlite": 3, "redis": 3, "shards": 19}


@pytest.fixture(params=STRIDES)
def new_place(request: pytest.FixtureRequest, swift: Path) -> Callable[[], Engine]:
    """Return what makes a place for jobs that has none."""
    if request.param == "sqlite":
        files = (f"sqlite:///{swift}/{number}.db" for number in itertools.count())
        return lambda: engine_at("sqlite", next(files))
    server: RedisServer = request.getfixturevalue("redis_server")
    shards = SHARDS if request.param == "shards" else 1
    return lambda: engine_at("redis", f"{server.url}?shards={shards}", shards=shards)


@pytest.fixture
def stride(request: pytest.FixtureRequest) -> int:
    return 1 if EXPLORES else STRIDES[request.node.callspec.params["new_place"]]


@asynccontextmanager
async def scene_at(place: Engine) -> AsyncIterator[Scene]:
    scene = Scene(place.new_store)
    try:
        yield scene
        await assert_sound(scene.eye)
    finally:
        await scene.eye.close()


@pytest.mark.parametrize("name", SCENES)
async def test_a_flow_whose_process_is_killed_after_any_write_is_finished_by_another(
    name: str, new_place: Callable[[], Engine], stride: int
) -> None:
    act, check = SCENES[name]
    whole = Life()
    async with scene_at(new_place()) as scene:
        await live(scene, act, whole)
        await scene.finish()
        await check(scene)
        assert scene.called

    for writes in range(whole.writes % stride, whole.writes, stride):
        async with scene_at(new_place()) as scene:
            await live(scene, act, Life(writes))
            await scene.finish()
            await check(scene)


@pytest.mark.parametrize("new_place", ["sqlite", "shards"], indirect=True)
@pytest.mark.parametrize(("name", "writes"), [("diamond", 9), ("batch", 12)])
async def test_a_flow_whose_real_process_is_killed_is_finished_by_another(
    name: str, writes: int, new_place: Callable[[], Engine]
) -> None:
    place = new_place()
    where = (place.settings.url, place.settings.prefix)

    victim = await start("tests.faults.program_flows", *where, name, str(writes))
    status = await victim.wait()
    await victim.close()

    assert status == -signal.SIGKILL
    _, check = SCENES[name]
    async with scene_at(place) as scene:
        assert await scene.jobs()
        scene.is_blind = True
        await scene.finish()
        await check(scene)
