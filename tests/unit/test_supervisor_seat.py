"""Pauses before a child is started again."""

from __future__ import annotations

import pytest

from kue.supervisor.seat import GOOD_LIFE, LONGEST_PAUSE, Backoff


def test_pauses_double_up_to_the_longest() -> None:
    backoff = Backoff()

    pauses = [backoff.after(age=1) for _ in range(12)]

    assert pauses[:4] == [0.1, 0.2, 0.4, 0.8]
    assert pauses[-2:] == [LONGEST_PAUSE] * 2


def test_a_child_that_lived_well_is_followed_quickly_again() -> None:
    backoff = Backoff()
    for _ in range(5):
        backoff.after(age=1)

    assert backoff.after(age=GOOD_LIFE) == 0.1
    assert backoff.after(age=1) == pytest.approx(0.2)
