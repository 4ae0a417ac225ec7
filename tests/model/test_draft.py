"""Drafts from what users write."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kue.model.backoff import Exponential, Fixed
from kue.model.draft import MAX_ATTEMPTS, OPTIONS, check_options, draft
from kue.model.duration import epoch_ms
from kue.model.errors import BadPayload
from kue.model.job import MAX_PARENTS, MAX_TAGS
from kue.model.payload import decode

MOMENT = datetime(2030, 1, 1, tzinfo=UTC)
MOMENT_MS = 1_893_456_000_000


def test_a_type_is_enough() -> None:
    plain = draft("email")

    assert decode(plain.spec.data) is None
    assert (plain.type, plain.priority, plain.at) == ("email", 0, None)
    assert (plain.spec.max_attempts, plain.spec.backoff) == (1, None)
    assert (plain.ttl, plain.expires, plain.spec.timeout) == (0, 0, 0)
    assert not plain.once


def test_options_are_normalised() -> None:
    full = draft(
        "email",
        {"to": "a@b.c"},
        priority="high",
        delay="10m",
        attempts=5,
        backoff={"type": "exponential", "delay": 100},
        timeout=30,
        ttl="1m",
        expires=timedelta(hours=1),
        unique="a@b.c",
        unique_for="1d",
        group="b.c",
        tags=["mail", "new", "mail"],
        parent=3,
        after=[1, 2, 1],
        on_parent_failure="run",
        remove_on_complete=True,
        retention="2d",
        delivery="at-most-once",
        meta={"trace": "1"},
        address_id="11111111222243338444555555555555",
    )

    assert decode(full.spec.data) == {"to": "a@b.c"}
    assert (full.priority, full.at, full.spec.delay) == (-10, None, 600_000)
    assert (full.spec.max_attempts, full.spec.backoff) == (5, Exponential(100))
    assert (full.spec.timeout, full.ttl, full.expires) == (30_000, 60_000, 3_600_000)
    assert (full.unique, full.unique_for, full.group) == ("a@b.c", 86_400_000, "b.c")
    assert (full.spec.tags, full.spec.parent) == (("mail", "new"), 3)
    assert (full.spec.after, full.on_parent_failure) == ((1, 2), "run")
    assert (full.spec.remove_on_complete, full.spec.retention) == (True, 172_800_000)
    assert (full.once, full.spec.meta) == (True, {"trace": "1"})
    assert full.spec.address_id == "11111111-2222-4333-8444-555555555555"


@pytest.mark.parametrize("when", [{"at": MOMENT}, {"delay": MOMENT}])
def test_a_moment_is_kept_as_such(when: dict[str, Any]) -> None:
    """A delay that was computed here would carry this machine's clock."""
    later = draft("email", **when)

    assert (later.at, later.spec.delay) == (MOMENT_MS, 0)


def test_backoff_true_is_the_delay_of_the_job() -> None:
    assert draft("email", delay="5s", backoff=True).spec.backoff == Fixed(5_000)


def test_retention_of_nothing_means_at_once_and_none_the_rule_of_the_queue() -> None:
    assert draft("email", retention=0).spec.retention == 0
    assert draft("email").spec.retention is None


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"type": ""}, ValueError, "^type must have 1 to 200 bytes"),
        ({"type": None}, TypeError, "^type must be text, not None"),
        ({"data": float("nan")}, BadPayload, "^data: is nan"),
        ({"data": "x" * 99, "max_data": 100}, BadPayload, "^data: is 101 bytes.*refer"),
        (
            {"priority": "urgent"},
            ValueError,
            "^priority 'urgent' is unknown; there are",
        ),
        ({"priority": 5000}, ValueError, "^priority must be from -1024 to 1023"),
        ({"delay": -1}, ValueError, "^delay must not be negative.*give 0"),
        ({"delay": "soon"}, ValueError, "^delay 'soon' cannot be read"),
        ({"delay": 5, "at": MOMENT}, ValueError, "^give delay or at, not both"),
        ({"at": MOMENT.replace(tzinfo=None)}, ValueError, "^at needs .* time zone"),
        (
            {"delay": MOMENT.replace(tzinfo=None)},
            ValueError,
            "^delay needs .* time zon",
        ),
        ({"attempts": 0}, ValueError, "^attempts must be from 1 to 1,000,000, not 0"),
        ({"attempts": MAX_ATTEMPTS + 1}, ValueError, "^attempts must be from 1 to"),
        ({"attempts": "3"}, TypeError, "^attempts must be a whole number, not '3'"),
        ({"attempts": True}, TypeError, "^attempts must be a whole number, not True"),
        ({"attempts": None}, TypeError, 'not None; write "unlimited" for no limit$'),
        ({"max_exceptions": 0}, ValueError, "^max_exceptions must be from 1 to 20, no"),
        ({"max_exceptions": 21}, ValueError, "from 1 to 20, not 21; leave it out for"),
        ({"max_exceptions": "3"}, TypeError, "^max_exceptions must be a whole number"),
        ({"retry_until": 0}, ValueError, "^retry_until must be more than 0; leave it"),
        ({"retry_until": "soon"}, ValueError, "^retry_until 'soon' cannot be read"),
        (
            {"retry_until": MOMENT.replace(tzinfo=None)},
            ValueError,
            "^retry_until needs .* time zone",
        ),
        ({"backoff": {"type": "x"}}, ValueError, "^backoff type 'x' is unknown; there"),
        ({"timeout": 0}, ValueError, "^timeout must be more than 0; leave it out for"),
        ({"ttl": 0}, ValueError, "^ttl must be more than 0; leave it out for"),
        ({"expires": "0s"}, ValueError, "^expires must be more than 0; leave it out"),
        ({"unique": ""}, ValueError, "^unique key must have 1 to 200 bytes"),
        ({"unique_for": -1}, ValueError, "^unique_for must not be negative"),
        ({"group": "a\n"}, ValueError, "^group .* must not contain control characters"),
        ({"tags": "mail"}, TypeError, "^tags must be a list of texts, not 'mail'"),
        ({"tags": [1]}, TypeError, "^tag must be text, not 1"),
        (
            {"tags": map(str, range(MAX_TAGS + 1))},
            ValueError,
            "at most 50 tags, not 51",
        ),
        ({"parent": 0}, ValueError, "^parent must be a job or its id, not 0"),
        ({"parent": True}, ValueError, "^parent must be a job or its id, not True"),
        ({"after": ["1"]}, ValueError, "^after must be a job or its id, not '1'"),
        ({"after": range(1, MAX_PARENTS + 2)}, ValueError, "at most 1000 others, not"),
        ({"retention": -1}, ValueError, "^retention must not be negative"),
        ({"delivery": "once"}, ValueError, "^delivery is 'at-least-once' or 'at-most-"),
        ({"meta": {"a": 1}}, TypeError, "^meta maps text to text, but has 'a': 1"),
        ({"meta": {1: "a"}}, TypeError, "^meta maps text to text, but has 1: 'a'"),
        ({"meta": {"a": "x" * 9000}}, BadPayload, "^meta: is 9,008 bytes"),
        (
            {"address_id": "x"},
            ValueError,
            "^address_id must be a UUID as text, not 'x'",
        ),
        ({"address_id": 5}, ValueError, "^address_id must be a UUID as text, not 5"),
        ({"at": "2030"}, TypeError, "^at must be a datetime, not '2030'"),
        ({"tags": 5}, TypeError, "^tags must be a list of texts, not 5"),
        ({"after": 5}, TypeError, "^after must be a list of jobs or their ids, not 5"),
    ],
)
def test_a_bad_option_is_refused_by_name_before_any_io(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        draft(**({"type": "email"} | options))


def test_attempts_may_be_unlimited() -> None:
    assert draft("email", attempts="unlimited").spec.max_attempts == 0


def test_retries_may_end_after_a_while_or_at_a_moment() -> None:
    for_two_hours = draft("email", retry_until="2h").spec
    until_then = draft("email", retry_until=MOMENT).spec

    assert (for_two_hours.retry_for, for_two_hours.retry_until) == (7_200_000, None)
    assert (until_then.retry_for, until_then.retry_until) == (0, epoch_ms(MOMENT))


def test_the_most_tags_and_parents_are_allowed() -> None:
    full = draft(
        "email", tags=map(str, range(MAX_TAGS)), after=range(1, MAX_PARENTS + 1)
    )

    assert len(full.spec.tags) == MAX_TAGS
    assert len(full.spec.after) == MAX_PARENTS


# -- names of options ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("prio", "priority"),
        ("time_out", "timeout"),
        ("attempt", "attempts"),
        ("countdown", "delay"),
        ("eta", "at"),
        ("max_retries", "attempts"),
        ("tries", "attempts"),
    ],
)
def test_a_wrong_option_is_answered_with_the_nearest(wrong: str, right: str) -> None:
    """Friction 14: it was a TypeError of a function that nobody had called."""
    with pytest.raises(TypeError) as caught:
        check_options(["tags", wrong])

    message = str(caught.value)
    assert f"{wrong} is not an option of a job; did you mean {right}? " in message
    assert message.endswith(", ".join(sorted(OPTIONS)))


def test_an_option_that_is_like_no_other_is_answered_with_all_there_are() -> None:
    with pytest.raises(TypeError, match=r"zzz is not an option of a job; the options"):
        check_options(["zzz"])


def test_jobs_are_waited_for_by_id_or_as_they_are() -> None:
    class Held:
        id = 7

    assert draft("email", after=[Held(), 8], parent=Held()).spec.after == (7, 8)
    with pytest.raises(ValueError, match="after must be a job or its id, not 'x'"):
        draft("email", after=["x"])  # type: ignore[list-item]
