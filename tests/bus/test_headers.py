"""Headers: no regard to case, several values."""

from __future__ import annotations

from typing import Any

import pytest

from kue.bus import EventBus, Headers
from tests.bus.hearing import listen


def test_names_have_no_case() -> None:
    headers = Headers({"Action": "getJob"})

    assert headers["ACTION"] == headers.get("action") == "getJob"
    assert "aCTION" in headers
    assert list(headers) == ["Action"]


def test_a_name_may_have_several_values() -> None:
    headers = Headers([("tag", "a"), ("Tag", "b")])
    headers.add("TAG", "c")

    assert headers["tag"] == "a"
    assert headers.all("tag") == ["a", "b", "c"]
    assert list(headers.items()) == [("tag", "a"), ("tag", "b"), ("tag", "c")]
    assert len(headers) == 1


def test_a_mapping_may_give_a_list_of_values() -> None:
    assert Headers({"tag": ["a", "b"]}).all("tag") == ["a", "b"]


def test_setting_replaces_all_values() -> None:
    headers = Headers({"tag": ["a", "b"]})

    headers["TAG"] = "c"

    assert headers.all("tag") == ["c"]


def test_a_name_can_be_removed() -> None:
    headers = Headers({"tag": "a"})

    del headers["TAG"]

    assert "tag" not in headers
    assert headers.get("tag", "none") == "none"
    assert headers.all("tag") == []


def test_a_copy_shares_nothing() -> None:
    headers = Headers({"tag": "a"})
    copy = Headers(headers)

    copy.add("tag", "b")

    assert headers.all("tag") == ["a"]
    assert copy != headers


def test_headers_are_equal_without_regard_to_case() -> None:
    assert Headers({"Tag": "a"}) == Headers({"tag": "a"})
    assert Headers({"tag": "a"}) != {"tag": "a"}


@pytest.mark.parametrize("given", [{"": "a"}, {"n": 7}, {7: "a"}, {"n": [7]}])
def test_names_and_values_are_text(given: Any) -> None:
    with pytest.raises(TypeError):
        Headers(given)


async def test_headers_travel_with_a_message(bus: EventBus) -> None:
    ear = listen(bus, "news")

    bus.send("news", headers={"action": "look", "tag": ["a", "b"]})
    await ear.hears(1)

    [message] = ear.messages
    assert message.headers["Action"] == "look"
    assert message.headers.all("tag") == ["a", "b"]
    assert repr(message.headers).startswith("Headers([('action', 'look')")
