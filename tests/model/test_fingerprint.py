"""Fingerprints: which errors count as the same."""

from __future__ import annotations

import pytest

from kue.model.fingerprint import LENGTH, MAX_LINE, fingerprint, first_line
from kue.model.job import Error
from kue.store.codec import MAX_ERROR_TEXT

TIMEOUT = Error("TimeoutError", "no answer from 10.0.0.1 in 5 s")


@pytest.mark.parametrize(
    "message",
    [
        "no answer from 10.0.0.27 in 60 s",
        "  no answer from 10.0.0.1 in 5 s\n",
        "no answer from 10.0.0.1 in 5 s\nand no reason given",
    ],
)
def test_errors_that_say_the_same_have_the_same(message: str) -> None:
    assert fingerprint(Error("TimeoutError", message, "a stack")) == fingerprint(
        TIMEOUT
    )


@pytest.mark.parametrize(
    "error",
    [
        Error("OSError", TIMEOUT.message),
        Error("TimeoutError", "no answer"),
        Error("TimeoutError", ""),
        Error("TimeoutError\nno", "answer from 10.0.0.1 in 5 s"),
    ],
)
def test_errors_that_differ_have_others(error: Error) -> None:
    assert fingerprint(error) != fingerprint(TIMEOUT)


def test_a_fingerprint_is_the_same_in_every_process_and_release() -> None:
    assert fingerprint(Error("ValueError", "oops")) == "f773eab787bf"


@pytest.mark.parametrize("message", ["", "é🚀", "x" * MAX_ERROR_TEXT])
def test_a_fingerprint_has_always_the_same_length(message: str) -> None:
    assert len(fingerprint(Error("E", message))) == LENGTH


def test_no_more_of_a_message_counts_than_is_shown() -> None:
    long, longer = "x" * MAX_LINE, "x" * MAX_LINE + "y"

    assert first_line(longer) == long
    assert fingerprint(Error("E", long)) == fingerprint(Error("E", longer))
