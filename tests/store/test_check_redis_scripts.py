"""``doctor_inspect`` and ``doctor_repair``: a repair rests on what is still so."""

from __future__ import annotations

from typing import Any

import pytest

from kue.store.contract import Store
from kue.store.redis.scripts import load
from kue.store.values import RenewRequest
from tests.support.hands import Hands
from tests.support.jobs import add_one, start_one

pytestmark = [
    pytest.mark.damages,
    pytest.mark.parametrize("engine", ["redis"], indirect=True),
]


def run(hands: Hands, script: str, *args: Any) -> Any:
    root = hands.home("")[:-1]
    return hands.do("EVAL", load(script).source, 1, root, "", 1, 0, *args)


def look(hands: Hands, job_id: int) -> tuple[bytes, list[bytes]]:
    [_, [digest, facts]] = run(hands, "doctor_inspect", 3, "job", job_id, 0)
    return digest, facts


async def test_a_repair_is_carried_out_while_nothing_has_changed(
    store: Store, hands: Hands
) -> None:
    job_id = await add_one(store)
    digest, _ = look(hands, job_id)

    command = (3, "DEL", "a", "b")
    assert run(hands, "doctor_repair", digest, 3, "job", job_id, 0, *command) == b"done"


@pytest.mark.parametrize("command", ["ZADD", "ZREM"])
async def test_a_repair_is_not_carried_out_when_the_job_has_moved(
    store: Store, hands: Hands, command: str
) -> None:
    job_id = await add_one(store)
    digest, _ = look(hands, job_id)
    await store.cancel([job_id])
    before = hands.everything()

    words = [command, hands.of_type("waiting"), *([1] * (command == "ZADD")), job_id]
    word = run(hands, "doctor_repair", digest, 3, "job", job_id, 0, len(words), *words)

    assert word == b"changed"
    assert hands.everything() == before


async def test_a_repair_stops_at_what_redis_refuses(store: Store, hands: Hands) -> None:
    job_id = await add_one(store)
    digest, _ = look(hands, job_id)
    refused = (4, "ZADD", hands.record(job_id), 1, job_id)
    after_that = (3, "ZREM", hands.of_type("waiting"), job_id)
    before = hands.everything()

    word = run(
        hands, "doctor_repair", digest, 3, "job", job_id, 0, *refused, *after_that
    )

    assert word == b"refused"
    assert hands.everything() == before


async def test_what_changes_all_the_time_does_not_change_the_digest(
    store: Store, hands: Hands
) -> None:
    """Heartbeats and progress must not stop a repair."""
    job = await start_one(store, ttl="1h")
    digest, facts = look(hands, job.id)
    await store.renew(RenewRequest("w1", lease=20_000))
    hands.do("ZADD", hands.of_type("ttl"), 5, job.id)

    assert look(hands, job.id) == (digest, facts)


async def test_several_things_are_looked_at_in_one_call(
    store: Store, hands: Hands
) -> None:
    job_id = await add_one(store, unique="k")

    [now, *seen] = run(
        hands,
        "doctor_inspect",
        *(2, "value", "ids"),
        *(3, "unique", "email", "k"),
        *(2, "groups", "email"),
        *(3, "entry", "types", "email"),
        *(3, "entry", "types", "sms"),
        *(3, "keys", "types", "set"),
        *(3, "keys", "types", "zset"),
    )

    assert abs(now - await store.now()) < 5_000
    assert [facts for _, facts in seen] == [
        [str(job_id).encode()],
        [f"{job_id}:0".encode(), b"waiting", b"1", b"0"],
        [],
        [b"1"],
        [],
        [],
        [b"types", b"set", b"0"],
    ]
