"""What tests of stores share beside those of everything."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.engines import Engine
from tests.support.hands import Hands


@pytest.fixture
def hands(engine: Engine) -> Iterator[Hands]:
    """Hands that reach into a Redis store, to damage it."""
    hands = Hands(engine)
    yield hands
    hands.close()
