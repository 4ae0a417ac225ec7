"""An add is applied once, however often its answer is lost."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from kue.model.draft import draft
from kue.model.errors import StoreUnavailable
from kue.model.job import Draft, State
from kue.store.contract import Store
from kue.store.values import MAX_BATCH, Added
from tests.faults.conftest import NewStore
from tests.support.jobs import count_of, get_many
from tests.support.proxy import Fate, Proxy

#: Ways to lose an answer that the caller notices at once.
CUTS = (Fate.CUT_BEFORE, Fate.CUT_AFTER)


def numbered(count: int, first: int = 0) -> list[Draft]:
    return [draft("email", {"i": first + number}) for number in range(count)]


@pytest.mark.parametrize("size", [1, MAX_BATCH])
@pytest.mark.parametrize("fate", [*CUTS, Fate.MUTE])
async def test_an_add_whose_answer_is_lost_adds_once(
    proxied: Store, direct: Store, proxy: Proxy, fate: Fate, size: int
) -> None:
    proxy.plan(fate, fate)

    added = await proxied.add(numbered(size), producer="p", seq=1)

    assert proxy.struck[fate] == 2
    assert [one.id for one in added] == list(range(1, size + 1))
    assert await count_of(direct) == {State.WAITING: size}


@pytest.mark.parametrize("fate", [*CUTS, Fate.MUTE])
async def test_an_add_with_unique_keys_whose_answer_is_lost_answers_as_the_first(
    proxied: Store, direct: Store, proxy: Proxy, fate: Fate
) -> None:
    [held] = await direct.add([draft("email", unique="b")], producer="other", seq=1)
    drafts = [draft("email", unique=key) for key in ("a", "b", "c", "a")]
    proxy.plan(fate)

    first, second, third, fourth = await proxied.add(drafts, producer="p", seq=1)

    assert second == Added(held.id, False, held.created_at)
    assert (first.new, third.new) == (True, True)
    assert fourth == Added(first.id, False, first.created_at)
    assert await count_of(direct) == {State.WAITING: 3}


@pytest.mark.parametrize("seed", range(5))
async def test_adds_in_random_trouble_all_arrive_once_and_in_order(
    proxied: Store, direct: Store, proxy: Proxy, seed: int
) -> None:
    random = Random(seed)
    proxy.draw(random, {Fate.CUT_BEFORE: 0.1, Fate.CUT_AFTER: 0.2, Fate.MUTE: 0.02})
    ids: list[int] = []

    for seq in range(60):
        size = random.choice([1, 1, 7, 100])
        added = await proxied.add(numbered(size, len(ids)), producer="p", seq=seq)
        ids += [one.id for one in added]

    assert proxy.struck[Fate.CUT_AFTER] > 5
    assert ids == list(range(1, len(ids) + 1))
    jobs = await get_many(direct, ids)
    assert [job.data for job in jobs] == [{"i": i} for i in range(len(ids))]
    assert await count_of(direct) == {State.WAITING: len(ids)}


async def test_producers_in_random_trouble_do_not_get_each_others_answers(
    proxied: Store, direct: Store, proxy: Proxy
) -> None:
    proxy.draw(Random(7), {Fate.CUT_AFTER: 0.2, Fate.CUT_BEFORE: 0.1})

    async def produce(name: str) -> list[int]:
        ids = []
        for seq in range(25):
            data = {"by": name, "seq": seq}
            [one] = await proxied.add([draft("email", data)], producer=name, seq=seq)
            ids.append(one.id)
        return ids

    names = [f"p{number}" for number in range(8)]
    ids = dict(zip(names, await asyncio.gather(*map(produce, names)), strict=True))

    for name in names:
        found = [job.data for job in await get_many(direct, ids[name])]
        assert found == [{"by": name, "seq": seq} for seq in range(25)]
    assert await count_of(direct) == {State.WAITING: 200}


async def test_an_add_that_arrives_again_late_adds_nothing(
    proxied: Store, direct: Store, proxy: Proxy
) -> None:
    proxy.plan(Fate.HOLD, Fate.HOLD)
    await proxied.add(numbered(3), producer="p", seq=1)

    as_the_last = await proxy.release()
    await proxied.add(numbered(1, first=3), producer="p", seq=2)
    behind_the_last = await proxy.release()

    assert b"1-3" in as_the_last
    assert b"STALE" in behind_the_last
    assert await count_of(direct) == {State.WAITING: 4}


async def test_an_add_that_was_given_up_can_be_repeated_with_its_number(
    direct: Store, proxy: Proxy, new_store: NewStore
) -> None:
    store = new_store(proxy.url, budget="300ms")
    await store.open()
    proxy.always(Fate.CUT_AFTER)
    with pytest.raises(StoreUnavailable):
        await store.add(numbered(5), producer="p", seq=1)
    proxy.heal()

    added = await store.add(numbered(5), producer="p", seq=1)

    assert [one.id for one in added] == [1, 2, 3, 4, 5]
    assert await count_of(direct) == {State.WAITING: 5}
