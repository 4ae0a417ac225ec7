"""Processes that share a SQLite file and do not agree on the time."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from kue.aio.throttled_log import ThrottledLog
from kue.model.clock import SystemClock
from kue.store.sqlite.store import SqliteStore
from kue.store.sqlite.verbs import workers

HOUR_MS = 3_600_000


class OtherClock:
    """The system's clock, set wrongly."""

    def __init__(self, off: int) -> None:
        self.off = off

    def now_ms(self) -> int:
        return SystemClock().now_ms() + self.off


@pytest.fixture(autouse=True)
def _logs_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports of earlier tests must not silence those of this one."""
    monkeypatch.setattr(workers, "_log", ThrottledLog(workers.logger))


@pytest.fixture
async def process(tmp_path: Path) -> AsyncIterator[Callable[[int], SqliteStore]]:
    """Makes a store as another process would, with a clock that is off by so much."""
    stores: list[SqliteStore] = []

    def make(off: int) -> SqliteStore:
        url = f"sqlite:///{tmp_path / 'kue.db'}"
        stores.append(SqliteStore.from_url(url, OtherClock(off)))
        return stores[-1]

    yield make
    for store in stores:
        await store.close()


@pytest.mark.parametrize(
    ("off", "words"), [(HOUR_MS, "ahead of"), (-HOUR_MS, "behind")]
)
async def test_clocks_that_differ_are_reported_once(
    process: Callable[[int], SqliteStore],
    caplog: pytest.LogCaptureFixture,
    off: int,
    words: str,
) -> None:
    """R-15: two processes an hour apart take over each other's jobs."""
    right, wrong = process(0), process(off)

    await right.tend()
    await wrong.tend()
    await right.tend()
    await wrong.tend()

    [error] = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert words in error.getMessage()
    assert "is 3600 s" in error.getMessage() or "is 3599 s" in error.getMessage()
    assert "give all of them the same time" in error.getMessage()


async def test_clocks_that_agree_are_not_worth_a_word(
    process: Callable[[int], SqliteStore], caplog: pytest.LogCaptureFixture
) -> None:
    # A second apart, so that a pass is due each time.
    for off in (0, 1500, 3000):
        await process(off).tend()

    assert caplog.records == []


async def test_a_time_that_tests_give_is_not_compared(
    process: Callable[[int], SqliteStore], caplog: pytest.LogCaptureFixture
) -> None:
    store = process(0)
    now = await store.now()

    for moment in (now, now + HOUR_MS, now + 2 * HOUR_MS):
        await store.tend(now=moment)

    assert caplog.records == []
