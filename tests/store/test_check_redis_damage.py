"""`check` of a Redis store: damage that nobody thought of."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from kue.model.job import Completed, Retried, State
from kue.store.contract import Store
from kue.store.values import Limits, LogLine, Progress
from tests.support.hands import Hands
from tests.support.jobs import (
    OOPS,
    add_many,
    add_one,
    claim,
    end,
    job_in,
)

#: Each is another story of damage, the same every time.
SEEDS = range(12)
GARBAGE = [
    b"",
    b"\xff\x00\xfe",
    b"1:2:3",
    b"-7",
    b"1e400",
    b"\xd9\xa1",
    b"a\tb\nc:d",
    b"0",
]

pytestmark = [
    pytest.mark.damages,
    pytest.mark.parametrize("engine", ["redis", "redis-shards"], indirect=True),
]


async def live_a_life(store: Store) -> None:
    """Bring a job of every kind into every state."""
    await store.limit("email", Limits(per_key=1))
    now = await store.now()
    for number, state in enumerate(State):
        for job_type in ("email", "parent"):
            job_id = await job_in(
                store,
                state,
                job_type,
                now=now,
                priority=-number,
                unique=f"k{number}",
                unique_for="1h" if number % 2 else 0,
                expires="1h",
                ttl="1h",
                retention="1h",
                attempts=3,
            )
            await store.log(job_id, [LogLine("hello")])
    ids = await add_many(store, 3, priority="high", group="g", attempts=2, now=now)
    await add_many(store, 3, after=ids, now=now)
    await add_many(store, 2, "parent", after=ids[1:], on_parent_failure="run", now=now)
    [job, *_] = await claim(store, limit=3, now=now)
    await store.progress([Progress(job.id, 5)], now=now)
    await store.cancel([job.id], now=now)
    again = await add_one(store, "sms", attempts=3, now=now)
    [run] = await claim(store, "sms", now=now)
    assert run.id == again
    await end(store, run, Retried(OOPS), now=now)
    await add_one(store, "sms", priority="high", now=now)
    [run] = await claim(store, "sms", limit=1, now=now)
    await end(store, run, Completed({"x": 1}), now=now)


def spoil(hands: Hands, random: Random) -> str:
    """Do one thing to one key that nobody should, and say what."""
    key = random.choice(sorted(hands.everything()))
    while key.endswith(b":meta"):
        key = random.choice(sorted(hands.everything()))
    kind = hands.do("TYPE", key).decode()
    command = random.choice(_WAYS[kind])(hands, key, random)
    hands.do(*command)
    return " ".join(map(repr, command))


def garbage(random: Random) -> bytes:
    return random.choice(GARBAGE)


def string_ways(hands: Hands, key: bytes, random: Random) -> tuple[Any, ...]:
    text: bytes = hands.do("GET", key)
    at = random.randrange(len(text) + 1)
    return random.choice(
        [
            ("DEL", key),
            ("SET", key, garbage(random)),
            ("SET", key, text[:at]),
            ("SET", key, text[:at] + garbage(random) + text[at:]),
            ("EXPIRE", key, 1000),
        ]
    )


def hash_ways(hands: Hands, key: bytes, random: Random) -> tuple[Any, ...]:
    field = random.choice(sorted(hands.redis.hkeys(key)))
    return random.choice(
        [
            ("DEL", key),
            ("HDEL", key, field),
            ("HSET", key, field, garbage(random)),
            ("HSET", key, garbage(random), "1"),
            ("HSET", key, random.randrange(100), "1:0"),
            ("EXPIRE", key, 1000),
        ]
    )


def zset_ways(hands: Hands, key: bytes, random: Random) -> tuple[Any, ...]:
    member = random.choice(sorted(hands.redis.zrange(key, 0, -1)))
    score = random.choice(["-inf", "inf", 0, 1.5, -3, 2**52])
    return random.choice(
        [
            ("DEL", key),
            ("ZREM", key, member),
            ("ZADD", key, score, member),
            ("ZADD", key, score, garbage(random)),
            ("ZADD", key, score, random.randrange(100)),
            ("EXPIRE", key, 1000),
        ]
    )


def set_ways(hands: Hands, key: bytes, random: Random) -> tuple[Any, ...]:
    member = random.choice(sorted(hands.redis.smembers(key)))
    return random.choice(
        [
            ("DEL", key),
            ("SREM", key, member),
            ("SADD", key, random.randrange(100)),
            ("SADD", key, garbage(random)) if b":after" in key else ("DEL", key),
        ]
    )


def list_ways(hands: Hands, key: bytes, random: Random) -> tuple[Any, ...]:
    return random.choice([("DEL", key), ("RPUSH", key, garbage(random))])


_WAYS = {
    "string": [string_ways],
    "hash": [hash_ways],
    "zset": [zset_ways],
    "set": [set_ways],
    "list": [list_ways],
}


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_repair_leaves_nothing_that_it_says_it_can_repair(
    store: Store, hands: Hands, seed: int
) -> None:
    await live_a_life(store)
    assert (await store.check()).findings == ()
    random = Random(seed)
    done = [spoil(hands, random) for _ in range(random.choice([1, 3, 10, 30]))]

    # A repair may reveal other damage: a job in a state again needs its entries.
    for _ in range(3):
        report = await store.check(repair=True)
        if all(finding.repaired for finding in report.findings):
            break

    left = [finding for finding in (await store.check()).findings if finding.repair]
    assert left == [], done
