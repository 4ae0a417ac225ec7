"""Fixtures for the bus: one of this process, closed when the test is over."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kue.bus import EventBus

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def bus() -> AsyncIterator[EventBus]:
    async with EventBus() as bus:
        yield bus
