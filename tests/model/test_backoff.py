"""How long to wait before the next attempt."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kue.model import backoff
from kue.model.backoff import Backoff, Exponential, Fixed, Listed, Named
from kue.model.duration import MAX_MS
from kue.model.errors import ConfigError

delays = st.integers(0, MAX_MS)
shares = st.floats(0, 1)
backoffs = (
    st.builds(Fixed, delays, shares)
    | st.builds(Exponential, delays, st.none() | delays, shares)
    | st.builds(Listed, st.lists(delays, min_size=1).map(tuple))
)


def middle() -> float:
    """Stand in for a random number that scatters nothing."""
    return 0.5


@given(backoffs, st.integers(1, 1_000_000), st.floats(0, 1, exclude_max=True))
def test_a_delay_is_never_negative_nor_endless(
    rule: Backoff, attempt: int, chance: float
) -> None:
    assert 0 <= backoff.delay_ms(rule, attempt, jitter=lambda: chance) <= MAX_MS


@given(backoffs)
def test_a_backoff_survives_being_stored(rule: Backoff) -> None:
    assert msgspec.json.decode(msgspec.json.encode(rule), type=Backoff) == rule


def test_no_backoff_is_no_delay() -> None:
    assert backoff.delay_ms(None, 3) == 0


def test_fixed_is_the_same_every_time() -> None:
    rule = backoff.fixed("2s")

    assert [backoff.delay_ms(rule, n) for n in (1, 2, 9)] == [2000, 2000, 2000]


def test_exponential_counts_as_kue_does() -> None:
    rule = backoff.exponential("1s")

    assert [backoff.delay_ms(rule, n) for n in (1, 2, 3, 4)] == [500, 1500, 3500, 7500]


def test_exponential_stops_at_its_cap() -> None:
    rule = backoff.exponential(1, max=timedelta(minutes=1))

    assert backoff.delay_ms(rule, 7) == 60_000
    assert backoff.delay_ms(rule, 10_000) == 60_000


def test_exponential_without_a_cap_stops_at_a_hundred_years() -> None:
    assert backoff.delay_ms(backoff.exponential("1h"), 1_000) == MAX_MS


def test_a_list_repeats_its_last() -> None:
    rule = backoff.listed("1s", "5s", "30s")

    waited = [backoff.delay_ms(rule, n) for n in (1, 2, 3, 4, 50)]

    assert waited == [1000, 5000, 30_000, 30_000, 30_000]


def test_an_empty_list_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"needs at least one"):
        backoff.listed()


@pytest.mark.parametrize(
    ("chance", "waited"), [(0.0, 750), (0.5, 1000), (0.999999, 1250)]
)
def test_jitter_scatters_by_a_share_either_way(chance: float, waited: int) -> None:
    rule = backoff.fixed("1s", jitter=0.25)

    assert backoff.delay_ms(rule, 1, jitter=lambda: chance) == waited


def test_jitter_scatters_exponential_too() -> None:
    rule = backoff.exponential("1s", jitter=1)

    assert backoff.delay_ms(rule, 1, jitter=lambda: 0.0) == 0
    assert backoff.delay_ms(rule, 1, jitter=middle) == 500


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_jitter_is_a_share(share: float) -> None:
    with pytest.raises(ConfigError, match=r"jitter is a share from 0 to 1"):
        backoff.fixed("1s", jitter=share)


def test_a_strategy_of_ones_own_is_registered_by_name() -> None:
    backoff.register("test: squares", lambda attempt: attempt**2)

    assert backoff.delay_ms(backoff.named("test: squares"), 7) == 49


def test_what_a_strategy_answers_is_brought_into_bounds() -> None:
    backoff.register("test: below", lambda attempt: -attempt)
    backoff.register("test: above", lambda attempt: attempt * 1e300)

    assert backoff.delay_ms(Named("test: below"), 1) == 0
    assert backoff.delay_ms(Named("test: above"), 1) == MAX_MS


def test_an_unknown_strategy_says_where_to_register_it() -> None:
    with pytest.raises(ConfigError, match=r"backoff\.register\('absent', …\) where"):
        backoff.delay_ms(backoff.named("absent"), 1)


@pytest.mark.parametrize(
    ("given_as", "read_as"),
    [
        (None, None),
        (False, None),
        (True, Fixed(300)),
        (2, Fixed(2000)),
        ("10s", Fixed(10_000)),
        (timedelta(seconds=1), Fixed(1000)),
        ([1, "2s"], Listed((1000, 2000))),
        ((1,), Listed((1000,))),
        (Exponential(5), Exponential(5)),
        (Listed((1,)), Listed((1,))),
        (Named("n"), Named("n")),
        ({}, Fixed(300)),
        ({"delay": 60_000}, Fixed(60_000)),
        ({"type": "fixed", "delay": 5, "jitter": 0.5}, Fixed(5, 0.5)),
        ({"type": "exponential"}, Exponential(300)),
        (
            {"type": "exponential", "delay": 60, "maxDelay": 90},
            Exponential(60, 90),
        ),
        ({"type": "exponential", "delay": 60, "max": 90}, Exponential(60, 90)),
        ({"type": "list", "delays": [1, 2]}, Listed((1, 2))),
        ({"type": "named", "name": "n"}, Named("n")),
    ],
)
def test_backoff_is_read_as_users_and_kue_clients_give_it(
    given_as: object, read_as: Backoff | None
) -> None:
    assert backoff.of(given_as, base=300) == read_as


@pytest.mark.parametrize("delay", [-1, 1.5, "1s", True, None])
def test_a_mapping_gives_its_delay_in_whole_milliseconds(delay: object) -> None:
    with pytest.raises(ConfigError, match=r"backoff delay is whole milliseconds"):
        backoff.of({"delay": delay})


@pytest.mark.parametrize(
    "mapping",
    [
        {"type": "list"},
        {"type": "list", "delays": []},
        {"type": "list", "delays": ["1s"]},
        {"type": "list", "delays": [-1]},
        {"type": "named"},
        {"type": "named", "name": 5},
        {"type": "exponential", "delay": 1, "maxDelay": "1m"},
        {"type": "exponential", "delay": 1, "max": -1},
        {"delay": MAX_MS + 1},
        {"delay": 1, "jitter": "much"},
    ],
)
def test_a_mapping_that_could_not_be_read_back_is_refused(
    mapping: dict[str, object],
) -> None:
    """Stored, it would make the whole job unreadable."""
    with pytest.raises(ConfigError, match=r"^(a named )?(backoff|jitter) "):
        backoff.of(mapping)


def test_an_unknown_backoff_lists_those_there_are() -> None:
    with pytest.raises(ConfigError, match=r"'fibonacci' is unknown; there are fixed"):
        backoff.of({"type": "fibonacci", "delay": 1})


@pytest.mark.parametrize(
    "make",
    [lambda: backoff.fixed(-1), lambda: backoff.exponential("1s", max=-1)],
    ids=["fixed", "exponential"],
)
def test_negative_times_are_refused(make: Callable[[], Backoff]) -> None:
    with pytest.raises(ValueError, match=r"must not be negative"):
        make()
