"""What may be a job's data, result or progress."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kue.model.errors import BadPayload
from kue.model.payload import MAX_DEPTH, decode, encode

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"))
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(codec="utf-8")), inner)
    ),
    max_leaves=20,
)


@dataclass
class Address:
    street: str
    latitude: float = 0.0


class Mail(msgspec.Struct):
    to: str
    address: Address


def nested(depth: int, innermost: Any = 1) -> Any:
    value = innermost
    for _ in range(depth):
        value = [value]
    return value


@given(values)
def test_json_comes_back_as_it_went_in(value: Any) -> None:
    assert decode(encode(value)) == value


@given(values)
def test_json_is_one_line(value: Any) -> None:
    assert b"\n" not in bytes(encode(value))


@given(st.integers())
def test_integers_of_any_size_survive(value: int) -> None:
    back = decode(encode({"n": value * 2**200}))

    assert back == {"n": value * 2**200}


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (Address("Main", 1.5), {"street": "Main", "latitude": 1.5}),
        (
            Mail("a@b.c", Address("Main")),
            {"to": "a@b.c", "address": {"street": "Main", "latitude": 0.0}},
        ),
        (datetime(2030, 1, 2, tzinfo=UTC), "2030-01-02T00:00:00Z"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Decimal("1.10"), "1.10"),
        ({1}, [1]),
        ((1, 2), [1, 2]),
        (b"ab", "YWI="),
    ],
)
def test_what_msgspec_can_write_is_written(value: object, written: object) -> None:
    assert decode(encode(value)) == written


def test_what_is_encoded_already_is_taken_as_it_is() -> None:
    assert decode(encode({"part": msgspec.Raw(b"[1,2]")})) == {"part": [1, 2]}


@given(st.sampled_from([float("nan"), float("inf"), -float("inf")]), st.data())
def test_what_json_cannot_express_is_refused_wherever_it_hides(
    number: float, data: st.DataObject
) -> None:
    """As null it would come back as something that was never put in."""
    place = data.draw(
        st.sampled_from(
            [
                (number, "data"),
                ({"a": [0, number]}, r"data\.a\[1\]"),
                ((number,), r"data\[0\]"),
                (Address("x", number), r"data\.latitude"),
                ([Mail("x", Address("y", number))], r"data\[0\]\.address\.latitude"),
            ]
        )
    )

    with pytest.raises(BadPayload, match=f"^{place[1]}: is .*cannot express"):
        encode(place[0])


def test_sixty_four_levels_are_the_deepest() -> None:
    for innermost in (1, 1.5, "x"):
        deepest = nested(MAX_DEPTH, innermost)
        assert decode(encode(deepest)) == deepest

    with pytest.raises(BadPayload, match=r"nests deeper than 64 levels"):
        encode(nested(MAX_DEPTH + 1))
    with pytest.raises(BadPayload, match=r"nests deeper than 64 levels"):
        encode(nested(100_000))


def test_depth_is_counted_through_objects_too() -> None:
    with pytest.raises(BadPayload, match=r"nests deeper"):
        encode(nested(MAX_DEPTH - 1, Mail("x", Address("y"))))


def test_a_value_that_contains_itself_is_refused() -> None:
    loop: list[object] = []
    loop.append(loop)

    with pytest.raises(BadPayload, match=r"nests deeper"):
        encode(loop)


def test_an_object_that_contains_itself_is_refused() -> None:
    loop = Address("x")
    loop.street = loop  # type: ignore[assignment]

    with pytest.raises(BadPayload, match=r"data: cannot be written as JSON"):
        encode(loop)


def test_keys_are_text() -> None:
    with pytest.raises(BadPayload, match=r"data\.a: has the key 1; JSON keys are text"):
        encode({"a": {1: 2}})


def test_what_has_no_json_form_is_refused() -> None:
    with pytest.raises(BadPayload, match=r"result\[0\]: cannot be written as JSON"):
        encode([object()], field="result")


def test_half_a_character_has_no_json_form() -> None:
    with pytest.raises(BadPayload, match=r"data: cannot be written as JSON"):
        encode("\ud800")


def test_a_payload_over_the_limit_is_refused_with_advice() -> None:
    assert encode("x" * 8, limit=10)

    with pytest.raises(BadPayload, match=r"is 11 bytes.*limit is 10.*a reference") as e:
        encode("x" * 9, limit=10)
    assert e.value.field == "data"
