"""`check` of a Redis store: a table of damages, what is found, and the repairs."""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from msgspec.structs import replace

from kue.model.draft import draft
from kue.model.job import Retried, Stalled, State
from kue.model.named_limits import LimitRule, StoredLimit
from kue.store.contract import Store
from kue.store.redis.store import RedisStore
from kue.store.values import Limits, MoveRequest, Progress, RemoveRequest
from tests.support.hands import Damage, Hands, Names, check_reply, read_damages
from tests.support.jobs import (
    HOUR,
    OOPS,
    T0,
    add_many,
    add_one,
    claim,
    claim_ids,
    end,
    get_one,
    job_in,
    start_one,
    state_of,
)
from tests.support.schedules import every

pytestmark = [
    pytest.mark.damages,
    pytest.mark.parametrize("engine", ["redis", "redis-shards"], indirect=True),
]

Made = int | dict[str, Any]


async def running(store: Store, **options: Any) -> Made:
    job = await start_one(store, **options)
    return {"id": job.id, "number": job.fence, "run": job}


async def fresh(store: Store, **options: Any) -> Made:
    """Add a job by the clock of the engine."""
    now = await store.now()
    return {"id": await add_one(store, now=now, **options), "hour": now + HOUR}


async def gone(store: Store) -> Made:
    job_id = await add_one(store)
    await store.remove(RemoveRequest([job_id]))
    return job_id


async def cancelling(store: Store) -> Made:
    job = await start_one(store, ttl="1h")
    await store.cancel([job.id], reason="enough")
    return job.id


async def retried(store: Store) -> Made:
    job = await start_one(store)
    await end(store, job, Retried(OOPS))
    return {"id": job.id, "token": job.token}


async def stalled(store: Store) -> Made:
    job = await start_one(store, attempts=9)
    await end(store, job, Retried(OOPS))
    [job] = await claim(store)
    await end(store, job, Stalled(OOPS))
    return job.id


async def restarted(store: Store) -> Made:
    job = await start_one(store, attempts=9)
    await end(store, job, Stalled(OOPS))
    await store.cancel([job.id])
    await store.move(MoveRequest([job.id], State.WAITING))
    return job.id


async def held(store: Store) -> Made:
    """Have a job held because another of its group is running."""
    await store.limit("email", Limits(per_key=1), now=T0)
    first, second = await add_many(store, 2, group="a group")
    assert await claim_ids(store) == [first]
    assert (await get_one(store, second)).held
    return {"id": second, "first": first}


async def fair(store: Store) -> Made:
    """Have a job wait in a fair type, behind two of its group."""
    await store.limit("email", Limits(fair=True), now=T0)
    return (await add_many(store, 3, group="a", priority=5))[-1]


async def ageing(store: Store) -> Made:
    """Have a job wait in a type with ageing, where a step is an hour."""
    await store.limit("email", Limits(ageing=HOUR), now=T0)
    job_id = await add_one(store, priority=2)
    return {"id": job_id, "rank": 1000 * (T0 + 2 * HOUR)}


async def limited(store: Store, rate: int = 0) -> Made:
    """Have a job held because another one runs, or began to, under a named limit."""
    assert isinstance(store, RedisStore)
    rule = LimitRule(rate=rate, per=HOUR) if rate else LimitRule(concurrency=1)
    await store.set_named_limit("api", StoredLimit(rule), now=T0)
    first, second = await add_many(store, 2, limited_by={"api": "k"})
    assert await claim_ids(store) == [first]
    assert (await get_one(store, second)).held
    keys = store._db.keys[store._db.home_of("email")]
    structures = ("keys", "held:k", "running:k", "rate:k")
    names = {f"api_{name[:4]}": keys.of_limit("api", name) for name in structures}
    return {"id": second, "first": first, **names}


async def progressing(store: Store) -> Made:
    job = await start_one(store)
    await store.progress([Progress(job.id, 10)])
    return job.id


async def dependent(store: Store) -> Made:
    parent = await add_one(store, delay="30d", now=await store.now())
    child = await add_one(store, after=[parent], now=await store.now())
    return {"id": child, "parent": parent}


async def lasting(store: Store) -> Made:
    """Have a unique key outlast its job."""
    now = await store.now()
    job_id = await job_in(store, State.COMPLETE, unique="k", unique_for="1h", now=now)
    return {"id": job_id, "hour": now + HOUR}


async def third(store: Store) -> Made:
    return (await add_many(store, 3))[-1]


async def scheduled(store: Store, name: str = "nightly") -> Made:
    await store.schedule(every(name, "1h", draft("email"), first_at=T0))
    return {"id": 1, "name": name}


async def paused(store: Store) -> Made:
    hourly = every("nightly", "1h", draft("email"), first_at=T0)
    await store.schedule(replace(hourly, paused=True))
    return {"id": 1, "name": "nightly"}


JOBS: dict[str, Callable[..., Awaitable[Made]]] = {
    function.__name__: function
    for function in (
        *(running, fresh, gone, cancelling, retried, stalled, restarted, held),
        *(fair, ageing),
        limited,
        *(progressing, dependent, lasting, third, scheduled, paused),
    )
}
#: What rows may name as well.
TIMES = {
    "T0": T0,
    "T1": T0 + HOUR,
    "T2": T0 + 2 * HOUR,
    "before": T0 - HOUR,
    "most_ids": 2**41 - 1,
    "most_fence": 2**53 - 1,
}


async def make(store: Store, hands: Hands, jobs: str) -> Names:
    """Make jobs: "waiting priority=high, waiting"; the second is {other}."""
    first, _, second = jobs.partition(", ")
    names = Names(hands, await make_one(store, first))
    names |= TIMES
    [job] = await store.get([names["id"]])
    names["score"] = hands.line_score(names["id"], job.priority if job else 0)
    if second:
        other = await make_one(store, second)
        assert isinstance(other, int)
        names |= {"other": other, "other_score": hands.line_score(other)}
    return names


async def make_one(store: Store, job: str) -> Made:
    word, *settings = shlex.split(job)
    pairs = (setting.split("=") for setting in settings)
    options: dict[str, Any] = {
        name: int(value) if value.isdigit() else value for name, value in pairs
    }
    if word in JOBS:
        return await JOBS[word](store, **options)
    return await job_in(store, State(word), **options)


# -- what must be so in the end ------------------------------------------------


async def claimed(store: Store, names: Names) -> None:
    assert await claim_ids(store, now=await store.now()) == [names["id"]]


async def claimed_first(store: Store, names: Names) -> None:
    first, second = await claim_ids(store)
    assert (first, second) == (names["id"], names["other"])


async def claimed_other(store: Store, names: Names) -> None:
    assert await claim_ids(store) == [names["other"]]


async def runs_on(store: Store, names: Names) -> None:
    assert await store.get([names["id"]]) == [names["run"]]


async def next_id_is_new(store: Store, names: Names) -> None:
    assert await add_one(store) > names["id"]


async def key_can_be_held(store: Store, names: Names) -> None:
    assert await add_one(store, unique="k") != names["id"]


async def fires(store: Store, names: Names) -> None:
    assert (await store.tend(now=T0)).fired == 1


async def is_scheduled(store: Store, names: Names) -> None:
    assert [schedule.name for schedule in await store.schedules()] == [names["name"]]


async def second_attempt(store: Store, names: Names) -> None:
    [again] = await claim(store)
    assert (again.attempts, again.stalls) == (2, 1)


async def one_waits(store: Store, names: Names) -> None:
    assert (await store.count())["email"][State.WAITING] == 1


ENDS: dict[str, Callable[[Store, Names], Awaitable[None]]] = {
    function.__name__.replace("_", " "): function
    for function in (
        *(claimed, claimed_first, claimed_other, runs_on, next_id_is_new),
        *(key_can_be_held, fires, is_scheduled, second_attempt, one_waits),
    )
}


STATES = """
waiting, waiting | DEL {record} | claimed other
    no-record: job {id} is in waiting, but has no record -> take it out
gone | SETBIT {live} {sequence} 1 |
    no-record: job {id} is marked as living, but has no record -> unmark it
waiting | SETRANGE {record} 16 phone |
    bad-record: job {id} is in waiting of 'email', but its record says that its type is
    'phone'
waiting | ZADD {parked} {T0} {id} | waiting
    parked: job {id} is parked and in waiting -> keep it in waiting
waiting priority=high, waiting | ZREM {waiting} {id} | claimed first
    in-no-state: job {id} is in no state -> requeue it
waiting delivery=at-most-once | ZREM {waiting} {id} |
    in-no-state: job {id} is in no state -> requeue it
blocked | ZREM {blocked} {id} | blocked
    in-no-state: job {id} is in no state -> block it again, as it waits for others
cancelling | HDEL {active} {id} | claimed
    in-no-state: job {id} is in no state -> requeue it
running | ZADD {waiting} {score} {id} | runs on
    in-two-states: job {id} is in active and in waiting -> keep it in active
complete | ZADD {waiting} {score} {id}; ZADD {failed} {T0} {id} | complete
    in-two-states: job {id} is in waiting, complete and in failed -> keep it in complete
retried | HSET {active} {id} {token} |
    in-two-states: job {id} is in active and in waiting -> keep it in waiting
waiting delay=1h | ZADD {waiting} {score} {id}; ZADD {blocked} {id} {id} |
    in-two-states: job {id} is in waiting, delayed and in blocked -> keep it in waiting
running ttl=1h expires=1h | HSET {active} {id} '' | claimed
    bad-run: job {id} is active with the run '', which no worker can hold
    -> requeue it
running ttl=1h expires=1h | HSET {active} {id} garbage | claimed
    bad-run: job {id} is active with the run 'garbage', which no worker can hold
    -> requeue it
running ttl=1h expires=1h | HSET {active} {id} 1:2:3:w1:c.1 | claimed
    bad-run: job {id} is active with the run '1:2:3:w1:c.1', which no worker can hold
    -> requeue it
running ttl=1h expires=1h | HSET {active} {id} xxxxxxxxxxxxxxxx:1:1:w:c | claimed
    bad-run: job {id} is active with the run 'xxxxxxxxxxxxxxxx:1:1:w:c', which no worker
    can hold -> requeue it
"""

SCORES = """
waiting priority=high, waiting | ZADD {waiting} 5e15 {id} | claimed first
    bad-score: job {id} is in waiting with the score 5000000000000000, where {score} is
    right -> set it to {score}
fair | ZADD {waiting} 1 {id} |
    bad-score: job {id} is in waiting with the score 1, where {score} is right
    -> set it to {score}
fair | ZADD {fair} 1.5 5:a | ZCARD {fair} = 1
    bad-value: key {fair} has '5:a' with the score '1.5', which Kue does not write
    -> take it out
ageing | ZADD {waiting} 7 {id} |
    bad-score: job {id} is in waiting with the score 7, where {rank} is right
    -> set it to {rank}
held | ZADD {held} 1.5 {id} |
    bad-score: job {id} is in held with the score 1.5, where {score} is right
    -> set it to {score}
held | ZADD '{held}:a group' -7 {id} |
    bad-score: job {id} is in held:a group with the score -7, where {score} is right
    -> set it to {score}
blocked | ZADD {blocked} 0 {id} |
    bad-score: job {id} is in blocked with the score 0, where {id} is right
    -> set it to {id}
complete retention=1h | ZADD {complete} -inf {id} |
    bad-score: job {id} is in complete with the score -inf, where {T0} is right
    -> set it to {T0}
failed retention=1h | ZADD {failed} -inf {id} |
    bad-score: job {id} is in failed with the score -inf, where {T0} is right
    -> set it to {T0}
cancelled retention=1h | ZADD {cancelled} -inf {id} |
    bad-score: job {id} is in cancelled with the score -inf, where {T0} is right
    -> set it to {T0}
waiting delay=1h | ZADD {delayed} inf {id} | ZSCORE {delayed} {id} = {T1}
    bad-score: job {id} is in delayed with the score inf, where {T1} is right
    -> set it to {T1}
fresh expires=1h | ZADD {expires} -inf {id} |
    bad-score: job {id} is in expires with the score -inf, where {hour} is right
    -> set it to {hour}
fresh expires=1h | ZADD {expires} inf {id} |
    bad-score: job {id} is in expires with the score inf, where {hour} is right
    -> set it to {hour}
fresh expires=1h | ZADD {expires} 1e300 {id} |
    bad-score: job {id} is in expires with the score 1.0000000000000001e+300, where
    {hour} is right -> set it to {hour}
fresh expires=1h | ZADD {expires} -7 {id} |
    bad-score: job {id} is in expires with the score -7, where {hour} is right
    -> set it to {hour}
fresh expires=1h | ZADD {expires} 0.5 {id} |
    bad-score: job {id} is in expires with the score 0.5, where {hour} is right
    -> set it to {hour}
dependent | ZADD {list} -7 {id} |
    bad-score: job {id} is in job:{parent}:then with the score -7, where {id} is right
    -> set it to {id}
lasting | ZADD {lapse} inf k |
    bad-score: unique key 'k' of 'email' is to be freed at inf, which is not a time
    -> free it at {hour}
waiting | ZADD {agenda} inf email |
    bad-score: maintenance is to look at 'email' at inf, which is not a time
    -> have it looked at now
"""

ENTRIES = """
stalled | HSET {tries} {id} one:two | HGET {tries} {id} = 1:1; second attempt
    attempts-range: job {id} has tries of 'one:two', which are not numbers
    -> set them to 1:1, as in its history
restarted | HSET {tries} {id} x |
    attempts-range: job {id} has tries of 'x', which are not numbers
    -> set them to 0:0, as in its history
waiting attempts=3 | HSET {tries} {id} 3:0 |
    attempts-range: job {id} is in waiting with 3 attempts made of 3, and its history
    has 0
blocked | HSET {tries} {id} 1:0 | blocked
    stray-entry: job {id} is in blocked, but has an entry in tries -> take it out
waiting | HSET {progress} {id} '5\tnull' | waiting
    stray-entry: job {id} is in waiting, but has an entry in progress -> take it out
complete | HSET {progress} {id} '5\tnull' | complete
    stray-entry: job {id} is in complete, but has an entry in progress -> take it out
delayed | ZADD {ttl} {T0} {id} | delayed
    stray-entry: job {id} is in delayed, but has an entry in ttl -> take it out
active | ZADD {ttl} {T0} {id} | active
    stray-entry: job {id} is in active, but has an entry in ttl -> take it out
waiting | ZADD {expires} {T0} {id} | waiting
    stray-entry: job {id} is in waiting, but has an entry in expires -> take it out
active | ZADD {expires} {T0} {id} | active
    stray-entry: job {id} is in active, but has an entry in expires -> take it out
failed | ZADD {expires} {T0} {id} | failed
    stray-entry: job {id} is in failed, but has an entry in expires -> take it out
waiting | ZADD {retain_failed} {T0} {id} | waiting
    stray-entry: job {id} is in waiting, but has an entry in retain_failed
    -> take it out
cancelled | ZADD {retain_cancelled} {T0} {id} | cancelled
    stray-entry: job {id} is in cancelled, but has an entry in retain_cancelled
    -> take it out
gone | HSET {tries} {id} 1:0 |
    stray-entry: job {id} is gone, but has an entry in tries -> take it out
gone | HSET {progress} {id} '5\tnull' |
    stray-entry: job {id} is gone, but has an entry in progress -> take it out
gone | ZADD {ttl} {T0} {id} |
    stray-entry: job {id} is gone, but has an entry in ttl -> take it out
gone | ZADD {expires} {T0} {id} |
    stray-entry: job {id} is gone, but has an entry in expires -> take it out
gone | ZADD {retain_complete} {T0} {id} |
    stray-entry: job {id} is gone, but has an entry in retain_complete -> take it out
waiting | HSET {progress} {id} '5\tnull'; ZADD {ttl} 5 {id}; ZADD {expires} 5 {id} |
    stray-entry: job {id} is in waiting, but has an entry in progress, ttl and expires
    -> take it out
waiting | HSET {cancelling} {id} email |
    stray-entry: job {id} is in waiting, but has an entry in cancelling -> take it out
gone | HSET {cancelling} {id} email |
    stray-entry: job {id} is gone, but has an entry in cancelling -> take it out
waiting expires=2h | DEL {expires} | ZSCORE {expires} {id} = {T2}
    missing-entry: job {id} is in waiting and has its own time, but no entry in expires
    -> add it to expires
delayed expires=2h | DEL {expires} | ZSCORE {expires} {id} = {T2}
    missing-entry: job {id} is in delayed and has its own time, but no entry in expires
    -> add it to expires
blocked expires=2h | DEL {expires} | ZSCORE {expires} {id} = {T2}
    missing-entry: job {id} is in blocked and has its own time, but no entry in expires
    -> add it to expires
complete retention=2h | DEL {retain_complete} | ZSCORE {retain_complete} {id} = {T2}
    missing-entry: job {id} is in complete and has its own time, but no entry in
    retain_complete -> add it to retain_complete
failed retention=2h | DEL {retain_failed} | ZSCORE {retain_failed} {id} = {T2}
    missing-entry: job {id} is in failed and has its own time, but no entry in
    retain_failed -> add it to retain_failed
cancelled retention=2h | DEL {retain_cancelled} | ZSCORE {retain_cancelled} {id} = {T2}
    missing-entry: job {id} is in cancelled and has its own time, but no entry in
    retain_cancelled -> add it to retain_cancelled
progressing | HSET {progress} {id} garbage |
    bad-value: key {progress} has '{id}' with the value 'garbage', which Kue does not
    write -> take it out
waiting | HSET {outbox} end:x:y complete |
    stray-entry: the outbox has 'end:x:y', which maintenance cannot carry to any job
    -> take it out
dependent | HSET {outbox} rest:{parent} garbage |
    stray-entry: the outbox has 'rest:{parent}' with 'garbage', which maintenance cannot
    carry to any job -> take it out
waiting | ZADD {agenda} {T0} sms |
    unknown-type: maintenance is to look at 'sms', which is not a type -> take it out
"""

UNIQUE_KEYS_AND_GROUPS = """
fresh unique=a:key unique_for=1h | DEL {unique} | HGET {unique} a%3Akey = {id}:{hour}
    unique-drift: job {id} has the unique key 'a:key', but does not hold it
    -> have it hold the key
fresh unique=k unique_until=start | DEL {unique} | HGET {unique} k = {id}:0
    unique-drift: job {id} has the unique key 'k', but does not hold it
    -> have it hold the key
complete unique=k | HSET {unique} k {id}:1 |
    unique-drift: unique key 'k' of 'email' is held by job {id}, which is complete, and
    its time is over -> free it
failed unique=k | HSET {unique} k {id}:1 |
    unique-drift: unique key 'k' of 'email' is held by job {id}, which is failed, and
    its time is over -> free it
cancelled unique=k | HSET {unique} k {id}:1 |
    unique-drift: unique key 'k' of 'email' is held by job {id}, which is cancelled, and
    its time is over -> free it
waiting | HSET {unique} k {id}000:0 |
    unique-drift: unique key 'k' of 'email' is held by job {id}000, which is gone, and
    its time is over -> free it
waiting | HSET {unique} k nobody | HEXISTS {unique} k = 0; key can be held
    unique-drift: unique key 'k' of 'email' is held by 'nobody', which is not a job
    -> free it
waiting unique=mine | HSET {unique} yours {id}:0 |
    unique-drift: unique key 'yours' of 'email' is held by job {id}, which has another
    -> free it
waiting | ZADD {lapse} {T1} orphan%3A1 |
    unique-drift: unique key 'orphan:1' of 'email' is to be freed later, but nobody
    holds it -> take it out
waiting | ZADD {lapse} inf orphan |
    unique-drift: unique key 'orphan' of 'email' is to be freed later, but nobody holds
    it -> take it out
running 'group=a group' | HSET {running} 'a group' 7 |
    group-drift: group 'a group' of 'email' counts 7 running jobs, but 1 run
    -> set it to 1
running 'group=a group' | HSET {running} 'a group' 0 |
    group-drift: group 'a group' of 'email' counts 0 running jobs, but 1 run
    -> set it to 1
running 'group=a group' | HSET {running} 'a group' -1 |
    group-drift: group 'a group' of 'email' counts -1 running jobs, but 1 run
    -> set it to 1
running 'group=a group' | HSET {running} 'a group' many |
    group-drift: group 'a group' of 'email' counts many running jobs, but 1 run
    -> set it to 1
running group=g | DEL {running} |
    group-drift: group 'g' of 'email' counts no running jobs, but 1 run -> set it to 1
held | DEL {running} |
    group-drift: group 'a group' of 'email' counts no running jobs, but 1 run
    -> set it to 1
held | DEL '{held}:a group' | one waits; ZCARD {waiting} = 1
    held-drift: job {id} is in held, but not among those of its group or a limit
    -> requeue it
held | DEL {held} |
    held-drift: job {id} is among the held jobs of its group or a limit, but not in held
    -> requeue it
held, delayed | ZREM {delayed} {other}; ZADD {held} {other_score} {other} |
    held-drift: job {other} is in held, but not among those of its group or a limit
    -> requeue it
held | ZADD {held}:another 1 {first} |
    held-drift: job {first} is in active, but among the held jobs of another
    -> take it out there
held | DEL {limits} | claimed
    held-drift: job {id} is held, but its type has no limit for a group -> requeue it
"""

LIMITS = """
limited | DEL {api_held} | one waits; ZCARD {waiting} = 1
    held-drift: job {id} is in held, but not among those of its group or a limit
    -> requeue it
limited | DEL {held} | ZCARD {api_held} = 0
    held-drift: job {id} is among the held jobs of its group or a limit, but not in held
    -> requeue it
limited | ZADD {api_held} 1 {id} | ZSCORE {api_held} {id} = {score}
    bad-score: job {id} is held by limit api:k with the score 1, where {score} is right
    -> set it to {score}
limited | ZADD {api_held} 1 {first} | ZCARD {api_held} = 1
    held-drift: job {first} is in active, but among the held jobs of api:k
    -> take it out there
limited | DEL {api_runn} | ZCARD {api_runn} = 1
    limit-drift: job {first} is active, but not among the running jobs of limit api:k
    -> add it
limited | ZADD {api_runn} 1 {id} | ZCARD {api_runn} = 1
    limit-drift: job {id} is in held, but among the running jobs of limit api:k
    -> take it out
limited | HDEL {named_limits} api | claimed
    held-drift: job {id} is held by limit api:k, which has no rule -> requeue it
limited | SADD {api_keys} other | SCARD {api_keys} = 1
    stray-entry: limit 'api' lists the key 'other', under which no job runs or is held
    -> take it out
limited rate=1 | DEL {opens} | ZCARD {opens} = 1
    missing-entry: job {id} is held by the rate api:k, but its type has no entry in
    opens -> look at the rate again now
limited rate=1 | SET {api_rate} garbage | EXISTS {api_rate} = 0
    bad-value: key {api_rate} has 'garbage', which Kue does not write -> begin again
"""

KEYS_AND_DEPENDENCIES = """
waiting | EXPIRE {record} 1000 | TTL {record} = -1
    expiring-key: key {record} has a time to live, after which it would be lost
    -> keep it
third | SET {ids} 0 | GET {ids} = {sequence}; next id is new
    ids-behind: the last of ids is 0, but a job has {sequence} -> set it to {sequence}
third | SET {ids} many | GET {ids} = {sequence}; next id is new
    ids-behind: the last of ids is many, but a job has {sequence}
    -> set it to {sequence}
third | DEL {ids} | GET {ids} = {sequence}; next id is new
    ids-behind: the last of ids is 0, but a job has {sequence} -> set it to {sequence}
running | SET {fence} 1 | GET {fence} = {number}
    fence-behind: the last of fence is 1, but a run has {number} -> set it to {number}
running | SET {ids} 100000000000000000 | GET {ids} = {sequence}
    bad-value: the last of ids is 100000000000000000, but the highest there can be is
    {most_ids} -> set it to {sequence}
running | SET {fence} 100000000000000000 | GET {fence} = {number}
    bad-value: the last of fence is 100000000000000000, but the highest there can be is
    {most_fence} -> set it to {number}
dependent | DEL {after}; DEL {list}; SREM {parents} {parent} | claimed
    stuck-blocked: job {id} is blocked, but there is nothing that it waits for
    -> release it
dependent | SADD {after} nobody | blocked
    stuck-blocked: job {id} waits for 'nobody', which is not a job -> wait no longer
waiting, waiting | SADD {after} {other} |
    stray-link: job {id} is in waiting, but still lists what it waits for -> forget that
waiting | SADD {parents} {id} |
    stray-link: job {id} counts as one that others wait for, but nobody does
    -> forget that
failed | SADD {parents} {id} |
    stray-link: job {id} counts as one that others wait for, but nobody does
    -> forget that
complete | SADD {parents} {id} |
    stray-link: job {id} counts as one that others wait for, but nobody does
    -> forget that
gone | SADD {parents} {id} |
    stray-link: job {id} is gone, but counts as one that others wait for -> forget that
"""

SCHEDULES = """
scheduled | ZADD {due} {T1} nightly | ZSCORE {due} nightly = {T0}; fires
    schedule-drift: the schedule 'nightly' is to fire at {T1}, but its next time is {T0}
    -> have it fire at {T0}
scheduled | ZADD {due} {before} nightly | ZSCORE {due} nightly = {T0}; fires
    schedule-drift: the schedule 'nightly' is to fire at {before}, but its next time is
    {T0} -> have it fire at {T0}
scheduled | ZADD {due} inf nightly | ZSCORE {due} nightly = {T0}; fires
    schedule-drift: the schedule 'nightly' is to fire at inf, but its next time is {T0}
    -> have it fire at {T0}
scheduled | ZADD {due} 1.5 nightly | ZSCORE {due} nightly = {T0}; fires
    schedule-drift: the schedule 'nightly' is to fire at 1.5, but its next time is {T0}
    -> have it fire at {T0}
scheduled | ZADD {due} {T0} gone | is scheduled
    schedule-drift: a schedule 'gone' is to fire, but there is none -> take it out
paused | ZADD {due} {T0} nightly | ZCARD {due} = 0; is scheduled
    schedule-drift: the schedule 'nightly' is to fire, but is paused or has ended
    -> take it out
scheduled | HSET {schedules} nightly garbage |
    bad-record: the schedule 'nightly' cannot be read
"""

TABLES = (
    STATES,
    SCORES,
    ENTRIES,
    UNIQUE_KEYS_AND_GROUPS,
    KEYS_AND_DEPENDENCIES,
    LIMITS,
)


@pytest.mark.parametrize(
    "damage",
    [damage for table in (*TABLES, SCHEDULES) for damage in read_damages(table)],
    ids=lambda damage: f"{damage.jobs}: {damage.commands}",
)
async def test_damage_is_found_and_repaired(
    store: Store, hands: Hands, damage: Damage
) -> None:
    names = await make(store, hands, damage.jobs)
    await damage.check(store, hands, names)
    for wanted in damage.ends.split("; ") if damage.ends else ():
        if " = " in wanted:
            check_reply(hands, names, wanted)
        elif wanted in ENDS:
            await ENDS[wanted](store, names)
        else:
            assert await state_of(store, names["id"]) is State(wanted)
