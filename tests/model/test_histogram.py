"""Durations in buckets."""

from __future__ import annotations

from itertools import pairwise

import pytest

from kue.model.histogram import (
    BOUNDS,
    DAY_MS,
    Percentiles,
    Timing,
    added,
    bucket,
    percentile,
    percentiles,
)
from kue.store.validation import check_timings


def test_bounds_grow_by_a_quarter_from_a_millisecond_to_a_day() -> None:
    assert (BOUNDS[0], BOUNDS[-1]) == (1, DAY_MS)
    assert all(low < high for low, high in pairwise(BOUNDS))
    assert all(
        high <= max(low + 1, round(low * 1.25)) for low, high in pairwise(BOUNDS)
    )


@pytest.mark.parametrize("bound", BOUNDS)
def test_a_bound_belongs_to_its_bucket(bound: int) -> None:
    assert bucket(bound) == bound
    assert bucket(bound - 0.5) == bound


@pytest.mark.parametrize(
    ("duration", "bound"), [(-3, 1), (0, 1), (10 * DAY_MS, DAY_MS)]
)
def test_what_is_beyond_the_ends_falls_into_the_last(duration: int, bound: int) -> None:
    assert bucket(duration) == bound


def test_nothing_has_no_percentiles() -> None:
    assert percentiles({}) is None
    assert percentile({1: 0}, 0.5) is None


def test_one_duration_is_every_percentile() -> None:
    assert percentiles({bucket(100): 1}) == Percentiles(*[bucket(100)] * 3)


def test_percentiles_are_where_so_many_have_been_seen() -> None:
    counts = {1000: 1, 1: 50, 10: 45, 100: 4}

    assert percentiles(counts) == Percentiles(1, 10, 100)
    assert percentile(counts, 1) == 1000


def test_counts_are_added_in_the_order_of_the_buckets() -> None:
    total = added([{5: 1, 1: 2}, {}, {1: 3, 2: 1}])

    assert list(total.items()) == [(1, 5), (2, 1), (5, 1)]


@pytest.mark.parametrize(
    "timing",
    [Timing("a", waits={13: 1, 7: 1}), Timing("a", runs={1: -1})],
)
def test_counts_that_cannot_be_are_refused(timing: Timing) -> None:
    with pytest.raises(ValueError, match=r"is not a bucket|less than 0"):
        check_timings([timing])
