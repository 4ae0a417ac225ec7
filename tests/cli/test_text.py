"""How values are shown."""

from __future__ import annotations

import json

import pytest

from kue.cli.output.text import (
    both,
    iso,
    jobs,
    json_text,
    since,
    visible,
    visible_lines,
    words,
)

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ünïcode 漢字 🙂", "plain ünïcode 漢字 🙂"),
        ("a\tb\nc\rd", r"a\tb\nc\rd"),
        ("\x1b[31m\x07\x00\x7f\x9b", r"\x1b[31m\x07\x00\x7f\x9b"),
        ("\u202e\u2066\u200b\ufeff", r"\u202e\u2066\u200b\ufeff"),
        ("\ud800", r"\ud800"),
    ],
)
def test_control_characters_are_made_visible(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_lines_stay_lines() -> None:
    assert visible_lines("a\n\tb\x1b") == ["a", r"    b\x1b"]


@pytest.mark.parametrize("text", ["\x1b", "\x9b", "\u2028", "\U000e0041", "a\nb", "é"])
def test_json_stays_json(text: str) -> None:
    shown = json_text({"text": text})

    assert json.loads(shown) == {"text": text}
    assert visible(shown) == shown


@pytest.mark.parametrize(
    ("milliseconds", "said"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1_000, "1 s"),
        (1_540, "1.5 s"),
        (59_999, "59 s"),
        (MINUTE, "1 min"),
        (MINUTE + 5_000, "1 min 5 s"),
        (HOUR + 3 * MINUTE, "1 h 3 min"),
        (2 * DAY + 4 * HOUR + MINUTE, "2 d 4 h"),
        (4000 * DAY, "4,000 d"),
    ],
)
def test_durations_are_told_in_words(milliseconds: int, said: str) -> None:
    assert words(milliseconds) == said


def test_moments_are_told_from_now() -> None:
    assert since(1_000, 61_000) == "1 min ago"
    assert since(61_000, 1_000) == "in 1 min"
    assert both(0, MINUTE).endswith(" (1 min ago)")


def test_a_time_that_no_calendar_has_is_a_number() -> None:
    assert iso(10**18) == "1000000000000000000 ms"


def test_one_is_no_plural() -> None:
    assert (jobs(1), jobs(2_000, "failed job")) == ("1 job", "2,000 failed jobs")
