"""`check` of a Redis store: keys, counters and types, damaged by hand."""

from __future__ import annotations

import asyncio

import pytest

from kue.model.job import Completed, Ending, Retried, State
from kue.model.settings import load
from kue.store import store_for
from kue.store.contract import Store
from kue.store.redis.keys import Keys, root_of
from kue.store.values import Limits, LogLine, Outcome, RemoveRequest
from tests.support.engines import Engine
from tests.support.hands import Hands, found, left_alone, repaired
from tests.support.jobs import (
    OOPS,
    add_many,
    add_one,
    claim,
    claim_ids,
    job_in,
    start_one,
)

pytestmark = [
    pytest.mark.damages,
    pytest.mark.parametrize("engine", ["redis", "redis-shards"], indirect=True),
]


# -- keys ----------------------------------------------------------------------

UNKNOWN = [
    b"whatever",
    b"job:12:notes",
    b"job:007",
    b"job:9999999999999999",
    b"live:first",
    b"email:nonsense",
    b"a%2fb:waiting",
    b":waiting",
    b"email:held:g:h",
    b"\xff\xfe:waiting",
]


@pytest.mark.parametrize("text", UNKNOWN)
async def test_a_key_that_is_none_of_ours_is_left_to_a_person(
    store: Store, hands: Hands, text: bytes
) -> None:
    await add_one(store)
    root = hands.home("")[:-1]
    hands.do("SET", f"{root}:".encode() + text, "x")

    shown = text.decode("utf-8", "backslashreplace")
    message = f"key {root}:{shown} is "
    await left_alone(store, hands, "unknown-key", message)


async def test_a_record_of_the_wrong_redis_type_is_left_to_a_person(
    store: Store, hands: Hands
) -> None:
    job_id, other = await add_many(store, 2)
    key = hands.record(job_id)
    hands.do("DEL", key)
    hands.do("RPUSH", key, "x")

    message = f"key {key} is a list, but must be a string; rename it away"
    await left_alone(store, hands, "wrong-type", message)

    hands.do("RENAME", key, "elsewhere")
    assert await found(store, repair=True) == [("no-record", job_id)]
    assert await claim_ids(store) == [other]


async def test_a_structure_of_the_wrong_redis_type_is_left_to_a_person(
    store: Store, hands: Hands
) -> None:
    """Its jobs are in no state, and cannot be put back while it is so."""
    job_id = await add_one(store)
    hands.do("DEL", hands.of_type("waiting"))
    hands.do("SET", hands.of_type("waiting"), "x")
    before = hands.everything()

    assert await found(store, repair=True) == [
        ("in-no-state", job_id),
        ("wrong-type", None),
    ]
    assert hands.everything() == before

    hands.do("DEL", hands.of_type("waiting"))
    assert await found(store, repair=True) == [("in-no-state", job_id)]
    assert await found(store) == []


SHARED = ["meta", "ids", "fence", "types", "workers", "cancelling", "outbox", "parents"]


PARTS = [f"job:{{}}:{name}" for name in ("after", "then", "finally")]


@pytest.mark.parametrize(
    "name", [*SHARED, *PARTS, "live:0", "email:active", "email:unique", "email:held:g"]
)
async def test_a_check_gets_past_any_key_of_the_wrong_redis_type(
    store: Store, hands: Hands, name: str
) -> None:
    parent = await add_one(store, delay="1h", unique="k", group="g")
    await add_one(store, after=[parent])
    await add_one(store, after=[parent], on_parent_failure="run")
    await start_one(store)
    key = hands.home(name.format(parent))
    hands.do("DEL", key)
    hands.do("RPUSH", key, "x")

    report = await store.check(repair=True)

    assert "wrong-type" in {finding.code for finding in report.findings}


@pytest.mark.parametrize(
    "structure", ["waiting", "active", "complete", "unique", "wake", "rate"]
)
async def test_a_structure_that_would_expire_is_kept(
    store: Store, hands: Hands, structure: str
) -> None:
    await store.limit("email", Limits(rate=100))
    await job_in(store, State.COMPLETE, unique="j")
    await start_one(store)
    await add_one(store, unique="k")
    key = hands.of_type(structure)
    assert hands.do("EXPIRE", key, 1000)

    message = f"key {key} has a time to live, after which it would be lost"
    await repaired(store, "expiring-key", message, "keep it")

    assert hands.do("TTL", key) == -1


async def test_what_is_kept_for_a_while_only_may_expire(
    store: Store, hands: Hands
) -> None:
    await job_in(store, State.COMPLETE)
    expiring = [key for key in hands.everything() if hands.do("TTL", key) >= 0]
    assert {key.split(b":")[-2] for key in expiring} == {
        b"stats",
        b"producers",
        b"claims",
    }

    assert await found(store) == []


# -- counters ------------------------------------------------------------------


async def test_a_type_that_was_forgotten_is_known_again(
    store: Store, hands: Hands
) -> None:
    await add_one(store, "a: type")
    hands.do("DEL", hands.home("types", "a: type"))
    assert await store.types() == []

    message = "type 'a: type' has jobs, but is not among the types"
    await repaired(store, "unknown-type", message, "add it")

    assert await store.types() == ["a: type"]


async def test_a_type_that_maintenance_does_not_look_at_is_looked_at_again(
    store: Store, hands: Hands
) -> None:
    await add_one(store, "a: type")
    hands.do("DEL", hands.home("agenda", "a: type"))

    message = "type 'a: type' has jobs, but maintenance does not look at it"
    await repaired(store, "unknown-type", message, "have it looked at")


# -- as a whole ----------------------------------------------------------------


async def test_a_check_that_is_not_to_repair_changes_nothing(
    store: Store, hands: Hands
) -> None:
    ids = await add_many(store, 5)
    await add_one(store, unique="k")
    hands.do("ZREM", hands.of_type("waiting"), ids[2])
    hands.do("DEL", hands.of_type("unique"), hands.record(ids[4]))
    before = hands.everything()

    report = await store.check()

    assert [finding.repaired for finding in report.findings] == [False] * 3
    assert hands.everything() == before


async def test_much_damage_is_mended_in_one_go(store: Store, hands: Hands) -> None:
    ids = await add_many(store, 700)
    for job_id in ids[:300]:
        hands.do("ZREM", hands.of_type("waiting"), job_id)
    for job_id in ids[300:600]:
        hands.do("DEL", hands.record(job_id))

    report = await store.check(repair=True)

    assert len(report.findings) == 600
    assert all(finding.repaired for finding in report.findings)
    assert (await store.check()).findings == ()
    assert (await store.count())["email"][State.WAITING] == 400


async def test_findings_come_in_the_order_of_their_jobs(
    store: Store, hands: Hands
) -> None:
    ids = await add_many(store, 12)
    hands.do("DEL", hands.of_type("waiting"))
    hands.do("DEL", hands.home("types"))

    codes = await found(store)

    assert codes == [
        *(("in-no-state", job_id) for job_id in ids),
        ("unknown-type", None),
    ]


async def test_jobs_are_found_again_when_only_their_records_are_left(
    store: Store, hands: Hands
) -> None:
    ids = await add_many(store, 3)
    for key in hands.everything():
        if not key.endswith(tuple(f":job:{job_id}".encode() for job_id in ids)):
            hands.do("DEL", key)

    report = await store.check(repair=True)

    assert report.jobs == 3
    assert all(finding.repaired for finding in report.findings)
    assert await found(store) == []
    assert await store.types() == ["email"]
    assert await claim_ids(store) == ids


@pytest.mark.parametrize(
    "name",
    [
        "job",
        "live",
        "stats",
        "producers",
        "held",
        "types",
        "learn vertx",
        "a:b{c}%é*?[",
    ],
)
async def test_types_and_groups_may_have_any_name(store: Store, name: str) -> None:
    await store.limit(name, Limits(per_key=1))
    for number, state in enumerate(State):
        await job_in(store, state, name, priority=-number, unique=state)
    await add_many(store, 3, name, priority="critical", group=name)
    await claim(store, name)
    await store.log(1, [LogLine("hello")])

    assert await found(store) == []


async def test_a_check_sees_only_keys_of_its_own_queue(engine: Engine) -> None:
    """A prefix may look like a pattern."""
    prefix = "p*[a-z]?\\" + engine.settings.prefix
    url = engine.settings.url
    mine = store_for(load(environ={}, url=url, prefix=prefix))
    other = prefix.replace("*[a-z]?", "xyz!")
    keys = Keys(root_of(other, 0, engine.shards))
    hands = Hands(engine)
    try:
        await add_many(mine, 3)
        hands.do("SET", f"{keys.root}:nonsense", "x")

        report = await mine.check()
    finally:
        hands.do("DEL", f"{keys.root}:nonsense")
        hands.close()
        await mine.close()

    assert (report.jobs, report.findings) == (3, ())


async def test_a_busy_store_is_sound_at_every_moment(
    store: Store, other_store: Store
) -> None:
    """Everything moves while it is looked at, and nothing of it is a finding."""
    stop = asyncio.Event()
    types = ["email", "sms", "parent", "type 3"]
    await store.limit("email", Limits(per_key=2))

    async def produce(number: int) -> None:
        while not stop.is_set():
            name = types[number % len(types)]
            now = await other_store.now()
            ids = await add_many(other_store, 10, name, group=f"g{number}", now=now)
            await add_many(other_store, 5, after=ids[:3], now=now)
            await add_many(
                other_store, 5, "sms", after=ids[:2], on_parent_failure="run", now=now
            )
            await add_many(other_store, 3, unique="k", expires="1s", now=now)
            await add_many(other_store, 3, ttl="1s", retention="1s", now=now)
            await other_store.cancel(ids[8:])
            await other_store.remove(RemoveRequest(ids[6:8], force=True))

    async def work(number: int) -> None:
        while not stop.is_set():
            now = await other_store.now()
            jobs = await claim(
                other_store, *types, limit=30, worker=f"w{number}", now=now
            )
            endings: list[Ending] = [Completed(), Retried(OOPS, 5), Retried(OOPS)]
            outcomes = [
                Outcome(job, endings[job.id % len(endings)])
                for job in jobs
                if job.id % 7
            ]
            await other_store.settle(outcomes)
            await other_store.tend()

    async with asyncio.TaskGroup() as tasks:
        for number in range(3):
            tasks.create_task(produce(number))
            tasks.create_task(work(number))
        reports = [await store.check() for _ in range(6)]
        stop.set()

    assert [report.findings for report in reports] == [()] * 6
    assert (await store.check(repair=True)).findings == ()
