"""A record that makes no sense: set aside, told, found; nobody else is hurt by it."""

from __future__ import annotations

import pytest

from kue.model.events import Kind
from kue.model.job import Completed, State
from kue.store.contract import Store
from kue.store.values import PageRequest, Result
from tests.support.damage import REACHABLE, spoil_record
from tests.support.engines import Engine
from tests.support.jobs import T0, add_many, add_one, claim, claim_ids, end
from tests.support.listening import read_until
from tests.support.upkeep import tend

pytestmark = [
    pytest.mark.damages,
    pytest.mark.parametrize("engine", REACHABLE, indirect=True),
]


async def test_a_job_without_a_usable_record_is_not_handed_out(
    store: Store, engine: Engine
) -> None:
    """D-8: one bad job costs its neighbours nothing, and no worker its place."""
    ids = await add_many(store, 3)
    spoil_record(engine, ids[0])

    jobs = await claim(store)

    assert [job.id for job in jobs] == ids[1:]
    for job in jobs:
        assert await end(store, job, Completed()) is Result.DONE


async def test_a_job_without_a_usable_record_is_not_looked_at_again_and_again(
    store: Store, engine: Engine
) -> None:
    bad = await add_one(store, priority="critical")
    spoil_record(engine, bad)
    assert await claim_ids(store, limit=1) == []
    good = await add_one(store)

    assert await claim_ids(store, limit=1) == [good]


async def test_a_job_without_a_usable_record_is_told_in_one_shape(
    store: Store, engine: Engine
) -> None:
    """D-12: an error has the shape of every event; its message is in the detail."""
    ids = await add_many(store, 2)
    spoil_record(engine, ids[0])
    async with store.watch() as events:
        await claim(store)
        heard = await read_until(events, lambda event: event.kind is Kind.ERROR)

    event = heard[-1]
    assert (event.job_id, event.type, event.at) == (ids[0], "email", T0)
    assert event.detail.keys() == {"message"}
    assert event.detail["message"]


async def test_looking_at_a_bad_record_deletes_nothing(
    store: Store, engine: Engine
) -> None:
    """D-29: neither reading nor upkeep throws away what a person might mend."""
    ids = await add_many(store, 3)
    spoil_record(engine, ids[1])
    before = await store.count()

    good = await store.get([ids[0], ids[2]])
    await store.types()
    await tend(store, T0)

    assert None not in good
    assert await store.count() == before


async def test_pages_go_on_around_a_bad_record(store: Store, engine: Engine) -> None:
    ids = await add_many(store, 3)
    spoil_record(engine, ids[1])

    page = await store.page(PageRequest(State.WAITING, "email"))

    assert {job.id for job in page.jobs} >= {ids[0], ids[2]}


async def test_a_check_finds_a_bad_record_and_says_which(
    store: Store, engine: Engine
) -> None:
    ids = await add_many(store, 3)
    spoil_record(engine, ids[1])

    report = await store.check()

    assert [finding.job_id for finding in report.findings] == [ids[1]]
    [finding] = report.findings
    assert finding.code
    assert str(ids[1]) in finding.message
    assert not finding.repaired


async def test_a_check_still_finds_what_a_claim_has_set_aside(
    store: Store, engine: Engine
) -> None:
    ids = await add_many(store, 2)
    spoil_record(engine, ids[0])
    await claim(store)

    report = await store.check()

    assert ids[0] in {finding.job_id for finding in report.findings}
