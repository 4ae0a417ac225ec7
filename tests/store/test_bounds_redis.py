"""What one script of maintenance may cost: counted in commands, not in time."""

from __future__ import annotations

from typing import Any

import pytest

from kue.model.draft import draft
from kue.model.errors import StoreError
from kue.model.job import Completed, State
from kue.model.settings import Keep
from kue.store.contract import Store
from kue.store.values import (
    Claim,
    ClaimRequest,
    Limits,
    Outcome,
    RemoveRequest,
    RenewRequest,
)
from tests.support.hands import Hands
from tests.support.jobs import (
    HOUR,
    MINUTE,
    SECOND,
    T0,
    add_many,
    add_one,
    claim,
    end,
    start_one,
    state_of,
)
from tests.support.schedules import every

pytestmark = pytest.mark.parametrize("engine", ["redis"], indirect=True)


#: More commands than a pass takes beside looking at types, and than one type takes.
PASS, TYPE = 120, 60


def calls(hands: Hands, command: str) -> int:
    """Return how often the server was given a command, by scripts too."""
    stats = hands.redis.info("commandstats")
    return int(stats.get(f"cmdstat_{command}", {"calls": 0})["calls"])


async def passed(store: Store, hands: Hands) -> int:
    """Tend by Redis' clock until a pass was made; return how many commands it took."""
    while True:
        before = hands.commands()
        if not (await store.tend()).quiet:
            return hands.commands() - before


async def dead_workers(store: Store, count: int, lanes: int) -> None:
    """Have workers claim in many lanes, and leave."""
    for number in range(count):
        for lane in range(lanes):
            await store.claim(
                ClaimRequest(
                    ["email"], 1, worker=f"w{number}", claim=Claim(str(lane), 1)
                ),
                now=T0,
            )
        await store.leave(f"w{number}", now=T0)


async def test_the_claims_of_dead_workers_are_not_read_by_maintenance(
    store: Store, hands: Hands
) -> None:
    """R-4: 100 dead workers with 400 lanes blocked Redis for seconds."""
    read: list[int] = []
    for workers in (2, 30):
        await dead_workers(store, workers, lanes=5)
        before = calls(hands, "hgetall")
        await store.tend(now=T0 + SECOND)
        read.append(calls(hands, "hgetall") - before)
        assert await store.workers(now=T0 + SECOND) == []

    assert read[0] == read[1]


async def test_claims_expire_by_themselves(store: Store, hands: Hands) -> None:
    """R-4: a claim is remembered for longer than any call lives, then no more."""
    await dead_workers(store, 1, lanes=1)

    assert 1000 * hands.do("TTL", hands.home(f"claims:{T0 // HOUR}")) > 2 * HOUR


async def test_a_claim_is_remembered_into_the_next_hour(store: Store) -> None:
    """R-4: an old claim that was delayed on its way gets nothing."""
    end_of_hour = T0 // HOUR * HOUR + HOUR - 1
    claim = Claim("lane", 7)
    await store.claim(
        ClaimRequest(["email"], 1, worker="w1", claim=claim), now=end_of_hour
    )
    await add_one(store, now=end_of_hour)

    late = await store.claim(
        ClaimRequest(["email"], 1, worker="w1", claim=Claim("lane", 6)),
        now=end_of_hour + 2,
    )

    assert late.jobs == []


async def add_types(store: Store, count: int, **options: Any) -> None:
    for first in range(0, count, 500):
        numbers = range(first, min(first + 500, count))
        drafts = [draft(f"type {number}", **options) for number in numbers]
        await store.add(drafts, producer=f"p{first}", seq=1)


async def test_a_pass_looks_only_at_types_that_something_is_due_of(
    store: Store, hands: Hands
) -> None:
    """R-8: a pass over ten thousand types took a third of a second."""
    await add_types(store, 150, delay="1h")
    await store.tend(now=await store.now())
    await store.add([draft("busy")], producer="p", seq=1)
    await passed(store, hands)

    # One of them may also add a minute of all types to its hour.
    costs = [await passed(store, hands) for _ in range(3)]
    assert min(costs) <= PASS + TYPE


def looks(hands: Hands) -> dict[bytes, float]:
    """Return when maintenance looks at what."""
    found: Any = hands.redis.zrange(hands.home("agenda"), 0, -1, withscores=True)
    return dict(found)


async def test_a_pass_looks_at_a_bounded_number_of_types(
    store: Store, hands: Hands
) -> None:
    """R-8: those that are left come next, at once."""
    await add_types(store, 250)
    entered = looks(hands)

    costs = [await passed(store, hands) for _ in range(3)]

    assert max(costs) <= PASS + 100 * TYPE
    later = looks(hands)
    assert all(later[name] > at for name, at in entered.items())


async def test_a_heartbeat_costs_the_same_however_many_runs_of_others_are_to_end(
    store: Store, hands: Hands
) -> None:
    """R-16: every heartbeat read all that was asked of any worker."""
    mine = await start_one(store, "mine")
    await store.renew(RenewRequest("w1", runs=[mine]), now=T0)
    costs: list[int] = []
    for count in (1, 40):
        await add_many(store, count)
        for job in await claim(store, worker="w2", limit=count):
            await store.cancel([job.id], now=T0)
        before = hands.commands()
        await store.renew(RenewRequest("w1", runs=[mine]), now=T0)
        costs.append(hands.commands() - before)

    assert costs[0] == costs[1]
    assert calls(hands, "hmget") > 0


async def test_a_type_that_is_missing_is_found_on_a_busy_shard(
    store: Store, hands: Hands
) -> None:
    """R-8: the shard's own look keeps its time, however often types are looked at."""
    await add_one(store, "busy", now=await store.now())
    await passed(store, hands)
    own = looks(hands)[b":"]

    await passed(store, hands)

    assert looks(hands)[b":"] == own or own <= await store.now()


async def test_runs_of_a_worker_that_nobody_knows_are_taken_back(
    store: Store, hands: Hands
) -> None:
    """R-4: an unknown worker is a lost one, also while no other is."""
    job = await start_one(store, worker="w7")
    await store.tend(now=T0)
    hands.do("ZREM", hands.home("workers"), "w7")

    tended = await store.tend(now=T0 + MINUTE)

    assert tended.rescued == 1
    assert await state_of(store, job.id) is State.WAITING
    assert hands.do("HGETALL", hands.home("search")) == {}


async def begin_search(store: Store, hands: Hands) -> str:
    """Have a search at T0 behind it its first page; return a worker of a run there."""
    # As few as Redis keeps in one page take no second one.
    await add_many(store, 600)
    for number in range(600):
        await claim(store, limit=1, worker=f"w{number}")
    [cursor, runs] = hands.do("HSCAN", hands.of_type("active"), 0, "COUNT", 10)
    hands.do("HSET", hands.home("search"), "type:email", f"{int(cursor)}:{T0}")
    token: bytes = next(iter(runs.values()))
    return token.decode().split(":")[3]


async def test_a_search_that_began_before_a_worker_was_lost_is_made_again(
    store: Store, hands: Hands
) -> None:
    """R-4: its run may lie where the search has been."""
    worker = await begin_search(store, hands)
    await store.leave(worker, now=T0 + SECOND)

    rescued = [(await store.tend(now=T0 + 2 * SECOND)).rescued for _ in range(2)]

    assert rescued == [0, 1]


async def test_a_type_whose_held_jobs_were_left_out_is_first_in_the_next_pass(
    store: Store, hands: Hands
) -> None:
    """R-8: a pass looks at few held jobs, of all types together."""
    for type in ("email", "sms"):
        await store.limit(type, Limits(per_key=1))
        await add_many(store, 3, type, group="g", now=await store.now())
        await claim(store, type, limit=3, lease=HOUR, now=await store.now())
        hands.do("ZADD", hands.home("agenda"), 1, type)

    await store.tend(limit=1)

    assert sorted(looks(hands).values())[0] == 1


async def test_a_parent_that_nobody_waits_for_any_more_leaves_the_outbox(
    store: Store, hands: Hands
) -> None:
    """R-7: maintenance would carry on with it forever."""
    job_id = await add_one(store)
    hands.do("HSET", hands.home("outbox"), f"rest:{job_id}", "complete")

    await store.tend(now=T0)

    assert hands.do("HLEN", hands.home("outbox")) == 0


async def test_ended_jobs_with_their_own_retention_keep_no_type_busy(
    store: Store, hands: Hands
) -> None:
    """R-11: they are older than the rule allows, for as long as they stay."""
    job = await start_one(store, retention="2h", now=await store.now())
    await end(store, job, Completed(), now=await store.now())

    while (await store.tend(keep=Keep(complete_age=1))).quiet:
        pass

    # Less than the minute, for the time that this takes.
    assert looks(hands)[b"email"] > looks(hands)[b":"] - 10 * SECOND


async def test_schedules_are_read_once_for_all_types_that_are_forgotten(
    store: Store, hands: Hands
) -> None:
    for type in ("email", "sms"):
        await store.remove(RemoveRequest([await add_one(store, type)]), now=T0)
    await store.tend(now=T0)
    before = calls(hands, "hvals")

    await store.tend(now=T0 + 25 * HOUR)

    assert await store.types() == []
    assert calls(hands, "hvals") - before == 1


async def test_an_outage_after_an_idle_time_is_one(store: Store, hands: Hands) -> None:
    """What was due and not looked at tells that nobody could."""
    await start_one(store)
    await store.tend(now=T0)
    hands.do("HSET", hands.home("meta"), "idle", T0)

    assert (await store.tend(now=T0 + HOUR)).rescued == 0


async def test_a_call_repeated_in_the_next_hour_is_not_kept_for_ever(
    store: Store, hands: Hands
) -> None:
    end_of_hour = T0 // HOUR * HOUR + HOUR - 1
    for now in (end_of_hour, end_of_hour + 1):
        await store.add([draft("email")], producer="p", seq=1, now=now)

    assert hands.do("TTL", hands.home(f"producers:{T0 // HOUR + 1}")) > 0


@pytest.mark.damages
async def test_nothing_is_settled_before_the_claims_could_be_read(
    store: Store, hands: Hands
) -> None:
    job = await start_one(store)
    hands.do("SET", hands.home(f"claims:{T0 // HOUR}"), "damaged")

    with pytest.raises(StoreError):
        await store.cycle(
            [Outcome(job, Completed())],
            ClaimRequest(["email"], 1, worker="w1", claim=Claim("lane", 1)),
            now=T0 + HOUR,
        )

    assert await state_of(store, job.id) is State.ACTIVE


async def test_schedules_that_are_due_together_fire_in_few_calls(
    store: Store, hands: Hands
) -> None:
    """Maintenance could not keep up with 10,000 schedules that were due each minute."""
    for number in range(90):
        await store.schedule(every(f"s{number}", "1m", draft("report"), first_at=T0))
    await store.tend(now=T0)
    before = calls(hands, "evalsha")

    # Now each has an unfinished job, which is read as well.
    assert (await store.tend(now=T0 + MINUTE)).fired == 90

    assert calls(hands, "evalsha") - before <= 5
