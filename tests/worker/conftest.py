"""Workers of every kind of place: how they beat and stop differs in memory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import PLACES, placed
from tests.support.engines import Engine


@pytest.fixture(params=("memory", *PLACES))
def place(request: pytest.FixtureRequest) -> Iterator[Engine]:
    yield from placed(request)
