"""A queue on a bus, in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from kue import Kue
from kue.bus import EventBus
from kue.vertx import EventPublisher
from tests.vertx.hearing import relayed


@pytest.fixture
async def bus() -> AsyncIterator[EventBus]:
    async with EventBus() as bus:
        yield bus


@pytest.fixture
async def q() -> AsyncIterator[Kue]:
    async with Kue("memory://") as q:
        yield q


@pytest.fixture
async def relay(q: Kue, bus: EventBus) -> AsyncIterator[EventPublisher]:
    async with relayed(q, bus) as relay:
        yield relay
