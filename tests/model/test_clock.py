"""Clocks."""

from __future__ import annotations

import time

from kue.model.clock import FakeClock, SystemClock


def test_the_system_clock_tells_unix_milliseconds() -> None:
    before = time.time()
    told = SystemClock().now_ms()
    after = time.time()

    assert int(before * 1000) <= told <= after * 1000 + 1


def test_a_fake_clock_stands_still_until_it_is_moved() -> None:
    clock = FakeClock(1000)

    assert (clock.now_ms(), clock.now_ms()) == (1000, 1000)
    assert clock.advance(500) == clock.now_ms() == 1500
    assert clock.advance(-2000) == -500
