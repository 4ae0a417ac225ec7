"""Options about unique keys: what they become, and what makes no sense."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from kue.model.draft import draft

SOON = datetime(2030, 1, 1, tzinfo=UTC)


def test_a_throttle_holds_the_key_for_exactly_its_time() -> None:
    made = draft("email", unique="k", throttle="1h")

    assert (made.unique_for, made.unique_at_most) == (3_600_000, 3_600_000)


def test_a_debounce_replaces_until_the_start() -> None:
    made = draft("email", unique="k", debounce="5s", debounce_max="1m")

    assert (made.on_conflict, made.unique_until) == ("replace", "start")
    assert (made.spec.delay, made.debounce, made.debounce_max) == (5000, 5000, 60_000)


def test_what_a_debounced_job_shows_can_be_given_again() -> None:
    given: dict[str, Any] = {"debounce": 5, "delay": 5, "unique_until": "start"}

    assert draft("email", unique="k", on_conflict="replace", **given).debounce == 5000


def test_none_leaves_an_option_out() -> None:
    names = ("unique_until", "unique_at_most", "on_conflict", "throttle", "debounce")
    options: dict[str, Any] = dict.fromkeys(names)

    assert draft("email", **options) == draft("email")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"unique_until": "start"}, "^unique_until says when .* give unique= too"),
        ({"unique_at_most": 5}, "^unique_at_most is how long .* give unique= too"),
        ({"on_conflict": "reject"}, "^on_conflict says what .* give unique= too"),
        ({"throttle": 5}, "^throttle is how often .* give unique= too"),
        ({"debounce": 5}, "^debounce waits for .* give unique= too"),
        ({"unique": "k", "unique_until": "x"}, "^unique_until is one of 'end', 'star"),
        ({"unique": "k", "on_conflict": 5}, "^on_conflict is one of 'existing', 'rej"),
        ({"unique": "k", "unique_at_most": 0}, "^unique_at_most must be more than 0"),
        ({"unique": "k", "throttle": 0}, "^throttle must be more than 0"),
        ({"unique": "k", "debounce": 0}, "^debounce must be more than 0"),
        ({"unique": "k", "debounce": -1}, "^debounce must not be negative"),
        ({"unique": "k", "debounce_max": 5}, "^debounce_max is the longest wait; giv"),
        (
            {"unique": "k", "unique_for": 9, "unique_at_most": 5},
            "^unique_at_most must not be less than unique_for",
        ),
        (
            {"unique": "k", "throttle": 5, "unique_for": 5},
            "^throttle holds the key",
        ),
        (
            {"unique": "k", "debounce": 5, "debounce_max": 4},
            "^debounce_max must not be less than debounce",
        ),
        ({"unique": "k", "debounce": 5, "delay": 4}, "^give debounce or a time"),
        ({"unique": "k", "debounce": 5, "at": SOON}, "^give debounce or a time"),
        ({"unique": "k", "debounce": 5, "throttle": 5}, "^give debounce or throttle"),
        ({"unique": "k", "debounce": 5, "unique_for": 5}, "^give debounce or unique_f"),
        (
            {"unique": "k", "debounce": 5, "on_conflict": "reject"},
            "^debounce replaces the job that waits; leave out on_conflict",
        ),
        (
            {"unique": "k", "debounce": 5, "unique_until": "end"},
            "^debounce frees the key at the start; leave out unique_until",
        ),
        (
            {"unique": "k", "on_conflict": "replace", "after": [1]},
            "^a job that replaces another cannot wait for others; leave out after",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        draft("email", **options)
