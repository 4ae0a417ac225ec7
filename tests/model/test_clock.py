"""Clocks."""

from __future__ import annotations

import time

from kue.model.clock import SystemClock


def test_the_system_clock_tells_unix_milliseconds() -> None:
    before = time.time()
    told = SystemClock().now_ms()
    after = time.time()

    assert int(before * 1000) <= told <= after * 1000 + 1
