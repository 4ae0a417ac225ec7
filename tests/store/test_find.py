"""`Store.find` and `Filter`: what matches, page by page, in bounded steps."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from kue.model.job import Error, Failed, Job, State
from kue.model.search_text import LOG_LINES, missing, terms_of, texts_in
from kue.store.contract import Store
from kue.store.values import Filter, LogLine
from tests.support.jobs import T0, add_many, add_one, end, job_in, start_one

BOOM = Error("ConnectionError", "Server näher at 10.0.0.1 refused", "Traceback …")


async def found(store: Store, **wanted: Any) -> list[int]:
    return [job.id for job in (await store.find(Filter(**wanted))).jobs]


async def leaf(store: Store, wanted: Filter, **options: Any) -> list[int]:
    ids: list[int] = []
    cursor = None
    for _ in range(1000):
        page = await store.find(wanted, cursor=cursor, **options)
        ids += [job.id for job in page.jobs]
        cursor = page.cursor
        if cursor is None:
            return ids
    raise AssertionError("find never came to an end")


async def test_a_filter_that_asks_for_nothing_finds_everything(store: Store) -> None:
    ids = [
        await job_in(store, state, "email") for state in (State.FAILED, State.ACTIVE)
    ]
    ids.append(await add_one(store, "sms"))

    assert sorted(await found(store)) == sorted(ids)


async def test_jobs_are_found_by_type_and_state(store: Store) -> None:
    failed = await job_in(store, State.FAILED, "email")
    await job_in(store, State.FAILED, "sms")
    await job_in(store, State.COMPLETE, "email")

    assert await found(store, type="email", state=State.FAILED) == [failed]


async def test_jobs_are_found_by_tag(store: Store) -> None:
    tagged = await add_one(store, tags=["slow", "mail"])
    await add_one(store, tags=["slower"])

    assert await found(store, tag="slow") == [tagged]


#: Data, and a query that finds it.
SAID: tuple[tuple[Any, str], ...] = (
    ({"t": "Hello World", "n": 1}, "wor HELLO"),
    ({"t": "Hello\nWorld", "n": 2}, '"hello world"'),
    ({"say": 'they say "hi" twice'}, 'say "hi"'),
    ({"path": "C:\\temp\\docs"}, r"c:\Temp\docs"),
    ({"url": "https://example.com/a"}, "example.com/a"),
    ({"Größe": "🚀"}, "GRÖSSE 🚀"),
    ({"street": "Lange Straße"}, "lange strasse"),
    ({"name": "cafe\u0301"}, "café"),
    ({"unit": "\u212aelvin"}, "kelvin"),
    ({"escape": "\x1b[1mbold"}, "bold"),
    ({"order": {"id": 4711}}, "order id 4711"),
    ([None, True, 2.5], "2.5 null true"),
)
#: What only JSON, or a job with other accents, has.
NOT_SAID = ('t":', "{", r"\n", "u001b", "cafe", "hello 2 invoice", '"world hello"')


async def test_jobs_are_found_by_what_their_data_says(store: Store) -> None:
    ids = [await add_one(store, data=data) for data, _ in SAID]

    for job_id, (_, text) in zip(ids, SAID, strict=True):
        assert job_id in await found(store, text=text), text
    assert [await found(store, text=text) for text in NOT_SAID] == [[]] * len(NOT_SAID)
    assert await found(store, text="  ") == ids


async def test_a_search_finds_what_its_words_mean_whatever_the_engine_leaves_out(
    store: Store,
) -> None:
    """Engines compare bytes, without decoding: that may only leave out what differs."""
    ids = [await add_one(store, data=data) for data, _ in SAID]
    queries = [*(text for _, text in SAID), *NOT_SAID, "o", "e l", "docs 4711"]

    for text in queries:
        meant = [
            job_id
            for job_id, (data, _) in zip(ids, SAID, strict=True)
            if not missing(terms_of(text), texts_in(data))
        ]
        assert await found(store, text=text) == meant, text


async def test_words_may_be_in_the_data_the_error_and_the_log(store: Store) -> None:
    job = await start_one(store, data={"to": "ann"})
    await store.log(job.id, [LogLine("Connected to MX1"), LogLine('got "Größe"')])
    await end(store, job, Failed(BOOM))
    await add_one(store, data={"to": "ann"})

    for text in ("mx1", "ann REFUSED mx1", '"to mx1" grösse', "ConnectionError:"):
        assert await found(store, text=text) == [job.id], text
    # A phrase is not spread over two lines, and a stack is not searched.
    for text in ('"mx1 got"', "traceback", "ann mx2", '"mx1 ann"'):
        assert await found(store, text=text) == [], text


async def test_the_newest_lines_of_a_log_are_searched(store: Store) -> None:
    job_id = await add_one(store)
    lines = [LogLine(f"line-{number};") for number in range(LOG_LINES + 1)]
    await store.log(job_id, lines)

    assert await found(store, text="line-0;") == []
    assert await found(store, text="line-1; line-100;") == [job_id]
    assert await found(store, text="ſine-1;") == []


@pytest.mark.parametrize("error", ["connection", "REFUSED", "Error: server", "NÄHER"])
async def test_jobs_are_found_by_their_last_error(store: Store, error: str) -> None:
    job = await start_one(store)
    await end(store, job, Failed(BOOM))
    await job_in(store, State.FAILED)
    await job_in(store, State.COMPLETE)

    assert await found(store, error=error) == [job.id]


async def test_jobs_are_found_by_when_they_were_made(store: Store) -> None:
    ids = [await add_one(store, now=T0 + number) for number in range(5)]

    assert await found(store, since=T0 + 3) == ids[3:]
    assert await found(store, until=T0 + 2) == ids[:2]
    assert await found(store, since=T0 + 1, until=T0 + 3) == ids[1:3]


async def test_everything_that_is_given_must_match(store: Store) -> None:
    await add_one(store, data="a", tags=["x"])
    both = await add_one(store, data="b", tags=["x"])
    await add_one(store, data="b", tags=["y"])

    assert await found(store, text="b", tag="x") == [both]


@pytest.mark.parametrize("descending", [False, True], ids=["up", "down"])
@pytest.mark.parametrize("limit", [1, 3, 7, 50])
async def test_what_is_found_comes_in_the_order_of_pages(
    store: Store, limit: int, descending: bool
) -> None:
    wanted = []
    for number in range(30):
        tags = ["odd"] if number % 2 else []
        type = ["email", "sms", "video"][number % 3]
        job_id = await add_one(store, type, priority=(number * 7) % 4, tags=tags)
        if number % 2:
            wanted.append(((number * 7) % 4, job_id))
    expected = [job_id for _, job_id in sorted(wanted, reverse=descending)]

    got = await leaf(
        store,
        Filter(state=State.WAITING, tag="odd"),
        limit=limit,
        descending=descending,
    )

    assert got == expected


@pytest.mark.parametrize("descending", [False, True], ids=["up", "down"])
async def test_a_search_over_many_types_keeps_the_order(
    store: Store, descending: bool
) -> None:
    """Types have one job in turn, then many at once, and some have none left."""
    ids: list[int] = []
    for number in range(13):
        await add_many(store, 1, "rare", priority=number)
        for part in range(12):
            ids += await add_many(store, 2, f"type-{part}", priority=part % 3)
    for part in range(3):
        ids += await add_many(store, 300, f"type-{part}", priority=1)

    wanted = Filter(state=State.WAITING, text="i")
    page = await store.find(wanted, limit=5_000, descending=descending)

    places = [(job.rank, job.id) for job in page.jobs]
    assert places == sorted(places, reverse=descending)
    assert {job.id for job in page.jobs if job.type != "rare"} == set(ids)
    assert page.looked_at == len(page.jobs) == len(ids) + 13


async def test_a_search_looks_at_so_many_jobs_and_goes_on_from_there(
    store: Store,
) -> None:
    """A page may be empty and still not be the last."""
    ids = await add_many(store, 1200)
    needle = await add_one(store, tags=["needle"])

    first = await store.find(Filter(tag="needle"), scan=500)

    assert first.jobs == []
    assert first.cursor is not None
    assert first.looked_at == 500
    assert await leaf(store, Filter(tag="needle"), scan=500) == [needle]
    assert needle > ids[-1]


async def test_a_full_page_at_the_very_end_has_no_cursor(store: Store) -> None:
    await add_many(store, 3, tags=["t"])

    assert (await store.find(Filter(tag="t"), limit=3)).cursor is None
    assert (await store.find(Filter(tag="t"), limit=2)).cursor is not None


async def test_nothing_found_is_an_empty_page(store: Store) -> None:
    await add_many(store, 3)
    page = await store.find(Filter(tag="nowhere"))

    assert (page.jobs, page.cursor) == ([], None)


async def test_a_cursor_of_ones_own_making_is_refused(store: Store) -> None:
    with pytest.raises(ValueError, match="cursor"):
        await store.find(Filter(tag="t"), cursor="here")


@pytest.mark.parametrize("state", [None, State.WAITING])
async def test_pages_tell_how_many_jobs_were_looked_at(
    store: Store, state: State | None
) -> None:
    """With a needle the engine leaves out most jobs, without one it reads them all."""
    for number in range(40):
        await add_one(store, data="rare é" if number in (10, 25) else "usual")

    for text in ("rare", "é"):
        wanted = Filter(text=text, state=state)
        first = await store.find(wanted, limit=1)
        second = await store.find(wanted, limit=1, cursor=first.cursor)
        last = await store.find(wanted, limit=1, cursor=second.cursor)

        pages = (first, second, last)
        assert [page.looked_at for page in pages] == [11, 15, 14]
        assert [len(page.jobs) for page in pages] == [1, 1, 0]
        assert last.cursor is None


async def test_a_search_ends_after_so_many_bytes(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kue.store.search.MAX_SCAN_BYTES", 1)
    await add_many(store, 1_300)

    for text in ("needle", "é"):
        page = await store.find(Filter(text=text))

        assert page.jobs == []
        assert page.cursor is not None
        assert page.looked_at < 1_300


async def test_where_a_search_ends_does_not_depend_on_what_is_left_out(
    store: Store,
) -> None:
    """Else a hidden value could be guessed from the cursor."""
    await add_many(store, 700)

    class Hidden:
        def job(self, job: Job, /) -> Job:
            return replace(job, spec=replace(job.spec, data="•••"))

        def text(self, text: str, /) -> str:
            return text

    pages = [
        await store.find(Filter(text=text), limit=3, scan=500, redact=Hidden())
        for text in ("i", "wrong")
    ]

    assert pages[0] == pages[1]
    assert pages[0].jobs == []
