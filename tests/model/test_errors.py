"""The error tree, and every message read once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kue.model import errors
from kue.model.errors import (
    BadPayload,
    Cancel,
    ConfigError,
    DuplicateJob,
    DurabilityUnknown,
    Fail,
    InvalidTransition,
    JobCancelled,
    JobError,
    JobFailed,
    JobNotFound,
    KueError,
    LeaseLost,
    Release,
    Retry,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreRefused,
    StoreUnavailable,
    StreamRestarted,
    UniqueHeld,
    UnknownParent,
)
from kue.model.job import State


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (BadPayload("data", "is too large"), "data: is too large"),
        (JobNotFound(7), "job 7 does not exist"),
        (
            UnknownParent(7),
            (
                "no job was added: job 7, which one should wait for, was never "
                "added to this store; check the id, and add that job first"
            ),
        ),
        (
            InvalidTransition(7, State.COMPLETE, "be cancelled"),
            "job 7 is complete and cannot be cancelled",
        ),
        (
            InvalidTransition(7, None, "be moved"),
            "job 7 cannot be found in any state and cannot be moved",
        ),
        (
            LeaseLost(7),
            (
                "the lease on job 7 ran out and the job was reclaimed; "
                "whatever this run still reports is dropped"
            ),
        ),
        (
            StreamRestarted(7),
            (
                "job 7 was started again, and so is its stream: drop what was read, "
                "and call stream() again"
            ),
        ),
        (
            UniqueHeld(7, 3),
            (
                "job 7 cannot be requeued: job 3 holds its unique key; "
                "wait for that one, cancel it or remove it"
            ),
        ),
        (
            UniqueHeld(7, None),
            (
                "job 7 cannot be requeued: another job holds its unique key; "
                "wait for that one, cancel it or remove it"
            ),
        ),
        (
            DuplicateJob(7, "july"),
            (
                "no job was added: job 7 holds the unique key 'july'; wait for that "
                "one, or leave out on_conflict='reject' to get it"
            ),
        ),
        (JobFailed(7, "KeyError", "'x'"), "job 7 failed: KeyError: 'x'"),
        (JobCancelled(7, "no longer wanted"), "job 7 was cancelled: no longer wanted"),
        (JobCancelled(7, ""), "job 7 was cancelled"),
        (
            DurabilityUnknown([1, 2]),
            (
                "2 jobs are stored but no replica confirmed them in time; "
                "a fail-over now could lose them"
            ),
        ),
        (Retry(), "retry asked for by the handler"),
        (Retry("mail server is down"), "mail server is down"),
        (Release(), "released by the handler"),
        (Release(60, reason="too early"), "too early"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_a_message_says_what_happened_to_which_thing(
    error: Exception, message: str
) -> None:
    assert str(error) == message


def test_an_error_about_a_job_has_its_id() -> None:
    about_a_job: list[JobError] = [
        JobNotFound(7),
        InvalidTransition(7, State.ACTIVE, "be removed"),
        LeaseLost(7),
        StreamRestarted(7),
        UniqueHeld(7, 3),
        DuplicateJob(7, "july"),
        UnknownParent(7),
        JobFailed(7, "E", "m"),
        JobCancelled(7, ""),
    ]

    assert {error.job_id for error in about_a_job} == {7}
    assert {type(error) for error in about_a_job} == set(JobError.__subclasses__())


def test_errors_carry_what_a_program_needs() -> None:
    assert BadPayload("result", "is not JSON").field == "result"
    assert InvalidTransition(7, State.ACTIVE, "be removed").state is State.ACTIVE
    assert UniqueHeld(7, 3).holder == 3
    assert (DuplicateJob(7, "k").holder, DuplicateJob(7, "k").key) == (7, "k")
    assert JobFailed(7, "KeyError", "'x'").kind == "KeyError"
    assert JobFailed(7, "KeyError", "'x'").message == "'x'"
    assert JobCancelled(7, "why").reason == "why"
    assert DurabilityUnknown([1, 2]).job_ids == [1, 2]
    assert Retry(after="5s").after == "5s"
    assert (Release("1m", counts=True).delay, Release().counts) == ("1m", False)


@pytest.mark.parametrize("error", [ConfigError, BadPayload])
def test_a_bad_argument_is_a_value_error_too(error: type[Exception]) -> None:
    assert issubclass(error, ValueError)
    assert issubclass(error, KueError)


def test_everything_a_store_raises_is_a_store_error() -> None:
    assert set(StoreError.__subclasses__()) == {
        StoreUnavailable,
        StoreFull,
        StoreRefused,
        StoreCorrupt,
        DurabilityUnknown,
    }


@pytest.mark.parametrize("signal", [Retry, Release, Fail, Cancel])
def test_what_steers_a_run_is_not_caught_as_a_kue_error(
    signal: type[Exception],
) -> None:
    assert not issubclass(signal, KueError)


def test_the_tree_in_the_reference_is_complete() -> None:
    page = Path(__file__).parents[2] / "docs/reference/errors.md"
    _, tree, _ = page.read_text().split("```", 2)
    drawn = set(re.findall(r"^(?:[│├└─ ]+ )?([A-Z]\w+)", tree, re.MULTILINE))

    assert drawn == {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, KueError)
    }
