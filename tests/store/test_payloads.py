"""Payloads: D-28, what comes out is what went in, of the same type, to the last bit."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kue.model.draft import draft
from kue.model.job import Completed, Error, Failed, Retried
from kue.store.codec import result_of
from kue.store.contract import Store
from kue.store.values import Change, LogLine, Outcome, PageRequest, Progress
from tests.support.jobs import (
    OOPS,
    T0,
    add,
    add_one,
    claim,
    claim_one,
    end,
    get_one,
    start_one,
)

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=-(2**130), max_value=2**130)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4)
    ),
    max_leaves=12,
)
#: One store serves all examples of a test: each adds jobs of its own.
EXAMPLES = settings(
    max_examples=20,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
AWKWARD: list[Any] = [
    None,
    [],
    {},
    [[]],
    [{}],
    {"a": []},
    {"a": {}},
    {"": ""},
    0,
    -0.0,
    0.1,
    1e300,
    5e-324,
    2**53 + 1,
    2**64,
    -(10**40),
    "",
    "\x00",
    "\u2028\n\r\t",
    '"\\/',
    "é e\u0301 漢字 🚀",
    True,
    "true",
    "null",
    "[]",
    {"type": "marker"},
    "x" * 100_000,
]


def same(one: Any, other: Any) -> bool:
    """Tell whether two JSON values are equal and of the same types all through."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[k], other[k]) for k in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float):
        return one == other and math.copysign(1, one) == math.copysign(1, other)
    return bool(one == other)


@pytest.mark.parametrize("value", AWKWARD, ids=lambda value: f"{value!r:.20}")
async def test_awkward_data_comes_back_as_it_was(store: Store, value: Any) -> None:
    """No value is a marker for something else."""
    job = await start_one(store, data=value)
    assert same(job.data, value)

    assert same((await get_one(store, job.id)).data, value)
    assert same((await store.page(PageRequest())).jobs[0].data, value)


@pytest.mark.parametrize("value", AWKWARD[:-1], ids=lambda value: f"{value!r:.20}")
async def test_awkward_results_come_back_as_they_were(store: Store, value: Any) -> None:
    job = await start_one(store)
    await end(store, job, Completed(result_of(value)))

    done = await get_one(store, job.id)
    assert same(done.result, value)
    assert same(done.history[-1].result, value)


@EXAMPLES
@given(values=st.lists(JSON, min_size=1, max_size=8))
async def test_any_data_and_any_result_come_back_as_they_were(
    store: Store, values: list[Any]
) -> None:
    added = await add(store, [draft("email", value) for value in values])
    jobs = await claim(store, limit=len(values))
    assert [job.id for job in jobs] == [answer.id for answer in added]
    assert all(same(job.data, value) for job, value in zip(jobs, values, strict=True))

    results = [result_of([value]) for value in reversed(values)]
    await store.settle(
        [Outcome(job, Completed(r)) for job, r in zip(jobs, results, strict=True)],
        now=T0,
    )

    done = await store.get([job.id for job in jobs])
    for job, data, result in zip(done, values, reversed(values), strict=True):
        assert job is not None
        assert same(job.data, data)
        assert same(job.result, [result])


@EXAMPLES
@given(value=JSON)
async def test_any_progress_and_any_new_data_come_back_as_they_were(
    store: Store, value: Any
) -> None:
    job = await start_one(store)
    await store.progress([Progress(job.id, 50, value, job.token)], now=T0)
    await store.update([Change(job.id, data=value)], now=T0)

    shown = await get_one(store, job.id)
    assert same(shown.progress_data, value)
    assert same(shown.data, value)


@EXAMPLES
@given(text=st.text(), kind=st.text(min_size=1), stack=st.text())
async def test_any_error_and_any_line_come_back_as_they_were(
    store: Store, text: str, kind: str, stack: str
) -> None:
    job = await start_one(store)
    await store.log(job.id, [LogLine(text)], now=T0)
    await end(store, job, Failed(Error(kind, text, stack)))

    shown = await get_one(store, job.id)
    assert shown.error == Error(kind, text, stack)
    assert [line.text for line in await store.logs(job.id)] == [text]


async def test_data_that_is_encoded_already_is_not_encoded_again(store: Store) -> None:
    """A result may come as text of JSON; it is kept as what it says."""
    job = await start_one(store)
    await end(store, job, Completed({"plain": [1]}))

    assert (await get_one(store, job.id)).result == {"plain": [1]}


async def test_large_data_survives_many_attempts(store: Store) -> None:
    """D-20, D-28: a rewrite of the story never touches the data."""
    data = {"blob": "ä" * 60_000, "n": 2**70}
    await add_one(store, data=data, attempts=100)
    for _ in range(30):
        await end(store, await claim_one(store), Retried(OOPS))

    assert same((await claim_one(store)).data, data)


async def test_a_job_without_data_is_a_job_like_any_other(store: Store) -> None:
    """D-29: nothing is wrong with having nothing to say."""
    job = await start_one(store)

    assert job.data is None
    assert await end(store, job, Completed()) == "done"
    assert (await get_one(store, job.id)).result is None


async def test_data_of_a_job_is_never_read_as_anything_else(store: Store) -> None:
    """Fields in the data that are named as those of a job stay in the data."""
    data = {"id": 1, "state": "failed", "attempts": 99, "run": "1:1:1:w:c", "at": 1}
    job = await start_one(store, data=data)

    assert job.data == data
    assert job.attempts == 1
    await end(store, job, Completed(data))
    done = await get_one(store, job.id)
    assert (done.result, done.attempts, len(done.history)) == (data, 1, 1)
