"""When asking the store for jobs is worth a call."""

from __future__ import annotations

from kue.worker.work_availability import WorkAvailability, WorkHint


def test_in_the_beginning_one_question_is_worth_it() -> None:
    supply = WorkAvailability()
    assert supply.is_worth_asking

    supply.ask()

    assert not supply.is_worth_asking


def test_a_full_answer_means_that_there_is_plenty() -> None:
    supply = WorkAvailability()
    supply.answer(supply.ask(), was_full=True)

    supply.ask()

    assert supply.is_worth_asking


def test_a_short_answer_means_that_there_is_nothing() -> None:
    supply = WorkAvailability()

    supply.answer(supply.ask(), was_full=False)

    assert supply.hint is WorkHint.EMPTY
    assert not supply.is_worth_asking


def test_a_wake_up_makes_asking_worth_it_again() -> None:
    supply = WorkAvailability()
    supply.answer(supply.ask(), was_full=False)

    supply.wake()

    assert supply.is_worth_asking


def test_an_answer_from_before_the_wake_up_does_not_send_us_to_sleep() -> None:
    """The job we were woken for came after that answer was made."""
    supply = WorkAvailability()
    question = supply.ask()
    supply.wake()

    supply.answer(question, was_full=False)

    assert supply.is_worth_asking
