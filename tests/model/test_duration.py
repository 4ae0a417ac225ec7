"""Durations and moments as people write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kue.model.duration import MAX_MS, Duration, epoch_ms, milliseconds

UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (0, 0),
        (90, 90_000),
        (0.25, 250),
        (timedelta(minutes=2), 120_000),
        ("500ms", 500),
        ("10m", 600_000),
        ("1h30m", 5_400_000),
        (" 1 h  30 m ", 5_400_000),
        ("1.5s", 1500),
        ("2w", 1_209_600_000),
        ("1d", 86_400_000),
    ],
)
def test_a_duration_is_seconds_a_timedelta_or_text(
    written: Duration, meant: int
) -> None:
    assert milliseconds(written) == meant


@given(
    st.lists(st.tuples(st.integers(0, 999), st.sampled_from(sorted(UNITS))), min_size=1)
)
def test_the_parts_of_a_text_add_up(parts: list[tuple[int, str]]) -> None:
    text = "".join(f"{number}{unit}" for number, unit in parts)

    assert milliseconds(text) == sum(number * UNITS[unit] for number, unit in parts)


@given(st.timedeltas(timedelta(0), timedelta(milliseconds=MAX_MS)))
def test_a_timedelta_is_kept_to_the_millisecond(value: timedelta) -> None:
    error = abs(milliseconds(value) - value / timedelta(milliseconds=1))

    assert error <= 0.5


@given(st.floats(0, MAX_MS / 1000))
def test_seconds_never_become_a_negative_or_endless_time(value: float) -> None:
    assert 0 <= milliseconds(value) <= MAX_MS


@pytest.mark.parametrize(
    "text", ["", "soon", "10", "10x", "10 minutes", "m", "1h-5m", "１０s", "1.s", "5m!"]
)
def test_unreadable_text_is_refused_with_examples(text: str) -> None:
    with pytest.raises(ValueError, match=r'cannot be read.*"500ms", "10m" or "1h30m"'):
        milliseconds(text)


@pytest.mark.parametrize("value", [-1, -0.001, timedelta(seconds=-5)])
def test_a_negative_duration_is_refused_with_advice(value: Duration) -> None:
    with pytest.raises(ValueError, match=r"delay must not be negative.*give 0"):
        milliseconds(value, field="delay")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "9" * 400 + "s"])
def test_a_duration_must_be_finite(value: Duration) -> None:
    with pytest.raises(ValueError, match=r"must be finite"):
        milliseconds(value)


def test_a_hundred_years_is_the_longest() -> None:
    assert milliseconds(timedelta(milliseconds=MAX_MS)) == MAX_MS

    for too_long in (timedelta(milliseconds=MAX_MS + 1), MAX_MS, 10**400):
        with pytest.raises(ValueError, match=r"at most a hundred years"):
            milliseconds(too_long)


@pytest.mark.parametrize("value", [True, None, [1], b"10s"])
def test_other_things_are_no_duration(value: Duration) -> None:
    with pytest.raises(TypeError, match=r"seconds, a timedelta or text"):
        milliseconds(value)


def test_a_moment_is_the_same_in_every_time_zone() -> None:
    there = datetime(2030, 1, 1, 12, tzinfo=timezone(timedelta(hours=5)))

    assert epoch_ms(there) == epoch_ms(there.astimezone(UTC)) == 1_893_481_200_000


@given(st.integers(0, 4 * 10**12))
def test_a_moment_is_kept_to_the_millisecond(ms: int) -> None:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)

    assert epoch_ms(moment) == ms


def test_what_was_before_1970_is_as_past_as_its_beginning() -> None:
    assert epoch_ms(datetime(1095, 7, 7, tzinfo=UTC)) == 0


def test_a_moment_is_a_datetime() -> None:
    with pytest.raises(TypeError, match=r"at must be a datetime, not '2030-01-01'"):
        epoch_ms("2030-01-01")  # type: ignore[arg-type]


def test_a_moment_without_a_time_zone_is_refused_with_advice() -> None:
    naive = datetime(2030, 1, 1, 12)  # noqa: DTZ001  the mistake under test

    with pytest.raises(ValueError, match=r"at needs .* time zone.*astimezone\(\)"):
        epoch_ms(naive)
