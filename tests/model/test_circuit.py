"""When a circuit opens, probes and closes, and how long jobs wait for it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace

from kue.model.circuit import (
    MAX_ERROR,
    SKEW_MS,
    CircuitPolicy,
    CircuitRecord,
    CircuitRun,
    after_failure,
    after_success,
    closed_by_hand,
    opened_by_hand,
    seen,
    wait_ms,
    with_probe,
    without_probe,
)

SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000
#: Wednesday, 18 November 2026, 12:00 UTC.
T0 = 1_795_003_200_000
POLICY = CircuitPolicy.of(failures=3, within="1m", open_for="5m", max_open_for="15m")
ME, OTHER = CircuitRun(7, 70), CircuitRun(8, 80)
CLOSED = CircuitRecord()


def failed(*times: int, record: CircuitRecord = CLOSED) -> CircuitRecord:
    """Return a circuit after ordinary runs failed at these times."""
    for at in times:
        record = after_failure(record, POLICY, "ProviderDown: 503", OTHER, at)
    return record


#: Open from T0 on.
OPEN = failed(T0 - 2, T0 - 1, T0)
HALF_OPEN_AT = T0 + 5 * MINUTE
PROBING = with_probe(OPEN, ME, HALF_OPEN_AT, lost=None)


# -- counting failures ---------------------------------------------------------


@pytest.mark.parametrize(
    ("times", "state", "count"),
    [
        pytest.param([], "closed", 0, id="none"),
        pytest.param([0, 1], "closed", 2, id="too few"),
        pytest.param([0, 1, 2], "open", 3, id="enough"),
        pytest.param([0, 30_000, 59_999], "open", 3, id="just in time"),
        pytest.param([0, 30_000, 60_000], "closed", 2, id="the first is too old"),
        pytest.param([0, 30_000, 60_000, 70_000], "open", 3, id="the window slides"),
        pytest.param([0, 1, 2, 3, 4], "open", 3, id="those after it opened are late"),
        pytest.param([5, 4, 3], "open", 3, id="by clocks that differ a little"),
        pytest.param([0, 1, -HOUR], "open", 3, id="the clock was set back"),
        pytest.param([0, -HOUR, -HOUR + MINUTE], "closed", 1, id="back for a minute"),
    ],
)
def test_enough_failures_in_a_short_time_open_a_circuit(
    times: list[int], state: str, count: int
) -> None:
    record = failed(*(T0 + at for at in times))

    shown = seen("stripe", record, T0 + (times[-1] if times else 0))

    assert (shown.state, shown.failures) == (state, count)


def test_an_open_circuit_says_until_when_and_why() -> None:
    shown = seen("stripe", OPEN, T0 + 1)

    assert (shown.until, shown.opened_at, shown.failed_at) == (HALF_OPEN_AT, T0, T0)
    assert shown.summary == (
        "is open until 2026-11-18T12:05:00Z: 3 failures in 1 minute, "
        "last ProviderDown: 503"
    )


def test_failures_of_runs_from_before_it_opened_change_nothing() -> None:
    assert after_failure(OPEN, POLICY, "late", ME, T0 + 1) is OPEN
    assert after_failure(PROBING, POLICY, "late", OTHER, HALF_OPEN_AT) is PROBING


def test_a_long_error_is_cut() -> None:
    record = after_failure(CLOSED, POLICY, "x" * 10_000, ME, T0)

    assert len(record.last_error) == MAX_ERROR + 1


def test_the_record_of_many_failures_stays_small() -> None:
    policy = CircuitPolicy.of(
        failures=1_000, within="1d", open_for="5m", max_open_for=None
    )
    record = CLOSED
    for number in range(999):
        record = after_failure(record, policy, "down", ME, T0 + number)

    assert len(record.failures) == 999
    assert after_failure(record, policy, "down", ME, T0 + 999).cause == (
        "1,000 failures in 1 day"
    )


# -- probes --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("now", "state"),
    [
        pytest.param(T0, "open", id="at once"),
        pytest.param(HALF_OPEN_AT - 1, "open", id="not yet"),
        pytest.param(HALF_OPEN_AT, "half-open", id="its time is over"),
        pytest.param(HALF_OPEN_AT + HOUR, "half-open", id="long ago"),
        pytest.param(T0 - SKEW_MS, "open", id="clocks differ"),
        pytest.param(T0 - SKEW_MS - 1, "half-open", id="the clock was set back"),
    ],
)
def test_it_is_half_open_when_its_time_is_over(now: int, state: str) -> None:
    assert OPEN.state(now) == state
    assert (with_probe(OPEN, ME, now, lost=None).probe == ME) == (state == "half-open")


def test_there_is_one_probe_and_a_lost_one_is_replaced() -> None:
    second = with_probe(PROBING, OTHER, HALF_OPEN_AT, lost=None)
    after_loss = with_probe(PROBING, OTHER, HALF_OPEN_AT, lost=ME)

    assert second is PROBING
    assert after_loss.probe == OTHER
    # What the lost one reports when it wakes up no longer counts.
    assert after_success(after_loss, ME, HALF_OPEN_AT) is after_loss
    assert after_failure(after_loss, POLICY, "late", ME, HALF_OPEN_AT) is after_loss


def test_a_closed_circuit_has_no_probe() -> None:
    assert with_probe(CLOSED, ME, T0, lost=None) is CLOSED


def test_the_success_of_the_probe_closes_the_circuit() -> None:
    record = after_success(PROBING, ME, HALF_OPEN_AT + SECOND)

    shown = seen("stripe", record, HALF_OPEN_AT + SECOND)
    assert (shown.state, shown.failures, shown.probe) == ("closed", 0, None)
    assert (shown.until, shown.cause) == (None, "")
    assert shown.last_error == "ProviderDown: 503"
    assert shown.closed_at == HALF_OPEN_AT + SECOND


@pytest.mark.parametrize("record", [CLOSED, OPEN, PROBING])
def test_the_success_of_another_run_changes_nothing(record: CircuitRecord) -> None:
    assert after_success(record, OTHER, HALF_OPEN_AT) is record
    assert without_probe(record, OTHER) is record


def test_a_probe_that_shows_nothing_makes_room_for_the_next() -> None:
    record = without_probe(PROBING, ME)

    assert record.state(HALF_OPEN_AT) == "half-open"
    assert with_probe(record, OTHER, HALF_OPEN_AT, lost=None).probe == OTHER


def test_the_failure_of_the_probe_opens_it_again_for_longer_up_to_a_limit() -> None:
    record, now, lengths = OPEN, HALF_OPEN_AT, []
    for _ in range(100):
        record = with_probe(record, ME, now, lost=None)
        record = after_failure(record, POLICY, "still down", ME, now)
        assert record.until is not None
        lengths.append(record.until - now)
        now = record.until

    assert lengths == [10 * MINUTE, *[15 * MINUTE] * 99]
    shown = seen("stripe", record, now - 1)
    assert shown.summary.endswith("its probe failed 100 times, last still down")


def test_a_half_open_circuit_says_which_job_probes() -> None:
    assert seen("stripe", OPEN, HALF_OPEN_AT).summary == (
        "is half-open: the next job is its probe; 3 failures in 1 minute, "
        "last ProviderDown: 503"
    )
    shown = seen("stripe", PROBING, HALF_OPEN_AT)
    assert shown.probe == ME.job
    assert shown.summary.startswith("is half-open: job 7 is its probe; 3 failures")


# -- by hand -------------------------------------------------------------------


@pytest.mark.parametrize("record", [CLOSED, failed(T0), OPEN, PROBING])
def test_an_operator_opens_and_closes_it(record: CircuitRecord) -> None:
    now = HALF_OPEN_AT
    opened = opened_by_hand(record, HOUR, "ann", "they move", now)
    shown = seen("stripe", opened, now)

    assert (shown.state, shown.until, shown.by) == ("open", now + HOUR, "ann")
    assert shown.cause == "opened by ann: they move"
    assert opened.probe is None
    assert opened.state(now + HOUR) == "half-open"

    closed = closed_by_hand(opened, "bob", now + 1)
    shown = seen("stripe", closed, now + 1)
    assert (shown.state, shown.failures, shown.by) == ("closed", 0, "bob")
    assert closed_by_hand(closed, "bob", now + 2) is closed


def test_the_probe_of_a_circuit_that_was_closed_by_hand_counts_as_any_run() -> None:
    closed = closed_by_hand(PROBING, "ann", HALF_OPEN_AT)

    record = after_failure(closed, POLICY, "down", ME, HALF_OPEN_AT + 1)

    assert seen("stripe", record, HALF_OPEN_AT + 1).failures == 1


def test_opening_without_a_name_or_reason_says_so() -> None:
    assert opened_by_hand(CLOSED, HOUR, "", "", T0).cause == "opened by hand"


# -- jobs that wait ------------------------------------------------------------


def test_jobs_return_one_after_the_other_when_it_may_probe() -> None:
    waits = [wait_ms(OPEN, place, T0) for place in range(2_000)]

    assert waits[0] == 5 * MINUTE
    # The others leave the first a second to probe.
    assert waits[1] == 5 * MINUTE + SECOND + 10
    assert all(after - before == 10 for before, after in pairwise(waits[1:]))


def test_however_many_wait_they_return_soon_after_it_may_probe() -> None:
    waits = {wait_ms(OPEN, place, T0) for place in range(100_000)}

    assert max(waits) < 5 * MINUTE + SECOND + 30 * SECOND
    assert len(waits) > 2_900


@pytest.mark.parametrize(
    ("length", "pause"),
    [(5 * MINUTE, 30 * SECOND), (HOUR, 30 * SECOND), (SECOND, SECOND)],
)
def test_while_another_job_probes_a_job_looks_again_later(
    length: int, pause: int
) -> None:
    record = replace(OPEN, until=T0 + length)

    assert wait_ms(record, 0, T0 + length) == pause


def test_after_the_clock_was_set_back_no_job_waits_for_the_old_time() -> None:
    assert wait_ms(OPEN, 0, T0 - HOUR) == 30 * SECOND


# -- options -------------------------------------------------------------------


def policy(**changes: Any) -> CircuitPolicy:
    given: dict[str, Any] = {
        "failures": 5,
        "within": "1m",
        "open_for": "5m",
        "max_open_for": None,
    }
    return CircuitPolicy.of(**given | changes)


def test_without_a_limit_it_reopens_for_up_to_four_times_as_long() -> None:
    assert policy().max_open_for == 20 * MINUTE


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"failures": 0}, "failures must be from 1 to 1,000, not 0"),
        ({"failures": 1_001}, "failures must be from 1 to 1,000, not 1001"),
        ({"failures": True}, "failures must be a whole number, not True"),
        ({"failures": "5"}, "failures must be a whole number, not '5'"),
        ({"within": 0}, "within must be longer than 0 and at most a day"),
        ({"within": "25h"}, "within must be longer than 0 and at most a day"),
        ({"within": "soon"}, "within 'soon' cannot be read"),
        ({"open_for": 0}, "open_for must be longer than 0 and at most a year"),
        ({"open_for": "400d"}, "open_for must be longer than 0 and at most a year"),
        ({"max_open_for": "1m"}, "max_open_for must be at least open_for, '5m'"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        policy(**changes)
