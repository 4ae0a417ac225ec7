"""How jobs are written."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kue.model.errors import BadPayload
from kue.model.job import (
    MAX_HISTORY,
    Attempt,
    Cancelled,
    Completed,
    Ending,
    Error,
    Failed,
    Released,
    Retried,
    Spec,
    Stalled,
)
from kue.model.payload import MAX_RESULT, decode
from kue.store.codec import (
    MAX_ERROR_TEXT,
    MAX_STACK_TEXT,
    body_of,
    decode_spec,
    error_of,
    line_of,
    read_story,
    result_of,
    tail_of,
)

TOKEN = "50:2000:1:host-1:lane.4"
texts = st.text(st.characters(codec="utf-8"))
errors = st.builds(Error, texts, texts, texts)
delays = st.integers(0, 10**12)
endings = st.one_of(
    st.builds(Completed, st.none() | texts | st.lists(st.integers())),
    st.builds(Retried, errors, delays),
    st.builds(Failed, errors),
    st.builds(Released, delays, st.booleans(), texts),
    st.builds(Stalled, errors, delays),
    st.builds(Cancelled, texts),
)


def line(outcome: Ending, at: int = 2_500) -> bytes:
    return line_of(TOKEN, at, tail_of(outcome))


@given(endings, st.integers(0, 10**13))
def test_an_ending_is_read_back_from_its_line(ending: Ending, at: int) -> None:
    (attempt,) = read_story(line(ending, at))

    assert (attempt.token, attempt.at) == (TOKEN, at)
    said: dict[str, Any] = msgspec.to_builtins(ending)
    assert {name: msgspec.to_builtins(getattr(attempt, name)) for name in said} == said


@given(endings)
def test_a_line_opens_with_the_run_and_has_no_break(ending: Ending) -> None:
    written = line(ending)

    assert written.startswith(b'{"run":"50:2000:1:host-1:lane.4","at":2500,"outcome":')
    assert b"\n" not in written


def test_a_job_without_endings_has_no_story() -> None:
    assert read_story(b"") == ()


def test_a_story_is_read_oldest_first() -> None:
    story = line(Released(), 1) + b"\n" + line(Completed(5), 2)

    assert [attempt.at for attempt in read_story(story)] == [1, 2]


def test_a_story_may_open_or_close_with_a_line_break() -> None:
    """An engine may write the break before each line or after it."""
    story = b"\n" + line(Completed()) + b"\n"

    assert [attempt.outcome for attempt in read_story(story)] == ["complete"]


def test_the_newest_twenty_endings_are_read() -> None:
    story = b"\n".join(line(Released(), at) for at in range(30))

    assert [a.at for a in read_story(story)] == list(range(30 - MAX_HISTORY, 30))


def test_a_line_without_a_run_is_read_too() -> None:
    assert read_story(b'{"run":"","at":9,"outcome":"restarted"}') == (
        Attempt("", 9, "restarted"),
    )


@given(
    st.builds(
        Spec,
        data=st.dictionaries(texts, st.integers()),
        delay=delays,
        max_attempts=st.integers(0, 100),
        max_exceptions=st.integers(0, 20),
        retry_for=delays,
        retry_until=st.none() | delays,
        tags=st.lists(texts).map(tuple),
        after=st.lists(st.integers(1)).map(tuple),
        retention=st.none() | delays,
        meta=st.dictionaries(texts, texts),
    )
)
def test_a_spec_is_read_back_from_its_body(spec: Spec) -> None:
    assert decode_spec(body_of(spec)) == spec
    assert b"\n" not in body_of(spec)


def test_what_is_as_usual_takes_no_room() -> None:
    assert body_of(Spec(data=msgspec.Raw(b'{"i":1}'))) == b'{"data":{"i":1}}'


def test_an_exception_is_kept_as_data() -> None:
    assert error_of(KeyError("x"), "stack") == Error("KeyError", "'x'", "stack")


def test_an_exception_that_cannot_be_shown_is_kept_too() -> None:
    class Rude(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    error = error_of(Rude())

    assert error.kind.endswith("Rude")
    assert error.message == "(its message cannot be shown: RuntimeError)"


def test_a_long_message_keeps_its_beginning_and_a_long_stack_its_end() -> None:
    error = error_of(ValueError("a" * 5_000 + "z"), "a" + "z" * 20_000)

    assert error.message == "a" * MAX_ERROR_TEXT + "…"
    assert error.stack == "…" + "z" * MAX_STACK_TEXT


@given(st.text())
def test_every_message_can_be_written(text: str) -> None:
    """Lone surrogates come from file names and have no JSON form."""
    error = error_of(ValueError(text))

    assert msgspec.json.decode(msgspec.json.encode(error), type=Error) == error


def test_a_result_is_json() -> None:
    assert decode(result_of({"a": (1, 2)})) == {"a": [1, 2]}

    with pytest.raises(BadPayload, match=r"^result: cannot be written as JSON"):
        result_of(object())


def test_a_result_too_large_is_refused() -> None:
    with pytest.raises(BadPayload, match=r"^result: is 65,537 bytes"):
        result_of("x" * (MAX_RESULT - 1))
