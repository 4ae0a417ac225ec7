"""The job as a value: its states, and what is read from its story."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kue.model.job import (
    FINAL,
    MOVES,
    MOVES_BY_HAND,
    UNFINISHED,
    Attempt,
    Error,
    Job,
    Priority,
    Run,
    Spec,
    State,
    priority_of,
)
from kue.model.names import quote

CREATED = 1_000
OOPS = Error("OSError", "disk full")


def a_job(state: State = State.WAITING, **changes: Any) -> Job:
    usual: dict[str, Any] = {
        "id": 7,
        "type": "email",
        "priority": 0,
        "created_at": CREATED,
        "spec": Spec(data={"to": "a"}),
    }
    return Job(state=state, **(usual | changes))


def token(*, fence: int = 50, started_at: int = 2_000, attempt: int = 1) -> str:
    return f"{fence}:{started_at}:{attempt}:host-1:lane.4"


def ended(outcome: str, at: int = 2_500, *, attempt: int = 1, **more: Any) -> Attempt:
    return Attempt(token=token(attempt=attempt), at=at, outcome=outcome, **more)


# States and moves


@pytest.mark.parametrize("state", State)
def test_every_state_is_either_final_or_unfinished(state: State) -> None:
    assert (state in FINAL) != (state in UNFINISHED)
    assert state.is_final == (state in FINAL)


def test_the_table_of_moves_knows_every_state() -> None:
    assert set(MOVES) == set(MOVES_BY_HAND) == set(State)


@pytest.mark.parametrize("state", FINAL)
def test_a_finished_job_can_only_go_back_in_line(state: State) -> None:
    assert MOVES[state] == {State.WAITING, State.DELAYED, State.BLOCKED}


def test_a_run_begins_in_one_state_only() -> None:
    starts = {state for state in State if State.ACTIVE in MOVES[state]}

    assert starts == {State.WAITING}


def test_only_a_run_ends_well() -> None:
    ends = {state for state in State if State.COMPLETE in MOVES[state]}

    assert ends == {State.ACTIVE}


def test_only_a_finished_job_becomes_blocked_again() -> None:
    """Dependencies are given when the job is made."""
    blocked = {state for state in State if State.BLOCKED in MOVES[state]}

    assert blocked == FINAL


@pytest.mark.parametrize("state", State)
def test_every_state_leads_out_and_to_an_end(state: State) -> None:
    reached = {state}
    while more := set().union(*(MOVES[s] for s in reached)) - reached:
        reached |= more

    assert reached >= FINAL


@pytest.mark.parametrize("state", State)
def test_what_an_operator_may_do_is_a_part_of_what_there_is(state: State) -> None:
    assert MOVES_BY_HAND[state] <= MOVES[state]
    assert MOVES_BY_HAND[state] <= {State.WAITING, State.DELAYED, State.BLOCKED}


def test_nobody_moves_a_running_job_by_hand() -> None:
    assert MOVES_BY_HAND[State.ACTIVE] == frozenset()


def test_the_tables_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        MOVES[State.ACTIVE] = frozenset()  # type: ignore[index]


# Priorities


@pytest.mark.parametrize(
    ("given_as", "number"),
    [
        ("critical", -15),
        ("high", -10),
        ("medium", -5),
        ("Normal", 0),
        ("LOW", 10),
        (Priority.HIGH, -10),
        (-1024, -1024),
        (1023, 1023),
    ],
)
def test_a_priority_is_a_name_or_a_number(given_as: int | str, number: int) -> None:
    assert priority_of(given_as) == number
    assert type(priority_of(given_as)) is int


@given(st.integers().filter(lambda n: not -1024 <= n <= 1023))
def test_a_priority_out_of_bounds_is_refused(number: int) -> None:
    with pytest.raises(ValueError, match=f"from -1024 to 1023, not {number}$"):
        priority_of(number)


def test_an_unknown_priority_lists_those_there_are() -> None:
    with pytest.raises(ValueError, match=r"'urgent' is unknown; there are critical, h"):
        priority_of("urgent")


@pytest.mark.parametrize("value", [1.5, True, None])
def test_a_priority_is_whole(value: Any) -> None:
    with pytest.raises(TypeError, match=r"a whole number or a name, not"):
        priority_of(value)


# Runs


@given(
    st.integers(0, 2**62),
    st.integers(0, 2**45),
    st.integers(1, 1_000_000),
    st.text(st.characters(codec="utf-8"), min_size=1),
    st.text(st.characters(codec="utf-8"), min_size=1),
)
def test_a_token_says_which_run_it_is(
    fence: int, started_at: int, attempt: int, worker: str, claim: str
) -> None:
    written = f"{fence}:{started_at}:{attempt}:{quote(worker)}:{quote(claim)}"

    assert Run.read(written) == Run(fence, started_at, attempt, worker, claim)


def test_a_job_that_runs_tells_of_its_run() -> None:
    job = a_job(State.ACTIVE, token=token(attempt=3))

    assert job.run == Run(50, 2_000, 3, "host-1", "lane.4")
    assert job.fence == 50
    assert job.attempts == 3
    assert job.worker == "host-1"
    assert job.started_at == job.updated_at == 2_000
    assert job.ended_at is None


def test_a_job_that_never_ran_says_so() -> None:
    job = a_job()

    assert (job.run, job.worker, job.started_at, job.ended_at) == (None,) * 4
    assert (job.duration, job.failed_at, job.error, job.result) == (None,) * 4
    assert (job.attempts, job.fence) == (0, 0)
    assert job.updated_at == CREATED


# What the story tells


@pytest.mark.parametrize(
    ("attempt", "spent"),
    [
        (ended("complete", attempt=2), 2),
        (ended("retry", attempt=2, error=OOPS), 2),
        (ended("failed", attempt=2, error=OOPS), 2),
        (ended("cancelled", attempt=2), 2),
        (ended("released", attempt=2), 1),
        (ended("released", attempt=2, counts=True), 2),
        (ended("stalled", attempt=2, error=OOPS), 1),
        (Attempt("", 9, "restarted"), 0),
        (Attempt("", 9, "failed", error=OOPS), None),
    ],
    ids=lambda value: value.outcome if isinstance(value, Attempt) else str(value),
)
def test_an_ending_says_how_many_attempts_are_spent(
    attempt: Attempt, spent: int | None
) -> None:
    assert attempt.attempts_spent == spent


def test_attempts_are_read_from_the_newest_line_that_knows() -> None:
    expired = Attempt("", 9_000, "failed", error=OOPS)
    job = a_job(State.FAILED, history=(ended("retry", attempt=2), expired))

    assert job.attempts == 2


def test_a_job_put_back_in_line_counts_from_nothing() -> None:
    history = (ended("failed", attempt=3, error=OOPS), Attempt("", 9, "restarted"))

    assert a_job(history=history).attempts == 0


def test_a_job_whose_story_knows_no_attempt_made_none() -> None:
    assert a_job(State.CANCELLED, history=(Attempt("", 9, "cancelled"),)).attempts == 0


def test_a_job_that_ended_well_has_its_result_and_no_error() -> None:
    history = (
        ended("retry", 2_200, error=OOPS),
        ended("complete", 2_700, attempt=2, result={"sent": 1}),
    )
    job = a_job(State.COMPLETE, history=history)

    assert job.result == {"sent": 1}
    assert job.error is None
    assert job.failed_at == 2_200
    assert job.ended_at == job.updated_at == 2_700
    assert job.duration == 700
    assert (job.worker, job.started_at) == ("host-1", 2_000)


def test_a_failed_job_has_its_last_error_and_no_result() -> None:
    history = (
        ended("retry", 2_200, error=Error("A", "first")),
        ended("failed", 2_700, attempt=2, error=Error("B", "second")),
    )
    job = a_job(State.FAILED, history=history)

    assert job.error == Error("B", "second")
    assert job.failed_at == 2_700
    assert job.result is None


def test_the_last_error_stays_through_a_cancel() -> None:
    history = (ended("retry", 2_200, error=OOPS), Attempt("", 3_000, "cancelled"))
    job = a_job(State.CANCELLED, history=history)

    assert job.error == OOPS
    assert job.failed_at == 2_200
    assert job.ended_at == 3_000
    assert (job.duration, job.worker) == (200, "host-1")


def test_a_run_never_took_less_than_nothing() -> None:
    """Clocks step back."""
    assert ended("complete", 1_500).duration == 0


def test_a_line_without_a_run_has_no_duration() -> None:
    line = Attempt("", 9, "restarted")

    assert (line.run, line.duration) == (None, 0)


def test_a_job_shows_what_its_spec_says() -> None:
    spec = Spec(data=[1], max_attempts=4, tags=("a", "b"))
    job = a_job(spec=spec)

    assert (job.data, job.max_attempts, job.tags) == ([1], 4, ("a", "b"))


def test_a_job_expires_so_long_after_it_was_made() -> None:
    assert a_job(expires=500).expires_at == CREATED + 500
    assert a_job().expires_at is None


# Who a job is


def test_an_address_is_a_uuid_that_stays() -> None:
    waiting, complete = a_job(), a_job(State.COMPLETE, history=(ended("complete"),))

    assert waiting.address_id == complete.address_id
    assert str(uuid.UUID(waiting.address_id)) == waiting.address_id
    assert uuid.UUID(waiting.address_id).version == 4


def test_an_id_handed_out_anew_has_another_address() -> None:
    first, anew, other = a_job(), a_job(created_at=2), a_job(type="sms")

    assert first.id == anew.id == other.id
    assert len({first.address_id, anew.address_id, other.address_id}) == 3


def test_an_address_given_by_the_caller_is_kept() -> None:
    address = "11111111-2222-4333-8444-555555555555"

    assert a_job(spec=Spec(address_id=address)).address_id == address


def test_a_job_is_a_value() -> None:
    with pytest.raises(AttributeError):
        a_job().priority = 5  # type: ignore[misc]
