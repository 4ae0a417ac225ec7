"""Rules of alerts: thresholds, and what is reported when."""

from __future__ import annotations

from typing import Any

import pytest

from kue.model.alert_options import checked_url, rule_of, shown_url
from kue.model.alerts import (
    MAX_ACTIVE,
    MAX_NOTICES,
    AlertFacts,
    AlertRule,
    AlertState,
    Breach,
    advance,
    breaches,
)
from kue.store.values import MAX_KEPT
from kue.worker.alert_records import AlertRules, state_text

MINUTE = 60_000
RULE = rule_of(oldest="5m", backlog=10, failures="20%", no_worker="1m")
LATE = Breach("oldest", 6 * MINUTE, 5 * MINUTE)


def reported(state: AlertState) -> list[tuple[str, str, str]]:
    return [(one.status, one.type, one.kind) for one in state.notices]


# -- options -------------------------------------------------------------------


def test_options_are_kept_in_ms_and_as_a_share() -> None:
    assert rule_of(
        oldest="5m", backlog=3, failures="20%", no_worker=90, remind=0, within="10m"
    ) == AlertRule(
        oldest=5 * MINUTE,
        backlog=3,
        failures=0.2,
        no_worker=90_000,
        remind=0,
        within=10 * MINUTE,
    )
    assert rule_of(failures=1).failures == 1.0


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"oldest": 0}, "oldest must be longer than 0"),
        ({"oldest": "soon"}, "oldest 'soon' cannot be read"),
        ({"backlog": 0}, "backlog must be from 1"),
        ({"backlog": 1.5}, "backlog must be a whole number"),
        ({"backlog": True}, "backlog must be a whole number"),
        ({"failures": 0}, "failures must be above 0"),
        ({"failures": "120%"}, "failures must be above 0 and at most 1"),
        ({"failures": "many"}, "failures must be a share"),
        ({"failures": True}, "failures must be a share"),
        ({"failures": float("nan")}, "failures must be above 0"),
        ({"within": "10s"}, "within must be from 1m to 1h"),
        ({"least": 0}, "least must be from 1"),
        ({"webhook": "ftp://a.b/c"}, "begins with https:// or http://"),
        ({"webhook": "file:///etc/passwd"}, "begins with https:// or http://"),
        ({"webhook": "https://ann:pw@a.b/c"}, "no user name or password"),
        ({"webhook": "https://a.b/c\r\nHost: x"}, "printable ASCII"),
        ({"webhook": 3}, "webhook must be text"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(
    option: dict[str, Any], message: str
) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        rule_of(**option)


def test_the_path_of_a_webhook_is_not_shown() -> None:
    assert (
        shown_url("https://chat.example.com/T0/B1?x=1") == "https://chat.example.com/…"
    )
    assert shown_url("https://a.b?token=1") == "https://a.b/…"
    assert shown_url("http://localhost:8080") == "http://localhost:8080"
    assert checked_url("http://[::1]:8080/x") == "http://[::1]:8080/x"


# -- thresholds ----------------------------------------------------------------


def test_a_threshold_is_reached_by_its_very_value() -> None:
    facts = AlertFacts(10, 5 * MINUTE, ended=20, failed=4, unserved=MINUTE)
    below = AlertFacts(9, 5 * MINUTE - 1, ended=20, failed=3, unserved=MINUTE - 1)

    assert [one.kind for one in breaches(RULE, facts)] == [
        *("oldest", "backlog", "failures", "no_worker")
    ]
    assert list(breaches(RULE, below)) == []
    assert list(breaches(AlertRule(), facts)) == []


def test_a_failure_rate_needs_enough_jobs() -> None:
    few = AlertFacts(ended=19, failed=19)

    assert list(breaches(RULE, few)) == []
    assert [one.value for one in breaches(rule_of(failures=0.5, least=1), few)] == [1.0]


def test_a_type_has_its_own_rule_or_the_default() -> None:
    rules = AlertRules(RULE, {"quiet": AlertRule()})

    assert rules.of("email") is RULE
    assert rules.of("quiet") == AlertRule()
    assert rules.of("kue.webhook") is None


# -- reports -------------------------------------------------------------------


def test_an_alert_is_raised_once_repeated_after_a_while_and_resolved_once() -> None:
    remind = {"email": 10 * MINUTE}
    state = AlertState()
    for minute in range(0, 25, 5):
        state = advance(state, {"email": [LATE]}, remind, minute * MINUTE)
    state = advance(state, {}, remind, 25 * MINUTE)
    state = advance(state, {}, remind, 30 * MINUTE)

    assert reported(state) == [
        ("raised", "email", "oldest"),
        ("reminded", "email", "oldest"),
        ("reminded", "email", "oldest"),
        ("resolved", "email", "oldest"),
    ]
    assert [one.number for one in state.notices] == [1, 2, 3, 4]
    assert state.active == ()
    assert state.notices[-1].message == (
        "resolved after 25 min: a job of queue 'email' has been waiting for 6 min "
        "(threshold 5 min)"
    )


def test_without_reminders_an_alert_is_reported_only_at_its_ends() -> None:
    state = advance(AlertState(), {"email": [LATE]}, {}, 0)
    state = advance(state, {"email": [LATE]}, {}, 100_000 * MINUTE)

    assert reported(state) == [("raised", "email", "oldest")]
    assert state.active[0].since == 0


def test_however_many_and_long_names_are_a_state_fits_its_record() -> None:
    state = AlertState()
    for turn in range(5):
        names = [f"{turn}{number:03}".ljust(200, '"') for number in range(500)]
        state = advance(state, {name: [LATE] for name in names}, {}, turn)

    assert len(state.active) == MAX_ACTIVE
    assert len(state.notices) <= max(MAX_NOTICES, 2 * MAX_ACTIVE)
    assert len(state_text(state).encode()) <= MAX_KEPT
