"""Named limits: rules, limits of tasks, and how far a rate is spent."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kue.model.named_limits import (
    MAX_LIMITS,
    MAX_NUMBER,
    MAX_REF,
    LimitRule,
    RateLevel,
    StoredLimit,
    TaskLimit,
    check_limited_by,
    concurrency,
    limit_ref,
    rate,
    read_ref,
)
from tests.support.jobs import HOUR, MINUTE, SECOND, T0

FIVE = LimitRule(concurrency=5)
RULES = [
    (FIVE, "5 - 1000 -", "5 at once"),
    (LimitRule(concurrency=10_000), "10000 - 1000 -", "10,000 at once"),
    (LimitRule(rate=10), "- 10 1000 -", "10 per second"),
    (LimitRule(rate=1, per=MINUTE), "- 1 60000 -", "1 per minute"),
    (LimitRule(rate=100, per=5 * MINUTE), "- 100 300000 -", "100 per 5 minutes"),
    (
        LimitRule(rate=10, burst=20),
        "- 10 1000 20",
        "10 per second, bursts of 20",
    ),
]

# -- rules ---------------------------------------------------------------------


@pytest.mark.parametrize(("rule", "text", "words"), RULES)
def test_a_rule_is_stored_as_numbers_and_said_in_words(
    rule: LimitRule, text: str, words: str
) -> None:
    assert (rule.text, rule.words) == (text, words)
    assert LimitRule.read(text) == rule
    for stored in (StoredLimit(rule), StoredLimit(rule, FIVE)):
        assert StoredLimit.read(stored.text) == stored


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "either a concurrency or a rate"),
        ({"concurrency": 1, "rate": 1}, "either a concurrency or a rate"),
        ({"concurrency": 0}, "concurrency must be at least 1, not 0"),
        ({"rate": -1}, "rate must be at least 1, not -1"),
        ({"rate": 1, "per": 0}, "per must be at least 1, not 0"),
        ({"rate": 1, "burst": 0}, "burst must be at least 1, not 0"),
        ({"concurrency": 1, "burst": 2}, "burst is part of a rate"),
        ({"rate": MAX_NUMBER + 1}, "rate must be at most 1,000,000"),
        ({"concurrency": True}, "concurrency must be a whole number, not True"),
        ({"rate": 1.5}, "rate must be a whole number, not 1.5"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(
    values: dict[str, Any], message: str
) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        LimitRule(**values)


@pytest.mark.parametrize("text", ["", "5", "5 - 1000", "a - 1000 -", "- - 1000 -"])
def test_a_text_that_is_not_a_rule_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        LimitRule.read(text)


# -- limits of tasks -----------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "number", "per"),
    [
        ("10/s", 10, SECOND),
        ("10/1s", 10, SECOND),
        (" 10 / 5m ", 10, 5 * MINUTE),
        ("1/sec", 1, SECOND),
        ("1/min", 1, MINUTE),
        ("1/minute", 1, MINUTE),
        ("1000/hour", 1000, HOUR),
        ("3/day", 3, 24 * HOUR),
        ("3/1h30m", 3, 90 * MINUTE),
        ("7/100ms", 7, 100),
    ],
)
def test_a_rate_is_a_number_in_a_time(text: str, number: int, per: int) -> None:
    assert rate(text).rule == LimitRule(rate=number, per=per)


@pytest.mark.parametrize(
    "text", ["", "10", "/s", "10/", "ten/s", "10/0s", "10/soon", "-1/s", "0/s", "1.5/s"]
)
def test_a_text_that_is_not_a_rate_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"rate|number|soon"):
        rate(text)


def test_a_rate_must_be_text() -> None:
    number: Any = 10
    with pytest.raises(ValueError, match="a rate is written as number/time"):
        rate(number)


@pytest.mark.parametrize(
    ("limit", "name"),
    [
        (rate("1/s"), "email.rate"),
        (rate("1/s", by="user.id"), "email.rate.user.id"),
        (concurrency(1), "email.concurrency"),
        (concurrency(1, by="to"), "email.concurrency.to"),
        (concurrency(1, name="stripe"), "stripe"),
        (concurrency(1, name="stripe", by="to"), "stripe"),
    ],
)
def test_a_limit_without_a_name_is_of_its_type(limit: TaskLimit, name: str) -> None:
    assert limit.named("email").name == name


@pytest.mark.parametrize("name", ["", ".", "..", "a\nb", "x" * 300])
def test_a_name_that_cannot_be_one_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="limit"):
        concurrency(1, name=name)


@pytest.mark.parametrize("by", ["", 7])
def test_what_a_limit_is_by_is_the_name_of_an_argument(by: Any) -> None:
    with pytest.raises(TypeError, match="by names an argument of the task"):
        concurrency(1, by=by)


@dataclass
class User:
    id: int | None


@pytest.mark.parametrize(
    ("by", "data", "key"),
    [
        (None, {}, ""),
        ("to", {"to": "ann"}, "ann"),
        ("to", {"to": 42}, "42"),
        ("to", {"to": ""}, ""),
        ("to", {"to": None}, None),
        ("user.id", {"user": {"id": 7}}, "7"),
        ("user.id", {"user": User(7)}, "7"),
        ("user.id", {"user": User(None)}, None),
        ("to", {"to": uuid.UUID(int=1)}, "00000000-0000-0000-0000-000000000001"),
    ],
)
def test_the_key_is_a_value_of_the_data(
    by: str | None, data: dict[str, Any], key: str | None
) -> None:
    assert concurrency(1, by=by, name="stripe").key_in(data) == key


@pytest.mark.parametrize(
    ("by", "data", "message"),
    [
        ("to", {}, "limit 'stripe' is by 'to', which it does not have"),
        ("user.id", {"user": {}}, "is by 'user.id', which it does not have"),
        ("user.id", {"user": None}, "is by 'user.id', which it does not have"),
        ("user.id", {"user": "ann"}, "is by 'user.id', which it does not have"),
        ("to", {"to": True}, "must be text or a whole number, not True"),
        ("to", {"to": 1.5}, "must be text or a whole number, not 1.5"),
        ("to", {"to": ["ann"]}, "must be text or a whole number"),
    ],
)
def test_a_value_that_cannot_be_a_key_is_refused(
    by: str, data: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        concurrency(1, by=by, name="stripe").key_in(data)


# -- limits of jobs ------------------------------------------------------------


def test_names_and_keys_keep_their_order() -> None:
    assert check_limited_by(None) == ()
    assert check_limited_by({"b": "1", "a": ""}) == (("b", "1"), ("a", ""))


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (["stripe"], "limited_by maps names of limits to keys"),
        ("stripe", "limited_by maps names of limits to keys"),
        ({"": "x"}, "limit"),
        ({"..": "x"}, "limit must not be"),
        ({"a": 7}, "the key of limit 'a' must be text, not 7"),
        ({"a": None}, "the key of limit 'a' must be text, not None"),
        ({"a": "x" * (MAX_REF + 1)}, "is longer than 250 bytes"),
        # Each of these takes three bytes where it is stored.
        ({"a": "%" * 100}, "is longer than 250 bytes"),
        (
            {str(number): "" for number in range(MAX_LIMITS + 1)},
            "a job counts against at most 5 limits, not 6",
        ),
    ],
)
def test_what_cannot_limit_a_job_is_refused(limits: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        check_limited_by(limits)


@given(
    st.text(st.characters(exclude_categories=["Cs"])),
    st.text(st.characters(exclude_categories=["Cs"])),
)
def test_a_reference_has_name_and_key(name: str, key: str) -> None:
    assert read_ref(limit_ref(name, key)) == (name, key)


# -- rates at one moment -------------------------------------------------------


class Rate:
    """A rate that jobs start under, written and read again each time."""

    def __init__(self, rule: LimitRule) -> None:
        self.rule = rule
        self.text = ""
        self.starts: list[int] = []

    def level(self, now: int) -> RateLevel:
        return RateLevel.read(self.rule, self.text, now)

    def start(self, wanted: int, now: int) -> int:
        """Let up to *wanted* jobs start; return how many did."""
        level = self.level(now)
        count = min(wanted, level.left)
        if count:
            self.text = level.spend(count).text
        self.starts += [now] * count
        return count

    def most_within(self, length: int) -> int:
        """Return how many starts the fullest time of so many ms has."""
        return max(
            (
                sum(first <= at < first + length for at in self.starts)
                for first in self.starts
            ),
            default=0,
        )


rules = st.builds(
    LimitRule,
    rate=st.integers(1, 20),
    per=st.one_of(st.integers(1, 300), st.integers(300, 10_000), st.just(HOUR)),
)
#: How long after the one before jobs are claimed, as a share of the time, and how many.
claims = st.lists(
    st.tuples(st.floats(0, 1.5), st.integers(1, 30)), min_size=1, max_size=40
)


@given(rules, st.integers(0, 10_000), claims)
def test_no_window_has_more_starts_than_the_rate(
    rule: LimitRule, offset: int, wanted: list[tuple[float, int]]
) -> None:
    used, now = Rate(rule), T0 + offset
    for share, count in wanted:
        now += int(share * rule.per)
        used.start(count, now)

    assert used.most_within(rule.per) <= (rule.rate or 0)


@given(rules, st.integers(0, 10_000), claims)
def test_a_full_rate_opens_when_it_says_and_not_before(
    rule: LimitRule, offset: int, wanted: list[tuple[float, int]]
) -> None:
    used, now = Rate(rule), T0 + offset
    for share, count in wanted:
        now += int(share * rule.per)
        if used.start(count, now) == count:
            continue
        opens_at = used.level(now).opens_at
        assert now < opens_at <= now + rule.per + rule.part
        assert used.level(opens_at - 1).left == 0
        assert used.level(opens_at).left > 0


@given(rules, st.integers(1, 20), claims)
def test_a_bucket_never_lets_more_start_than_its_burst_and_what_flows_in(
    rule: LimitRule, burst: int, wanted: list[tuple[float, int]]
) -> None:
    bucket = LimitRule(rate=rule.rate, per=rule.per, burst=burst)
    used, now = Rate(bucket), T0
    for share, count in wanted:
        now += int(share * rule.per)
        used.start(count, now)
        level = used.level(now)
        assert level.left or used.level(level.opens_at).left > 0
        assert level.left or used.level(level.opens_at - 1).left == 0

    for first in {*used.starts}:
        for last in {*used.starts}:
            started = sum(first <= at <= last for at in used.starts)
            flowed = (last - first) * (rule.rate or 0) / rule.per
            assert first > last or started <= burst + flowed


@given(rules, st.none() | st.integers(1, 20), claims)
def test_what_is_kept_no_longer_has_no_effect(
    rule: LimitRule, burst: int | None, wanted: list[tuple[float, int]]
) -> None:
    limited = LimitRule(rate=rule.rate, per=rule.per, burst=burst)
    used, now = Rate(limited), T0
    for share, count in wanted:
        now += int(share * rule.per)
        used.start(count, now)

    later = now + used.level(now).kept_ms
    assert used.level(later).left == RateLevel.read(limited, "", later).left


def test_a_window_keeps_one_number_per_part() -> None:
    used = Rate(LimitRule(rate=MAX_NUMBER, per=100 * SECOND))
    for ms in range(0, 100 * SECOND, 50):
        used.start(1, T0 + ms)

    assert len(used.level(T0 + 100 * SECOND - 1).starts) <= 101


@pytest.mark.parametrize("text", ["", "garbage", "b1:2", "w", "wx:y"])
def test_a_window_that_cannot_be_read_is_as_good_as_new(text: str) -> None:
    assert RateLevel.read(LimitRule(rate=3), text, T0).left == 3


@pytest.mark.parametrize("text", ["", "garbage", "w1:2", "b", "bx:y"])
def test_a_bucket_that_cannot_be_read_is_full(text: str) -> None:
    assert RateLevel.read(LimitRule(rate=3, burst=7), text, T0).left == 7


@pytest.mark.parametrize("burst", [None, 5])
def test_starts_of_a_clock_that_was_set_back_do_not_count(burst: int | None) -> None:
    rule = LimitRule(rate=5, burst=burst)
    used = Rate(rule)
    used.start(5, T0 + HOUR)

    assert used.level(T0).left == 5


def test_a_rule_that_changed_counts_what_started_under_the_one_before() -> None:
    used = Rate(LimitRule(rate=10, per=MINUTE))
    used.start(8, T0)

    used.rule = LimitRule(rate=9, per=MINUTE)

    assert used.level(T0 + SECOND).left == 1
