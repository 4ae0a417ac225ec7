"""A run is handed out once and ended once, however often the answers are lost."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random

import pytest

from kue.model.draft import draft
from kue.model.job import Completed, Failed, Job, Retried, State
from kue.store.contract import Store
from kue.store.values import (
    Claim,
    ClaimRequest,
    LogLine,
    Outcome,
    Progress,
    RenewRequest,
    Result,
)
from tests.support.jobs import OOPS, count_of, get_many, get_one, outcomes
from tests.support.proxy import Fate, Proxy

LOSSES = (Fate.CUT_BEFORE, Fate.CUT_AFTER, Fate.MUTE)


async def claim(store: Store, seq: int, limit: int = 5, lane: str = "a") -> list[Job]:
    claimed = await store.claim(
        ClaimRequest(
            ["email"], limit, worker="w1", claim=Claim(lane, seq), lease=60_000
        )
    )
    return claimed.jobs


async def fill(store: Store, count: int) -> list[int]:
    """Add jobs by the store's own clock, as everything here happens."""
    added = await store.add(
        [draft("email", {"i": number}, attempts=3) for number in range(count)],
        producer=f"filler-{count}",
        seq=1,
    )
    return [one.id for one in added]


@pytest.mark.parametrize("fate", LOSSES)
async def test_a_claim_whose_answer_is_lost_takes_its_jobs_once(
    proxied: Store, direct: Store, proxy: Proxy, fate: Fate
) -> None:
    ids = await fill(direct, 20)
    proxy.plan(fate, fate)

    jobs = await claim(proxied, seq=1)

    assert proxy.struck[fate] == 2
    assert [job.id for job in jobs] == ids[:5]
    assert {job.attempts for job in jobs} == {1}
    assert await count_of(direct) == {State.ACTIVE: 5, State.WAITING: 15}
    assert (await get_one(direct, ids[0])).token == jobs[0].token


@pytest.mark.parametrize("fate", LOSSES)
@pytest.mark.parametrize(
    ("ending", "state"),
    [
        (Completed("fine"), State.COMPLETE),
        (Failed(OOPS), State.FAILED),
        (Retried(OOPS, 60_000), State.DELAYED),
        (Retried(OOPS), State.WAITING),
    ],
    ids=["complete", "failed", "delayed", "waiting"],
)
async def test_a_settle_whose_answer_is_lost_ends_its_run_once(
    proxied: Store,
    direct: Store,
    proxy: Proxy,
    fate: Fate,
    ending: Completed | Failed | Retried,
    state: State,
) -> None:
    await fill(direct, 1)
    [job] = await claim(proxied, seq=1)
    proxy.plan(fate)

    [word] = await proxied.settle([Outcome(job, ending)])

    # The first one was done, and its repetition reports that.
    assert word is (Result.DONE if fate is Fate.CUT_BEFORE else Result.ALREADY)
    after = await get_one(direct, job.id)
    assert (after.state, after.attempts, len(after.history)) == (state, 1, 1)


@pytest.mark.parametrize("fate", LOSSES)
async def test_a_cycle_whose_answer_is_lost_ends_and_starts_once(
    proxied: Store, direct: Store, proxy: Proxy, fate: Fate
) -> None:
    ids = await fill(direct, 10)
    first = await claim(proxied, seq=1)
    proxy.plan(fate, fate)

    words, claimed = await proxied.cycle(
        [Outcome(job, Completed(None)) for job in first],
        ClaimRequest(["email"], 5, worker="w1", claim=Claim("a", 2)),
    )

    assert set(words) <= {Result.DONE, Result.ALREADY}
    assert [job.id for job in claimed.jobs] == ids[5:]
    assert await count_of(direct) == {State.COMPLETE: 5, State.ACTIVE: 5}


async def test_a_claim_that_arrives_late_takes_nothing(
    proxied: Store, direct: Store, proxy: Proxy
) -> None:
    ids = await fill(direct, 20)
    proxy.plan(Fate.HOLD, Fate.HOLD)
    first = await claim(proxied, seq=1)

    await proxy.release()
    again = await count_of(direct)
    second = await claim(proxied, seq=2)
    await proxy.release()

    assert [job.id for job in first + second] == ids[:10]
    assert again == {State.ACTIVE: 5, State.WAITING: 15}
    assert await count_of(direct) == {State.ACTIVE: 10, State.WAITING: 10}


async def test_a_cycle_that_arrives_late_cannot_end_the_next_run(
    proxied: Store, direct: Store, proxy: Proxy
) -> None:
    await fill(direct, 1)
    [first] = await claim(proxied, seq=1)
    proxy.plan(Fate.HOLD)
    await proxied.settle([Outcome(first, Retried(OOPS))])
    [second] = await claim(proxied, seq=2)

    await proxy.release()

    after = await get_one(direct, first.id)
    assert (after.state, after.token) == (State.ACTIVE, second.token)
    assert len(after.history) == 1


@pytest.mark.parametrize("seed", range(4))
async def test_lanes_in_random_trouble_run_each_job_once(
    proxied: Store, direct: Store, proxy: Proxy, seed: int
) -> None:
    ids = await fill(direct, 400)
    random = Random(seed)
    proxy.draw(random, {Fate.CUT_BEFORE: 0.1, Fate.CUT_AFTER: 0.2, Fate.MUTE: 0.01})
    handed_out: Counter[int] = Counter()
    words: Counter[Result] = Counter()

    async def work(lane: str) -> None:
        ended: list[Outcome] = []
        for seq in range(1, 400):
            said, claimed = await proxied.cycle(
                ended,
                ClaimRequest(
                    ["email"], 8, worker="w1", claim=Claim(lane, seq), lease=60_000
                ),
            )
            words.update(said)
            handed_out.update(job.id for job in claimed.jobs)
            ended = [Outcome(job, Completed(job.id)) for job in claimed.jobs]
            if not ended:
                return

    await asyncio.gather(*(work(f"lane-{number}") for number in range(3)))

    assert proxy.struck[Fate.CUT_AFTER] > 3
    assert handed_out == Counter(ids)
    assert words.keys() <= {Result.DONE, Result.ALREADY}
    assert await count_of(direct) == {State.COMPLETE: 400}
    for job in await get_many(direct, ids):
        assert outcomes(job) == ["complete"]


async def test_heartbeats_and_progress_survive_lost_answers(
    proxied: Store, direct: Store, proxy: Proxy
) -> None:
    await fill(direct, 3)
    jobs = await claim(proxied, seq=1)
    await direct.cancel([jobs[0].id])
    proxy.draw(Random(3), {Fate.CUT_AFTER: 0.4})

    for percent in range(1, 21):
        renewed = await proxied.renew(
            RenewRequest("w1", runs=jobs, info={"n": percent})
        )
        update = Progress(jobs[1].id, percent, token=jobs[1].token)
        assert await proxied.progress([update]) == [Result.DONE]
        assert (renewed.lost, renewed.cancel) == ([], {jobs[0].id: ""})

    assert proxy.struck[Fate.CUT_AFTER] > 5
    assert (await get_one(direct, jobs[1].id)).progress == 20
    [worker] = await direct.workers()
    assert worker.info == {"n": 20}


@pytest.mark.parametrize("fate", LOSSES)
async def test_log_lines_whose_answer_is_lost_are_written_once(
    proxied: Store, direct: Store, proxy: Proxy, fate: Fate
) -> None:
    """Saying the same thing twice is the same as saying it once."""
    [job_id] = await fill(direct, 1)
    proxy.plan(fate, fate)

    word = await proxied.log(job_id, [LogLine("one"), LogLine("two")])

    assert word is Result.DONE
    assert [line.text for line in await direct.logs(job_id)] == ["one", "two"]
