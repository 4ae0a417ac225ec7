"""What tests of stores share beside those of everything."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.hands import Hands

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.engines import Engine


@pytest.fixture
def hands(engine: Engine) -> Iterator[Hands]:
    """Hands that reach into a Redis store, to damage it."""
    hands = Hands(engine)
    yield hands
    hands.close()
