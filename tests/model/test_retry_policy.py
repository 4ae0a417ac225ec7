"""What becomes of a run that did not end well."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kue.model import backoff
from kue.model.job import (
    Attempt,
    Cancelled,
    Ending,
    Error,
    Failed,
    Job,
    Released,
    Retried,
    Spec,
    Stalled,
    State,
)
from kue.model.retry_policy import (
    ALONE_MS,
    COMPANY_FACTOR,
    EXPIRED,
    MAX_STALLS,
    TTL_EXCEEDED,
    UNKNOWN_BACKOFF_MS,
    after_cancel,
    after_error,
    after_lost_worker,
    after_release,
    after_retry,
    after_ttl,
    before_run,
    stall_delay_ms,
)

OOPS = Error("OSError", "disk full")


NOW = 3000


def running(
    attempt: int = 1,
    *,
    spec: Spec | None = None,
    lane: str = "lane",
    began: str = "",
    **more: Any,
) -> Job:
    mark = began and f".{began}"
    return Job(
        id=7,
        type="email",
        state=State.ACTIVE,
        priority=0,
        created_at=1_000,
        spec=spec or Spec(),
        token=f"50:2000:{attempt}:host-1:{lane}.4{mark}",
        **more,
    )


def test_a_job_with_one_attempt_fails_at_its_first_error() -> None:
    assert after_error(running(), OOPS, NOW) == Failed(OOPS)


@pytest.mark.parametrize(
    ("attempt", "ending"),
    [
        (1, Retried(OOPS, 500)),
        (2, Retried(OOPS, 1_500)),
        (3, Failed(OOPS)),
        # Someone lowered max_attempts while it ran.
        (4, Failed(OOPS)),
    ],
)
def test_a_job_runs_at_most_as_often_as_it_may(attempt: int, ending: object) -> None:
    spec = Spec(max_attempts=3, backoff=backoff.exponential("1s"))

    assert after_error(running(attempt, spec=spec), OOPS, NOW) == ending


def squares(attempt: int) -> float:
    return 1_000 * attempt**2


def test_retries_wait_as_a_list_or_a_function_says() -> None:
    backoff.register("test: squares", squares)
    waits = [
        Spec(max_attempts=9, backoff=backoff.of(["1s", "10s"])),
        Spec(max_attempts=9, backoff=backoff.named("test: squares")),
    ]

    endings = [
        [after_error(running(attempt, spec=spec), OOPS, NOW) for attempt in (1, 2, 3)]
        for spec in waits
    ]

    by_list, by_function = endings
    assert by_list == [Retried(OOPS, delay) for delay in (1_000, 10_000, 10_000)]
    assert by_function == [Retried(OOPS, delay) for delay in (1_000, 4_000, 9_000)]


def test_without_backoff_the_next_attempt_is_at_once() -> None:
    assert after_error(running(spec=Spec(max_attempts=2)), OOPS, NOW) == Retried(
        OOPS, 0
    )


def test_a_strategy_unknown_to_this_process_does_not_stop_the_retry() -> None:
    """Upkeep ends runs in processes that never imported the user's code."""
    spec = Spec(max_attempts=2, backoff=backoff.named("of another process"))

    assert after_error(running(spec=spec), OOPS, NOW) == Retried(
        OOPS, UNKNOWN_BACKOFF_MS
    )


@pytest.mark.parametrize(
    "strategy",
    [lambda attempt: 1 / 0, lambda attempt: None, lambda attempt: float("nan")],
    ids=["raises", "answers nothing", "answers no number"],
)
def test_a_strategy_that_fails_does_not_stop_the_retry(strategy: Any) -> None:
    backoff.register("test: broken", strategy)
    spec = Spec(max_attempts=2, backoff=backoff.named("test: broken"))

    assert after_error(running(spec=spec), OOPS, NOW) == Retried(
        OOPS, UNKNOWN_BACKOFF_MS
    )


# -- how many errors -------------------------------------------------------------


def ended(ending: Ending | None, number: int = 1) -> Attempt:
    """Return the entry of a run that ended, or of a job requeued by hand."""
    if ending is None:
        return Attempt("", NOW, "restarted")
    told = msgspec.to_builtins(ending)
    return msgspec.convert({"run": f"9:1:{number}:w:l", "at": NOW, **told}, Attempt)


RAISED, ASKED, RELEASED = Retried(OOPS), Retried(OOPS, asked=True), Released()


@pytest.mark.parametrize(
    ("history", "is_over"),
    [
        ([], False),
        ([RAISED], False),
        ([RAISED, RAISED], True),
        # Neither what asked to be retried nor what was released raised an error …
        ([RAISED, ASKED, RELEASED], False),
        # … and neither did the worker's loss.
        ([RAISED, Stalled(OOPS)], False),
        ([RAISED, RAISED, Failed(OOPS), None], False),
        ([RAISED, RAISED, Failed(OOPS), None, RAISED, RAISED], True),
    ],
)
def test_a_job_fails_after_as_many_errors_as_it_may_raise(
    history: list[Ending | None], is_over: bool
) -> None:
    spec = Spec(max_attempts=0, max_exceptions=3)
    job = running(9, spec=spec, history=tuple(map(ended, history)))

    assert after_error(job, OOPS, NOW) == (Failed(OOPS) if is_over else Retried(OOPS))


def test_asking_to_be_retried_spends_attempts_but_is_no_error() -> None:
    spec = Spec(max_attempts=5, max_exceptions=1)

    assert after_retry(running(4, spec=spec), OOPS, 7, NOW) == Retried(
        OOPS, 7, asked=True
    )
    assert after_retry(running(5, spec=spec), OOPS, 7, NOW) == Failed(OOPS)


def test_unlimited_attempts_never_run_out() -> None:
    job = running(1_000_000, spec=Spec(max_attempts=0))

    assert after_error(job, OOPS, NOW) == Retried(OOPS)
    counted = Released(counts=True)
    assert after_release(job, counted, NOW, own=OOPS, cause=None) == counted


# -- until when ------------------------------------------------------------------

CAUSE = Error("ProviderDown", "503")


def limited(delay: int = 0, **more: Any) -> Job:
    """Return a running job that may be retried for four seconds since 1000."""
    spec = Spec(max_attempts=0, retry_for=4_000, backoff=backoff.Fixed(delay))
    return running(3, spec=spec, **more)


@pytest.mark.parametrize(
    ("now", "delay", "is_over"),
    [(5_000, 0, False), (5_001, 0, True), (4_000, 1_000, False), (4_000, 1_001, True)],
)
def test_no_attempt_starts_after_the_last_moment_for_it(
    now: int, delay: int, is_over: bool
) -> None:
    job, again = limited(delay), Retried(OOPS, delay)
    asked = Retried(OOPS, delay, asked=True)

    assert after_error(job, OOPS, now) == (Failed(OOPS) if is_over else again)
    assert after_retry(job, OOPS, delay, now) == (Failed(OOPS) if is_over else asked)


def test_the_last_moment_may_be_given_as_such() -> None:
    job = running(spec=Spec(max_attempts=2, retry_until=NOW))

    assert after_error(job, OOPS, NOW) == Retried(OOPS)
    assert after_error(job, OOPS, NOW + 1) == Failed(OOPS)


def test_a_release_for_an_error_ends_with_that_error_when_it_is_too_late() -> None:
    released = Released(1_000)

    assert after_release(limited(), released, 4_000, own=OOPS, cause=CAUSE) == released
    late = after_release(limited(), released, 4_001, own=OOPS, cause=CAUSE)
    assert late == Failed(CAUSE)


def test_a_release_of_a_job_that_failed_before_ends_with_the_error_it_had() -> None:
    job = limited(history=(ended(Retried(CAUSE)), ended(RELEASED)))

    assert after_release(job, RELEASED, 9_000, own=OOPS, cause=None) == Failed(CAUSE)


def test_a_release_of_a_job_that_never_failed_is_never_too_late() -> None:
    """Its first attempt is still to come, and that is not a retry."""
    job = limited(history=(ended(RELEASED),))

    assert after_release(job, RELEASED, 9_000, own=OOPS, cause=None) == RELEASED


def test_a_release_that_counts_ends_with_what_it_was_for_when_no_attempt_is_left() -> (
    None
):
    counted = Released(counts=True)

    job = running()
    assert after_release(job, counted, NOW, own=OOPS, cause=CAUSE) == Failed(CAUSE)
    assert after_release(job, counted, NOW, own=OOPS, cause=None) == Failed(OOPS)


def test_a_lost_worker_is_not_replaced_when_it_is_too_late() -> None:
    ending = after_lost_worker(limited(), 5_001)

    assert isinstance(ending, Failed)
    assert ending.error.kind == "WorkerLost"


def test_a_retry_that_comes_too_late_does_not_begin() -> None:
    """It was due in time, but others were before it."""
    job = limited(history=(ended(Retried(CAUSE)), ended(RELEASED)))

    assert before_run(job, 5_000) is None
    assert before_run(job, 5_001) == Failed(CAUSE)


def test_a_first_attempt_begins_whenever_it_is_its_turn() -> None:
    by_hand = limited(history=(ended(Failed(CAUSE)), ended(None)))

    assert before_run(limited(), 9_000) is None
    assert before_run(by_hand, 9_000) is None


def test_a_run_whose_worker_is_lost_is_not_tried_again_once_the_job_has_expired() -> (
    None
):
    job = running(spec=Spec(max_attempts=3), expires=60_000)
    text = "the job expired while it ran, 1 min after it was added"

    lost = after_lost_worker(job, 61_000)
    silent = after_ttl(job, 61_000)

    assert isinstance(after_lost_worker(job, 60_999), Stalled)
    assert isinstance(after_ttl(job, 60_999), Retried)
    why = "worker host-1 was lost while it ran this job"
    assert lost == Failed(Error("Expired", f"{text}; {why}"))
    assert silent == Failed(Error("Expired", f"{text}; its ttl had passed"))


# -- time and workers lost -------------------------------------------------------


def test_a_passed_ttl_is_an_error_like_any_other() -> None:
    assert after_ttl(running(), NOW) == Failed(TTL_EXCEEDED)
    assert after_ttl(running(spec=Spec(max_attempts=2)), NOW) == Retried(
        TTL_EXCEEDED, 0
    )
    assert (TTL_EXCEEDED.kind, TTL_EXCEEDED.message) == ("TTLExceeded", "TTL exceeded")


def test_a_cancelled_run_says_why_it_was_if_anyone_did() -> None:
    assert after_cancel() == Cancelled("cancelled while it ran")
    assert after_cancel("enough") == Cancelled("cancelled while it ran: enough")


def test_a_run_that_was_to_be_cancelled_is_cancelled_when_its_ttl_passes() -> None:
    ending = after_ttl(running(cancelling=True), NOW)

    assert ending == Cancelled("cancelled while it ran")


def test_a_lost_worker_costs_no_attempt() -> None:
    """Or a deploy by ``kill -9`` would fail every job that has a single attempt."""
    ending = after_lost_worker(running(spec=Spec(max_attempts=1)), NOW)

    assert isinstance(ending, Stalled)
    assert ending.delay == 0
    assert ending.error == Error(
        "WorkerLost", "worker host-1 was lost while it ran this job"
    )


@pytest.mark.parametrize("stalls", range(MAX_STALLS))
def test_a_job_comes_back_later_with_every_worker_it_lost(stalls: int) -> None:
    ending = after_lost_worker(running(stalls=stalls, began="alone"), NOW)

    assert isinstance(ending, Stalled)
    assert ending.delay == stall_delay_ms(7, stalls)


def test_the_pause_after_a_lost_worker_doubles() -> None:
    for job_id in range(1, 1000):
        assert stall_delay_ms(job_id, 0) == 0
        assert 1_000 <= stall_delay_ms(job_id, 1) < 5_000
        assert 2_000 <= stall_delay_ms(job_id, 2) < 10_000


def test_jobs_that_went_down_together_come_back_apart() -> None:
    """Or one that kills its workers would take the same neighbours with it again."""
    ids = range(1, 1001)
    for stalls in (1, 2):
        pauses = [stall_delay_ms(job_id, stalls) for job_id in ids]
        near = [sum(abs(one - other) < 100 for other in pauses) for one in pauses]
        assert max(near) < len(ids) / 10


def test_neighbours_of_one_loss_are_not_those_of_the_next() -> None:
    def near(job_id: int, stalls: int) -> set[int]:
        pause = stall_delay_ms(job_id, stalls)
        others = range(1, 1001)
        return {one for one in others if abs(stall_delay_ms(one, stalls) - pause) < 100}

    for job_id in range(1, 100):
        both = near(job_id, 1) & near(job_id, 2)
        assert len(both) < 10


def test_a_job_that_kills_its_workers_is_failed_in_the_end() -> None:
    job = running(stalls=MAX_STALLS, began="alone", spec=Spec(max_attempts=99))
    ending = after_lost_worker(job, NOW)

    assert isinstance(ending, Failed)
    assert ending.error.kind == "WorkerLost"


@pytest.mark.parametrize("stalls", [2, 3, 9])
def test_a_job_that_waited_to_run_alone_loses_nothing_with_its_worker(
    stalls: int,
) -> None:
    """R-12: it was claimed, and never began."""
    ending = after_lost_worker(running(stalls=stalls), NOW)

    assert ending == Released(reason="worker host-1 was lost before it began this job")
    assert not ending.counts


def test_the_ttl_of_a_job_that_waits_to_run_alone_costs_no_attempt() -> None:
    assert isinstance(after_ttl(running(stalls=2), NOW), Released)
    assert after_ttl(running(stalls=2, began="alone"), NOW) == Failed(TTL_EXCEEDED)


@pytest.mark.parametrize(
    ("began", "ms"), [("beside", 0), ("alone", ALONE_MS)], ids=["beside", "outlived"]
)
def test_a_loss_in_company_fails_a_job_only_after_many(began: str, ms: int) -> None:
    """R-12: nobody knows which of them it was; but it must not go on forever."""
    last = running(stalls=MAX_STALLS, began=began)
    one_more = running(stalls=COMPANY_FACTOR * MAX_STALLS, began=began)

    assert isinstance(after_lost_worker(last, 2000 + ms), Stalled)
    assert isinstance(after_lost_worker(one_more, 2000 + ms), Failed)


@pytest.mark.parametrize("most", [0, 1])
def test_a_job_with_a_low_limit_of_lost_workers_never_runs_alone(most: int) -> None:
    spec = Spec(max_attempts=9, max_stalls=most)

    assert isinstance(after_lost_worker(running(stalls=most, spec=spec), NOW), Failed)
    if most:
        fewer = running(stalls=most - 1, spec=spec)
        assert isinstance(after_lost_worker(fewer, NOW), Stalled)


def test_a_job_may_survive_more_lost_workers_than_others() -> None:
    def ending(stalls: int, began: str) -> object:
        job = running(stalls=stalls, began=began, spec=Spec(max_stalls=5))
        return after_lost_worker(job, NOW)

    assert isinstance(ending(4, "alone"), Stalled)
    assert isinstance(ending(5, "alone"), Failed)
    assert isinstance(ending(14, "beside"), Stalled)
    assert isinstance(ending(15, "beside"), Failed)


@pytest.mark.parametrize("most", [0, 2, 5])
@pytest.mark.parametrize("ms", [0, ALONE_MS])
def test_a_job_taken_by_hand_survives_exactly_its_limit(most: int, ms: int) -> None:
    """Nothing holds it back, so no loss may be somebody else's."""

    def ending(stalls: int) -> object:
        spec = Spec(max_stalls=most)
        job = running(stalls=stalls, lane="hand-1", spec=spec)
        return after_lost_worker(job, 2000 + ms)

    assert all(isinstance(ending(stalls), Stalled) for stalls in range(most))
    assert isinstance(ending(most), Failed)


def test_a_job_delivered_at_most_once_is_not_repeated_when_its_worker_is_lost() -> None:
    ending = after_lost_worker(running(once=True, spec=Spec(max_attempts=9)), NOW)

    assert isinstance(ending, Failed)


def test_a_run_that_was_to_be_cancelled_is_cancelled_when_its_worker_is_lost() -> None:
    ending = after_lost_worker(running(cancelling=True, once=True), NOW)

    assert ending == Cancelled("cancelled while it ran; its worker was lost")


def test_a_lost_run_that_cannot_be_read_still_ends() -> None:
    job = Job(id=7, type="a", state=State.ACTIVE, priority=0, created_at=1, spec=Spec())
    ending = after_lost_worker(job, NOW)

    assert isinstance(ending, Stalled)
    assert "worker ? was lost" in ending.error.message


def test_an_expired_job_says_why() -> None:
    assert EXPIRED.message == "the job was not started before it expired"
