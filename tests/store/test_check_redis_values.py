"""`check` of a Redis store: values, times and schedules, damaged by hand."""

from __future__ import annotations

import pytest
from msgspec import Raw

from kue.model.draft import draft
from kue.model.histogram import Timing
from kue.model.job import Completed, State
from kue.model.schedule import Schedule
from kue.model.stream import SentChunks
from kue.store.contract import Store
from kue.store.values import (
    AuditEntry,
    KeepRequest,
    Limits,
    LogLine,
    PauseRequest,
    RemoveRequest,
    RenewRequest,
)
from tests.support.hands import Hands, left_alone, only, repaired
from tests.support.jobs import MINUTE, T0, add_one, claim_one, end, job_in, start_one
from tests.support.schedules import every
from tests.support.upkeep import tend

pytestmark = [
    pytest.mark.damages,
    pytest.mark.parametrize("engine", ["redis", "redis-shards"], indirect=True),
]

FAR = 2**45


@pytest.mark.parametrize(
    ("command", "structure", "words"),
    [
        ("HSET", "info", ("w9", "garbage")),
        ("HSET", "orders", ("w9", "garbage")),
        ("HSET", "stacks", ("w9:at", "garbage")),
        ("HSET", "search", ("type:email", "garbage")),
        ("HSET", "meta", ("swept", "garbage")),
        ("HSET", "claims:500000", ("w9:lane", "garbage")),
        ("HSET", "producers:500000", ("p", "garbage")),
        ("HSET", "stats:30000000", ("email:added", "garbage")),
        ("HSET", "hours:500000", ("email:waits", "garbage")),
        ("HSET", "email:rate", ("at", "1e300")),
        ("ZADD", "email:wake", (1, "garbage")),
        ("ZADD", "listeners", (FAR, "garbage")),
        ("ZADD", "watched", (FAR, "garbage")),
        ("SADD", "types", (b"\xff",)),
    ],
)
async def test_what_can_be_said_again_is_taken_out(
    store: Store,
    hands: Hands,
    command: str,
    structure: str,
    words: tuple[str | bytes | int, ...],
) -> None:
    await add_one(store)
    key = hands.home(structure)
    before = hands.do("DUMP", key)
    hands.do(command, key, *words)

    finding = await only(store)
    assert finding.code == "bad-value"
    assert finding.message.startswith(f"key {key} has ")

    assert (await only(store, repair=True)).repaired
    assert (await store.check()).findings == ()
    assert hands.do("DUMP", key) in (before, None) or structure == "meta"


@pytest.mark.parametrize(
    ("command", "structure", "words"),
    [
        ("HSET", "limits", ("sms", "garbage")),
        ("HSET", "paused", ("sms", "garbage")),
        ("HSET", "kept", ("user:ann", "garbage")),
        ("ZADD", "acts", (1, "garbage")),
        ("ZADD", "refusals", ("inf", 'garbage\t\t{"who":"ann","what":"x"}')),
        ("HSET", "meta", ("id", "garbage")),
    ],
)
async def test_what_a_person_said_is_left_to_a_person(
    store: Store,
    hands: Hands,
    command: str,
    structure: str,
    words: tuple[str, ...],
) -> None:
    await add_one(store)
    hands.do(command, hands.home(structure), *words)

    message = f"key {hands.home(structure)} has "
    await left_alone(store, hands, "bad-value", message)


async def test_a_worker_whose_lease_never_ends_gets_one_that_does(
    store: Store, hands: Hands
) -> None:
    await start_one(store, worker="w1")
    key = hands.home("workers")
    hands.do("ZADD", key, "inf", "w1")

    message = f"key {key} has 'w1' with the score 'inf', which Kue does not write"
    await repaired(store, "bad-value", message, "give it a lease from now on")

    assert hands.do("ZSCORE", key, "w1") > await store.now()


async def test_a_request_to_end_that_says_nothing_is_asked_again(
    store: Store, hands: Hands
) -> None:
    job = await start_one(store)
    await store.cancel([job.id], reason="enough")
    hands.do("HSET", hands.home("cancelling"), job.id, "garbage")

    message = f"job {job.id} was asked to end with 'garbage', which cannot be read"
    await repaired(store, "bad-value", message, "ask it without a reason")

    assert list((await store.renew(RenewRequest("w1", runs=[job]))).cancel) == [job.id]


async def test_a_line_of_a_log_that_cannot_be_read_is_taken_out(
    store: Store, hands: Hands
) -> None:
    job_id = await add_one(store)
    await store.log(job_id, [LogLine("one"), LogLine("two")])
    log = hands.record(job_id, "log")
    hands.do("LINSERT", log, "BEFORE", hands.do("LINDEX", log, -1), "x")

    message = f"the log of job {job_id} has a line that cannot be read: 'x'"
    await repaired(store, "bad-value", message, "take it out")

    assert [line.text for line in await store.logs(job_id)] == ["one", "two"]


async def test_a_chunk_that_cannot_be_read_is_taken_out(
    store: Store, hands: Hands
) -> None:
    job = await start_one(store)
    await store.append_chunks([SentChunks(job, 0, [Raw(b"1"), Raw(b"2")])])
    hands.do("RPUSH", hands.record(job.id, "stream"), "x")

    message = f"the stream of job {job.id} has a chunk that cannot be read: 'x'"
    await repaired(store, "bad-value", message, "take it out")

    assert [chunk.value for chunk in await store.chunks(job.id)] == [1, 2]


async def test_a_record_is_swept_when_its_time_is_over(
    store: Store, hands: Hands
) -> None:
    """With several shards, records live on the first."""
    until = await store.now() + 3_600_000
    await store.keep(KeepRequest("session", "a", "{}", until=until))
    await store.keep(KeepRequest("user", "b", "{}"))
    fading = hands.of_shard("fading")
    hands.do("ZADD", fading, 5, "session:a")
    message = f"the record 'session:a' ends at {until}, but is to be swept at 5"
    await repaired(store, "bad-score", message, "sweep it then")

    hands.do("ZADD", fading, 5, "user:b")
    message = "the record 'user:b' is to be swept at 5, but has no end"
    await repaired(store, "bad-score", message, "do not sweep it")

    hands.do("ZADD", fading, 5, "user:c")
    message = "the record 'user:c' is to be swept, but is not there"
    await repaired(store, "bad-score", message, "do not sweep it")


async def test_what_failed_is_told_again(store: Store, hands: Hands) -> None:
    await job_in(store, State.FAILED)
    before = await store.errors()
    [group] = before.groups
    hands.do("HSET", hands.of_type("causes"), f"{group.fingerprint}:last", "garbage")

    assert (await only(store, repair=True)).repaired

    assert await store.errors() == before
    assert (await store.check()).findings == ()


async def test_what_verbs_write_has_the_right_form(store: Store) -> None:
    """Also where names are made of what structures keys."""
    odd = 'a:b{c}%é"\\*?['
    job_id = await job_in(store, State.FAILED, odd)
    await store.log(job_id, [LogLine(odd)], now=T0)
    await store.renew(RenewRequest("w: 1", info={"host": odd}), now=T0)
    await store.order("w: 1", "stacks", now=T0)
    await store.write_stacks("w: 1", "\x00\ud800", now=T0)
    await store.pause(PauseRequest(odd, reason=odd, until=T0), now=T0)
    await store.pause(PauseRequest(worker="w: 1"), now=T0)
    await store.pause(PauseRequest(), now=T0)
    await store.limit(odd, Limits(concurrency=1, rate=3, per_key=1), now=T0)
    await store.keep(KeepRequest("user", odd, odd, until=T0), now=T0)
    await store.note(AuditEntry(who=odd, what=odd), now=T0)
    await store.note(AuditEntry(who=odd, what=odd, status=403), now=T0)
    await store.measure([Timing(odd, {1: 1, 5: 2}, {1: 3})], now=T0)
    await store.tend(now=T0)

    assert (await store.check()).findings == ()


async def schedule_one(store: Store, name: str = "nightly") -> Schedule:
    schedule = every(name, "1h", draft("email"), first_at=T0)
    await store.schedule(schedule)
    return schedule


# -- schedules -----------------------------------------------------------------


@pytest.mark.parametrize("name", ["nightly", 'a:{b}%41 "é"'])
async def test_a_schedule_without_a_time_gets_its_own(
    store: Store, hands: Hands, name: str
) -> None:
    """It would never fire again."""
    await schedule_one(store, name)
    hands.do("ZREM", hands.home("due"), name)
    assert (await store.tend(now=T0)).fired == 0

    message = f"the schedule {name!r} is not to fire, but its next time is {T0}"
    await repaired(store, "schedule-drift", message, f"have it fire at {T0}")

    assert (await store.tend(now=T0)).fired == 1


async def test_a_name_that_is_no_text_is_taken_out_too(
    store: Store, hands: Hands
) -> None:
    hands.do("ZADD", hands.home("due"), T0, b"\xff")

    message = r"a schedule '\\xff' is to fire, but there is none"
    await repaired(store, "schedule-drift", message, "take it out")


async def test_schedules_that_fire_are_in_order(store: Store) -> None:
    for number in range(20):
        await schedule_one(store, f"nightly {number}")
    await tend(store, T0 + 90 * MINUTE)
    await store.unschedule("nightly 7")

    assert (await store.check()).findings == ()


# -- unique keys that outlast their job ----------------------------------------


async def test_a_key_that_outlasts_its_job_is_in_order(store: Store) -> None:
    await add_one(store, unique="once an hour", unique_for="1h")
    await end(store, await claim_one(store), Completed())

    assert (await store.check()).findings == ()


@pytest.mark.parametrize("way", ["remove", "clear"])
async def test_a_key_goes_whole_with_a_job_that_is_removed_by_hand(
    store: Store, hands: Hands, way: str
) -> None:
    """What frees the key forgets when it was to be freed."""
    job_id = await add_one(store, unique="once an hour", unique_for="1h")
    await end(store, await claim_one(store), Completed())
    assert hands.do("ZCARD", hands.of_type("lapse")) == 1

    if way == "remove":
        await store.remove(RemoveRequest([job_id]), now=T0)
    else:
        await store.clear("email", [State.COMPLETE], now=T0)

    assert hands.do("EXISTS", hands.of_type("lapse"), hands.of_type("unique")) == 0
    assert (await store.check()).findings == ()
