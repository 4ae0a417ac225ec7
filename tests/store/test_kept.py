"""`Store.keep`, `kept`, `all_kept`, `forget`, `note` and `acts`."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from kue.store.contract import Store
from kue.store.values import MAX_KEPT, RINGS, AuditEntry, KeepRequest
from tests.support.jobs import SECOND, T0
from tests.support.upkeep import tend

ODD = 'ann "b" 🚀:{}%*?[a]'


async def test_what_was_kept_is_returned_as_it_was_given(store: Store) -> None:
    text = '{"a": "\\t🚀\\u0000", "b": "x\ty\n"}'

    assert await store.keep(KeepRequest("user", ODD, text))

    assert await store.kept("user", ODD) == text
    assert await store.all_kept("user") == {ODD: text}


async def test_rooms_know_nothing_of_each_other(store: Store) -> None:
    await store.keep(KeepRequest("user", "ann", "1"))
    await store.keep(KeepRequest("users", "ann", "2"))
    await store.keep(KeepRequest("user", "bob", "3"))

    assert await store.kept("user", "ann") == "1"
    assert await store.all_kept("user") == {"ann": "1", "bob": "3"}
    assert await store.all_kept("users") == {"ann": "2"}
    assert await store.all_kept("nobody") == {}
    assert await store.kept("nobody", "ann") is None


async def test_what_is_forgotten_is_gone(store: Store) -> None:
    await store.keep(KeepRequest("user", "ann", "1", until=T0 + SECOND), now=T0)

    assert await store.forget("user", "ann", now=T0)

    assert await store.kept("user", "ann", now=T0) is None
    assert not await store.forget("user", "ann", now=T0)


async def test_what_is_over_is_never_returned(store: Store) -> None:
    await store.keep(KeepRequest("user", "ann", "1", until=T0 + SECOND), now=T0)
    before, after = T0 + SECOND - 1, T0 + SECOND

    assert await store.kept("user", "ann", now=before) == "1"
    assert await store.all_kept("user", now=before) == {"ann": "1"}
    assert await store.kept("user", "ann", now=after) is None
    assert await store.all_kept("user", now=after) == {}
    assert not await store.forget("user", "ann", now=after)


async def test_what_is_over_is_swept_and_the_rest_stays(store: Store) -> None:
    await store.keep(KeepRequest("user", "ann", "1", until=T0 + SECOND), now=T0)
    await store.keep(KeepRequest("user", "bob", "2", until=T0 + 3 * SECOND), now=T0)
    await store.keep(KeepRequest("user", "cid", "3"), now=T0)
    await store.keep(KeepRequest("user", "dan", "4", until=T0 + SECOND), now=T0)
    await store.keep(KeepRequest("user", "dan", "5"), now=T0)

    await tend(store, now=T0 + 2 * SECOND)

    # Asked for a time before it was over.
    assert await store.all_kept("user", now=T0) == {"bob": "2", "cid": "3", "dan": "5"}


async def test_a_record_that_must_be_new_is_refused_when_there_is_one(
    store: Store,
) -> None:
    assert await store.keep(KeepRequest("user", "ann", "1", was=None))
    assert not await store.keep(KeepRequest("user", "ann", "2", was=None))

    assert await store.kept("user", "ann") == "1"


async def test_a_record_that_is_over_makes_room_for_a_new_one(store: Store) -> None:
    await store.keep(KeepRequest("user", "ann", "1", until=T0 + SECOND), now=T0)

    assert await store.keep(KeepRequest("user", "ann", "2", was=None), now=T0 + SECOND)


async def test_of_two_who_change_a_record_one_is_refused(store: Store) -> None:
    await store.keep(KeepRequest("user", "ann", "1"))

    done = await asyncio.gather(
        *(
            store.keep(KeepRequest("user", "ann", value, was="1"))
            for value in ("2", "3")
        )
    )

    assert sorted(done) == [False, True]


async def test_a_record_that_is_gone_is_not_brought_back(store: Store) -> None:
    assert not await store.keep(KeepRequest("user", "ann", "2", was="1"))

    assert await store.kept("user", "ann") is None


async def test_the_same_said_twice_is_the_same_as_said_once(store: Store) -> None:
    await store.keep(KeepRequest("user", "ann", "1", was=None))

    assert await store.keep(KeepRequest("user", "ann", "1", was=None))
    assert await store.keep(KeepRequest("user", "ann", "1", was="0"))


@pytest.mark.parametrize(
    ("room", "name", "value"),
    [
        ("", "ann", "1"),
        ("a:b", "ann", "1"),
        ("User", "ann", "1"),
        ("user", "", "1"),
        ("user", "a\nb", "1"),
        ("user", "a" * 201, "1"),
        ("user", "ann", "é" * (MAX_KEPT // 2) + "x"),
    ],
)
async def test_a_record_that_cannot_be_is_refused(
    store: Store, room: str, name: str, value: str
) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        await store.keep(KeepRequest(room, name, value))


async def test_a_record_may_have_64_kib(store: Store) -> None:
    value = "é" * (MAX_KEPT // 2)

    await store.keep(KeepRequest("user", "ann", value))

    assert await store.kept("user", "ann") == value


# -- the audit log -------------------------------------------------------------


def act(number: int) -> AuditEntry:
    return AuditEntry(
        who="ann",
        what="jobs.remove",
        target=str(number),
        status=204,
        address="::1",
        detail='{"a":"\t🚀"}',
    )


async def test_acts_are_told_with_time_and_number_the_newest_first(
    store: Store,
) -> None:
    first = await store.note(act(7), now=T0)
    second = await store.note(act(8), now=T0 + 1)

    page = await store.acts()

    assert second > first
    assert [(one.id, one.at, one.target) for one in page.acts] == [
        (second, T0 + 1, "8"),
        (first, T0, "7"),
    ]
    assert page.cursor is None
    assert page.acts[1].detail == '{"a":"\t🚀"}'
    assert (page.acts[1].who, page.acts[1].status) == ("ann", 204)


async def test_nothing_is_told_where_nothing_was_done(store: Store) -> None:
    page = await store.acts()

    assert (page.acts, page.cursor) == ([], None)


async def test_pages_have_every_act_once_whatever_happens_meanwhile(
    store: Store,
) -> None:
    for number in range(5):
        await store.note(act(number))

    first = await store.acts(2)
    await store.note(act(9))
    second = await store.acts(2, first.cursor)
    third = await store.acts(2, second.cursor)

    pages = [[one.target for one in page.acts] for page in (first, second, third)]
    assert pages == [["4", "3"], ["2", "1"], ["0"]]
    assert third.cursor is None


async def test_the_oldest_acts_fall_off(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(RINGS, "acts", 3)

    for number in range(5):
        await store.note(act(number))

    assert [one.target for one in (await store.acts()).acts] == ["4", "3", "2"]


async def test_s_5_refusals_and_adds_do_not_push_out_what_was_done(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for ring, size in (("acts", 3), ("routine", 2), ("refusals", 2)):
        monkeypatch.setitem(RINGS, ring, size)
    done = [act(number) for number in range(4)]
    refused = [
        msgspec.structs.replace(act(10 + number), status=status)
        for number, status in enumerate((403, 401, 429, 403))
    ]

    added = [
        msgspec.structs.replace(act(20 + number), what="jobs.add", status=201)
        for number in range(3)
    ]

    for one in (*done[:2], *refused, *added, *done[2:]):
        await store.note(one)

    shown = (await store.acts()).acts
    targets = [one.target for one in shown]
    assert targets == ["3", "2", "22", "21", "13", "12", "1"]
    assert [one.id for one in shown] == sorted({one.id for one in shown}, reverse=True)
    first = await store.acts(4)
    rest = await store.acts(4, first.cursor)
    assert [*first.acts, *rest.acts] == shown


@pytest.mark.parametrize("cursor", ["", "x", "-1", "1:2", "9" * 16])
async def test_a_cursor_that_is_none_is_refused(store: Store, cursor: str) -> None:
    with pytest.raises(ValueError, match="did not come from a page"):
        await store.acts(cursor=cursor)
