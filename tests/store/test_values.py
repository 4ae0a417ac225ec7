"""The values that go into the verbs of a store and come out of them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kue.model.job import Attempt, Error, Job, Spec, State
from kue.model.search_text import missing
from kue.store.contract import Store
from kue.store.validation import check_batch, check_limit, read_cursor
from kue.store.values import (
    MAX_BATCH,
    MAX_PATH,
    MAX_PATH_STEPS,
    MAX_PATHS,
    Claim,
    Filter,
    MaintenanceResult,
    Pause,
    held_by,
    sort_key,
)

DATA = {"to": "Ann", "n": 1, "list": [0, {"x": True}], "nothing": None}


def a_job(state: State = State.WAITING, **changes: Any) -> Job:
    usual: dict[str, Any] = {
        "id": 7,
        "type": "email",
        "priority": -10,
        "created_at": 1_000,
        "spec": Spec(data=DATA, tags=("mail",)),
    }
    return Job(state=state, **(usual | changes))


def matches(wanted: Filter, job: Job) -> bool:
    return wanted.suits(job) and not missing(wanted.terms, wanted.texts_of(job))


FAILED = a_job(
    State.FAILED,
    group="ann",
    history=(
        Attempt(
            "7:1500:1:w1:l.1",
            5_000,
            "failed",
            error=Error("OSError", "disk full"),
            fingerprint="0123456789ab",
        ),
    ),
)


@pytest.mark.parametrize(
    "wanted",
    [
        Filter(),
        Filter(type="email"),
        Filter(state=State.FAILED),
        Filter(tag="mail"),
        Filter(text="ANN"),
        Filter(error="oserror: DISK"),
        Filter(since=1_000, until=1_001),
        Filter(worker="w1"),
        Filter(group="ann"),
        Filter(priority=-10),
        Filter(fingerprint="0123456789ab"),
        Filter(data={"to": "Ann"}),
        Filter(data={"n": 1}),
        Filter(data={"n": 1.0}),
        Filter(data={"list.1.x": True}),
        Filter(data={"list": [0, {"x": True}], "to": "Ann"}),
        Filter(data={"nothing": None}),
        Filter(type="email", state=State.FAILED, tag="mail", text="ann", error="full"),
    ],
)
def test_a_filter_finds_what_matches_all_it_says(wanted: Filter) -> None:
    assert matches(wanted, FAILED)


@pytest.mark.parametrize(
    "wanted",
    [
        Filter(type="mail"),
        Filter(state=State.WAITING),
        Filter(tag="email"),
        Filter(text="bob"),
        Filter(error="memory"),
        Filter(since=1_001),
        Filter(until=1_000),
        Filter(worker="w2"),
        Filter(group="bob"),
        Filter(priority=0),
        Filter(fingerprint="ba9876543210"),
        Filter(data={"to": "ann"}),
        Filter(data={"to": None}),
        Filter(data={"n": "1"}),
        Filter(data={"n": True}),
        Filter(data={"list.1.x": 1}),
        Filter(data={"list.2": 0}),
        Filter(data={"list.x": 0}),
        Filter(data={"list.-1": 0}),
        Filter(data={"to.0": "A"}),
        Filter(data={"absent": None}),
        Filter(data={"to": "Ann", "n": 2}),
        Filter(type="email", text="bob"),
    ],
)
def test_a_filter_leaves_out_what_differs_in_one_thing(wanted: Filter) -> None:
    assert not matches(wanted, FAILED)


@pytest.mark.parametrize(
    "data",
    [
        {"": 1},
        {"x" * (MAX_PATH + 1): 1},
        {".".join("x" * (MAX_PATH_STEPS + 1)): 1},
        {str(number): 1 for number in range(MAX_PATHS + 1)},
    ],
)
def test_a_filter_looks_at_no_more_of_the_data_than_it_should(
    data: dict[str, int],
) -> None:
    with pytest.raises(ValueError, match=r"paths? of data"):
        Filter(data=data)


def test_a_job_without_an_error_matches_no_error() -> None:
    assert not matches(Filter(error=""), a_job())


@pytest.mark.parametrize(
    ("job", "state", "key"),
    [
        (a_job(rank=-7), State.WAITING, -7),
        (a_job(State.DELAYED, promote_at=9_000), State.DELAYED, 9_000),
        (a_job(State.DELAYED), State.DELAYED, 0),
        (FAILED, State.FAILED, 5_000),
        (a_job(State.COMPLETE), State.COMPLETE, 0),
        (a_job(State.ACTIVE), State.ACTIVE, 0),
        (a_job(State.BLOCKED), State.BLOCKED, 0),
        (a_job(), None, 0),
    ],
)
def test_pages_of_a_state_have_an_order(
    job: Job, state: State | None, key: int
) -> None:
    assert sort_key(job, state) == key
    assert read_cursor(Store.cursor_after(job, state)) == (key, 7)


@given(st.integers(), st.integers())
def test_a_cursor_is_read_back(key: int, job_id: int) -> None:
    assert read_cursor(f"{key}:{job_id}") == (key, job_id)


def test_no_cursor_is_the_beginning() -> None:
    assert read_cursor(None) is None


@pytest.mark.parametrize("cursor", ["", "7", "a:b", "1:2:3", ":"])
def test_a_cursor_of_ones_own_is_refused_with_advice(cursor: str) -> None:
    with pytest.raises(ValueError, match=r"did not come from a page; leave it out"):
        read_cursor(cursor)


def test_a_batch_has_a_limit() -> None:
    check_batch(range(MAX_BATCH), "drafts")

    with pytest.raises(ValueError, match=r"at most 500 drafts, not 501; split them up"):
        check_batch(range(MAX_BATCH + 1), "drafts")


@pytest.mark.parametrize("limit", [-1, MAX_BATCH + 1])
def test_a_call_asks_for_a_batch_at_most(limit: int) -> None:
    check_limit(0)
    check_limit(MAX_BATCH)

    with pytest.raises(ValueError, match=r"limit must be from 0 to 500, not"):
        check_limit(limit)


def test_upkeep_that_did_nothing_is_false() -> None:
    assert not MaintenanceResult()
    assert MaintenanceResult(expired=1)
    assert MaintenanceResult(more=True)


def test_a_claim_is_named_by_its_lane_and_number() -> None:
    assert str(Claim("host-1/0", 4)) == "host-1/0.4"


def test_a_job_that_a_pause_holds_back_says_so() -> None:
    assert held_by(Pause("email", 5, reason="the server moves")) == (
        "paused: the server moves"
    )
    assert held_by(Pause("email", 5)) == "paused"
