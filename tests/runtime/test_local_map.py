"""Local maps: no await, and nothing in them can change under another thread."""

from __future__ import annotations

import datetime
import threading
import uuid
from typing import Any

import pytest

from kue.runtime import LocalMap, Runtime, Shareable


class Door(Shareable):
    pass


class Window:
    pass


@pytest.fixture
def local_map() -> LocalMap:
    return Runtime().shared.local_map("doors")


def test_maps_of_one_name_are_one_map() -> None:
    shared = Runtime().shared

    shared.local_map("one")["key"] = 1

    assert shared.local_map("one")["key"] == 1
    assert "key" not in shared.local_map("other")


@pytest.mark.parametrize(
    "value",
    ["text", b"bytes", 1, 1.5, True, uuid.uuid4(), datetime.date(2026, 1, 1), Door()],
)
def test_what_never_changes_is_shared_as_it_is(local_map: LocalMap, value: Any) -> None:
    local_map["key"] = value

    assert local_map["key"] is value


@pytest.mark.parametrize(
    "value", [[1], {"a": [1]}, {1}, bytearray(b"x"), ([1],), frozenset({1})]
)
def test_what_may_change_is_copied(local_map: LocalMap, value: Any) -> None:
    local_map["key"] = value

    assert local_map["key"] == value
    assert local_map["key"] is not value
    assert local_map["key"] is not local_map["key"]


def test_a_copy_goes_all_the_way_down(local_map: LocalMap) -> None:
    value = {"items": [1]}
    local_map["key"] = value

    value["items"].append(2)
    local_map["key"]["items"].append(3)

    assert local_map["key"] == {"items": [1]}


@pytest.mark.parametrize("value", [Window(), [Window()], {"window": Window()}])
def test_what_can_neither_be_shared_nor_copied_is_refused(
    local_map: LocalMap, value: Any
) -> None:
    with pytest.raises(TypeError, match="Shareable"):
        local_map["key"] = value


def test_a_value_that_holds_itself_is_refused(local_map: LocalMap) -> None:
    value: list[Any] = []
    value.append(value)

    with pytest.raises(ValueError, match="deeper than 64"):
        local_map["key"] = value


def test_none_is_neither_a_key_nor_a_value(local_map: LocalMap) -> None:
    with pytest.raises(TypeError, match="no None"):
        local_map["key"] = None
    with pytest.raises(TypeError, match="no None"):
        local_map[None] = 1
    with pytest.raises(TypeError, match="no None"):
        local_map.put_if_absent("key", None)


def test_it_is_a_mapping(local_map: LocalMap) -> None:
    local_map.update(a=1, b=2, c=3)
    del local_map["a"]

    assert dict(local_map) == {"b": 2, "c": 3}
    assert len(local_map) == 2
    assert local_map.get("a") is None
    assert local_map.pop("b") == 2
    assert local_map.pop("b", "gone") == "gone"
    assert local_map.setdefault("c", 7) == 3
    assert local_map.setdefault("d", 7) == 7
    assert local_map.popitem() == ("d", 7)
    with pytest.raises(KeyError):
        local_map["a"]
    local_map.clear()
    assert not local_map


def test_a_value_is_put_only_where_there_is_none(local_map: LocalMap) -> None:
    assert local_map.put_if_absent("key", 1) is None
    assert local_map.put_if_absent("key", 2) == 1


def test_what_is_removed_is_returned(local_map: LocalMap) -> None:
    local_map["key"] = 1

    assert local_map.remove("key") == 1
    assert local_map.remove("key") is None


def test_a_value_is_removed_if_it_is_the_one_that_was_meant(
    local_map: LocalMap,
) -> None:
    local_map["key"] = [1]

    assert not local_map.remove_if_present("key", [2])
    assert not local_map.remove_if_present("other", [1])
    assert local_map.remove_if_present("key", [1])
    assert len(local_map) == 0


def test_only_what_is_there_is_replaced(local_map: LocalMap) -> None:
    assert local_map.replace("key", 1) is None
    assert not local_map.replace_if_present("key", 1, 2)
    assert len(local_map) == 0

    local_map["key"] = 1
    assert local_map.replace("key", 2) == 1
    assert not local_map.replace_if_present("key", 1, 3)
    assert local_map.replace_if_present("key", 2, 3)
    assert local_map["key"] == 3


def test_threads_may_change_it_while_another_iterates(local_map: LocalMap) -> None:
    over = threading.Event()

    def change() -> None:
        number = 0
        while not over.is_set():
            local_map[number % 100] = number
            local_map.remove((number + 50) % 100)
            number += 1

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(200):
            for key in local_map:
                local_map.get(key)
    finally:
        over.set()
        thread.join()


def test_of_many_threads_that_put_if_absent_one_succeeds(local_map: LocalMap) -> None:
    meeting, put = threading.Barrier(8), list[int]()

    def race(number: int) -> None:
        meeting.wait()
        if local_map.put_if_absent("key", number) is None:
            put.append(number)

    threads = [threading.Thread(target=race, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert put == [local_map["key"]]
