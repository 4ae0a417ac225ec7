"""`check` of a Redis store: values, members and scores that Kue does not write."""

from __future__ import annotations

import pytest

from kue.model.histogram import Timing
from kue.model.job import State
from kue.store.contract import Store
from kue.store.values import (
    AuditEntry,
    KeepRequest,
    Limits,
    LogLine,
    PauseRequest,
    Progress,
    RenewRequest,
)
from tests.support.hands import Hands, left_alone, mended, only
from tests.support.jobs import T0, add_one, claim, job_in, start_one

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
    await mended(store, "bad-value", message, "give it a lease from now on")

    assert hands.do("ZSCORE", key, "w1") > await store.now()


async def test_a_type_that_is_never_looked_at_is_looked_at_now(
    store: Store, hands: Hands
) -> None:
    await add_one(store)
    hands.do("ZADD", hands.home("agenda"), "inf", "email")

    message = "maintenance is to look at 'email' at inf, which is not a time"
    await mended(store, "bad-score", message, "have it looked at now")


async def test_what_is_not_a_type_is_not_looked_at(store: Store, hands: Hands) -> None:
    await add_one(store)
    hands.do("ZADD", hands.home("agenda"), T0, "sms")

    message = "maintenance is to look at 'sms', which is not a type"
    await mended(store, "unknown-type", message, "take it out")


@pytest.mark.parametrize(("name", "most"), [("ids", 2**41 - 1), ("fence", 2**53 - 1)])
async def test_a_counter_at_its_end_is_set_back(
    store: Store, hands: Hands, name: str, most: int
) -> None:
    job = await start_one(store)
    highest = job.id // hands.shards if name == "ids" else job.fence
    hands.do("SET", hands.home(name), 10**17)

    message = f"the last of {name} is {10**17}, but the highest there can be is {most}"
    await mended(store, "bad-value", message, f"set it to {highest}")


async def test_a_request_to_end_that_says_nothing_is_asked_again(
    store: Store, hands: Hands
) -> None:
    job = await start_one(store)
    await store.cancel([job.id], reason="enough")
    hands.do("HSET", hands.home("cancelling"), job.id, "garbage")

    message = f"job {job.id} was asked to end with 'garbage', which says nothing"
    await mended(store, "bad-value", message, "ask it without a reason")

    assert list((await store.renew(RenewRequest("w1", runs=[job]))).cancel) == [job.id]


async def test_progress_that_cannot_be_read_is_forgotten(
    store: Store, hands: Hands
) -> None:
    job = await start_one(store)
    await store.progress([Progress(job.id, 10)])
    hands.do("HSET", hands.of_type("progress"), job.id, "garbage")

    key = hands.of_type("progress")
    message = f"key {key} has '{job.id}' with the value 'garbage', "
    await mended(
        store, "bad-value", f"{message}which Kue does not write", "take it out"
    )


async def test_a_line_of_a_log_that_cannot_be_read_is_taken_out(
    store: Store, hands: Hands
) -> None:
    job_id = await add_one(store)
    await store.log(job_id, [LogLine("one"), LogLine("two")])
    log = hands.record(job_id, "log")
    hands.do("LINSERT", log, "BEFORE", hands.do("LINDEX", log, -1), "x")

    message = f"the log of job {job_id} has a line that cannot be read: 'x'"
    await mended(store, "bad-value", message, "take it out")

    assert [line.text for line in await store.logs(job_id)] == ["one", "two"]


@pytest.mark.parametrize("score", ["-inf", "inf", "1e300", "-7", "0.5"])
async def test_times_of_jobs_that_are_no_times_are_set_right(
    store: Store, hands: Hands, score: str
) -> None:
    now = await store.now()
    job_id = await add_one(store, expires="1h", now=now)
    hands.do("ZADD", hands.of_type("expires"), score, job_id)
    written = {"1e300": "1.0000000000000001e+300"}.get(score, score)

    right = now + 3_600_000
    message = f"job {job_id} is in expires with the score {written}, where {right} is "
    await mended(store, "bad-score", f"{message}right", f"set it to {right}")


async def test_a_held_job_takes_its_turn_in_its_group(
    store: Store, hands: Hands
) -> None:
    await store.limit("email", Limits(per_key=1))
    await add_one(store, group="g")
    held = await add_one(store, group="g")
    await claim(store)
    hands.do("ZADD", hands.of_type("held:g"), -7, held)

    right = hands.line_score(held)
    message = f"job {held} is in held:g with the score -7, where {right} is right"
    await mended(store, "bad-score", message, f"set it to {right}")


async def test_a_dependant_takes_its_turn(store: Store, hands: Hands) -> None:
    parent = await add_one(store, delay="1h")
    child = await add_one(store, after=[parent])
    hands.do("ZADD", hands.record(parent, "then"), -7, child)

    message = (
        f"job {child} is in job:{parent}:then with the score -7, where {child} is "
    )
    await mended(store, "bad-score", f"{message}right", f"set it to {child}")


async def test_a_unique_key_is_freed_in_time(store: Store, hands: Hands) -> None:
    now = await store.now()
    await job_in(store, State.COMPLETE, unique="k", unique_for="1h", now=now)
    hands.do("ZADD", hands.of_type("lapse"), "inf", "k")

    message = "unique key 'k' of 'email' is to be freed at inf, which is not a time"
    await mended(store, "bad-score", message, f"free it at {now + 3_600_000}")


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
    await mended(store, "bad-score", message, "sweep it then")

    hands.do("ZADD", fading, 5, "user:b")
    message = "the record 'user:b' is to be swept at 5, but has no end"
    await mended(store, "bad-score", message, "do not sweep it")

    hands.do("ZADD", fading, 5, "user:c")
    message = "the record 'user:c' is to be swept, but is not there"
    await mended(store, "bad-score", message, "do not sweep it")


async def test_news_that_nobody_can_carry_is_taken_from_the_outbox(
    store: Store, hands: Hands
) -> None:
    """A dependant must not be cancelled because of it."""
    parent = await add_one(store, delay="1h")
    await add_one(store, after=[parent])
    hands.do("HSET", hands.home("outbox"), f"rest:{parent}", "garbage")

    message = (
        f"the outbox has 'rest:{parent}' with 'garbage', which upkeep cannot carry"
    )
    await mended(store, "stray-entry", f"{message} to any job", "take it out")


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
