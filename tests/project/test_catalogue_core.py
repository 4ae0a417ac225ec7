"""Defects of the systems Kue comes from that the core alone can have, or not."""

from __future__ import annotations

from typing import Any

import pytest

from kue.model import backoff, retry_policy
from kue.model.draft import draft
from kue.model.duration import MAX_MS
from kue.model.errors import ConfigError
from kue.model.job import Attempt, Completed, Error, Failed, Job, Retried, Spec, State
from kue.model.names import quote, unquote
from kue.worker.progress_values import percent

T0 = 1_800_000_000_000
OOPS = Error("ValueError", "oops")


def running(*, attempt: int = 1, max_attempts: int = 3, **spec: Any) -> Job:
    """Return a job in its *attempt*-th run."""
    made = Spec(max_attempts=max_attempts, **spec)
    return Job(
        id=1,
        type="email",
        state=State.ACTIVE,
        priority=0,
        created_at=T0,
        spec=made,
        token=f"7:{T0}:{attempt}:w1:lane.1",
    )


def test_a_job_runs_as_often_as_it_has_attempts() -> None:
    """D-17: with three attempts the third failure is the last."""
    endings = [
        retry_policy.after_error(running(attempt=n), OOPS, T0) for n in (1, 2, 3)
    ]

    assert endings == [Retried(OOPS), Retried(OOPS), Failed(OOPS)]


def test_backoff_grows_from_what_was_asked_for_and_not_from_itself() -> None:
    """D-20: each pause is computed again; nothing is written over the delay."""
    spec_backoff = backoff.exponential("10s")
    delays = [
        retry_policy.retry_delay_ms(
            running(attempt=n, max_attempts=9, delay=500, backoff=spec_backoff)
        )
        for n in (1, 2, 3, 4)
    ]

    assert delays == [5_000, 15_000, 35_000, 75_000]


def test_backoff_of_the_jobs_own_delay_keeps_the_delay() -> None:
    """D-20: the base is the delay that was asked for, forever."""
    made = draft("email", delay="2s", backoff=True)

    assert made.spec.delay == 2_000
    assert made.spec.backoff == backoff.Fixed(2_000)


@pytest.mark.parametrize("attempt", [1, 10, 100, 10_000])
def test_backoff_has_a_limit_even_if_nobody_set_one(attempt: int) -> None:
    """D-21: no pause is longer than a hundred years, or than was asked for."""
    assert backoff.delay_ms(backoff.exponential("1h"), attempt) <= MAX_MS
    capped = backoff.exponential("1s", max="1m")
    assert backoff.delay_ms(capped, attempt) <= 60_000


def test_backoff_can_be_scattered() -> None:
    """D-21: jobs that failed together do not come back together."""
    scattered = backoff.exponential("10s", jitter=0.5)
    early = backoff.delay_ms(scattered, 2, jitter=lambda: 0.0)
    late = backoff.delay_ms(scattered, 2, jitter=lambda: 1.0)

    assert (early, late) == (7_500, 22_500)


@pytest.mark.parametrize("nothing", [0, 0.0, "0s"])
def test_no_delay_can_be_asked_for(nothing: float | str) -> None:
    """D-22: zero is a delay like any other, and clears it."""
    made = draft("email", delay=nothing)

    assert (made.spec.delay, made.at) == (0, None)


@pytest.mark.parametrize(
    ("done", "total", "shown"),
    [(0, 0, 0), (5, 0, 0), (-5, 10, 0), (99, 10, 100), (1, 3, 33), (2**70, 2**70, 100)],
)
def test_progress_is_always_a_share(done: int, total: int, shown: int) -> None:
    """D-33: of nothing, nothing is done; nothing is below 0 or above 100."""
    assert percent(done, total) == shown


@pytest.mark.parametrize("endless", [float("inf"), float("nan")])
def test_progress_without_an_end_is_refused(endless: float) -> None:
    """D-33: what is not a number is not a share."""
    with pytest.raises(ValueError, match="finite"):
        percent(1, endless)


def test_a_backoff_that_is_source_text_is_refused() -> None:
    """U-5: what Kue's clients may send as a function is just text here."""
    with pytest.raises((ConfigError, ValueError, TypeError)):
        draft("email", backoff="function(attempts) { return attempts * 1000 }")


def test_a_strategy_is_known_by_its_name() -> None:
    """U-5: code stays in the process that registered it; the job has the name."""
    backoff.register("catalogue-core", lambda attempt: attempt * 11)
    made = draft("email", backoff=backoff.named("catalogue-core"))

    assert made.spec.backoff == backoff.Named("catalogue-core")
    assert backoff.delay_ms(made.spec.backoff, 3) == 33


def test_a_name_nobody_registered_is_no_reason_to_lose_a_job() -> None:
    """D-8: the worker may not know the strategy; the job waits a while."""
    job = running(backoff=backoff.named("unheard of"))

    assert retry_policy.after_error(job, OOPS, T0) == Retried(
        OOPS, retry_policy.UNKNOWN_BACKOFF_MS
    )


def test_a_job_that_succeeded_shows_no_old_error() -> None:
    """D-31: the error is that of the last failed run; every attempt keeps its own."""
    failed = Attempt(token=f"7:{T0}:1:w1:l.1", at=T0 + 1, outcome="retry", error=OOPS)
    fine = Attempt(token=f"8:{T0}:2:w1:l.2", at=T0 + 2, outcome="complete", result=1)
    job = Job(
        id=1,
        type="email",
        state=State.COMPLETE,
        priority=0,
        created_at=T0,
        spec=Spec(),
        history=(failed, fine),
    )

    assert (job.error, job.result, job.failed_at) == (None, 1, T0 + 1)
    assert job.history[0].error == OOPS


@pytest.mark.parametrize("name", ["a:b", "{x}", "%3A", 'a"b', "a\\b", "é 🚀", "%"])
def test_a_name_in_a_key_is_read_back_as_it_was(name: str) -> None:
    """K-10: names are derived both ways by one pair of functions."""
    assert unquote(quote(name)) == name
    assert not set(quote(name)) & set(':{}"\\')


def test_a_run_that_raised_is_never_taken_for_a_success() -> None:
    """K-12: what becomes of an error is decided in one place, and said."""
    for attempt in (1, 2, 3):
        ending = retry_policy.after_error(running(attempt=attempt), OOPS, T0)
        assert not isinstance(ending, Completed)
