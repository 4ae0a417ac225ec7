"""An hour of a busy shop, written into a store as if it had just been."""

from __future__ import annotations

import random
from typing import NamedTuple

from msgspec.structs import replace

import kue
from kue import Kue, LimitRule, StoredLimit, rate
from kue.model.draft import draft
from kue.model.histogram import Timing, bucket
from kue.model.job import (
    Cancelled,
    Completed,
    Draft,
    Ending,
    Error,
    Failed,
    Job,
    PriorityGiven,
)
from kue.model.schedule import Tick
from kue.store.contract import Store
from kue.store.values import (
    Limits,
    LogLine,
    Outcome,
    PauseRequest,
    Progress,
    RenewRequest,
)
from tests.support.jobs import HOUR, MINUTE, SECOND, add, add_many, claim
from tests.support.schedules import moment

TYPES = ("email", "invoice", "report", "thumbnail", "webhook")
WORKERS = ("press-1", "press-2")
PAUSED = "newsletter"
ANNOUNCEMENT = "announce the spring sale"
#: How the last jobs of a schedule ended, or why there was none.
TICKS = (
    "complete",
    "failed",
    "complete",
    "cancelled",
    "removed",
    "missed",
    "overlap",
    "",
)
LOST = "press-0"
#: Minutes that are written down.
MINUTES = 60
#: What goes wrong, and how often.
ERRORS = {
    "webhook": Error(
        "TimeoutError",
        "https://old.example.net/notify did not answer within 5 s",
        'Traceback (most recent call last):\n  File "shop/hooks.py", line 41, in send\n'
        "    answer = await client.post(url, json=order)\n"
        "TimeoutError: https://old.example.net/notify did not answer within 5 s",
    ),
    "thumbnail": Error("ValueError", "photo 1182.jpg is not a picture"),
    "invoice": Error("ConnectionError", "the bank did not answer"),
}
FAILING = 0.06


class Made(NamedTuple):
    """Jobs worth a look of their own."""

    failed: int
    running: int
    delayed: int
    held: int
    flow: int


async def keep_busy(q: Kue) -> Made:
    """Write the last hour of the shop into the store of *q*."""
    store, now = q.store, await q.now()
    chance = random.Random(5)
    failed = 0
    for minute in range(MINUTES, 0, -1):
        failed = await _minute(store, now - minute * MINUTE, chance) or failed
    await _workers(store, now)
    running = await _running(store, now)
    await add_many(store, 14, "email", now=now - 20 * SECOND, priority="high")
    await add_many(store, 23, PAUSED, now=now - 9 * MINUTE, tags=["spring"])
    [delayed, *_] = await add_many(store, 6, "invoice", now=now, delay="2h")
    await add_many(store, 3, "report", now=now, after=[running])
    [unwanted, *_] = await add_many(store, 2, "report", now=now)
    await store.cancel([unwanted], now=now)
    await store.pause(
        PauseRequest(PAUSED, by="mara", reason="the subject line is being checked"),
        now=now - MINUTE,
    )
    await store.limit("webhook", Limits(concurrency=8, rate=50))
    await _schedules(q, now)
    held = await _limits(q, now)
    return Made(failed, running, delayed, held, await _flows(store, now))


async def _flows(store: Store, now: int) -> int:
    """Have a flow with a failed job, and a batch half done; return the flow."""
    shop = Kue(store=store)

    @shop.task(name="fetch order")
    async def fetch(number: int) -> None: ...

    @shop.task
    async def pack(order: int, item: int) -> None: ...

    @shop.task
    async def ship(parcels: list[int]) -> None: ...

    items = kue.group(*(pack.s(item) for item in range(12)), fetch.si(8) | pack.s(99))
    flow = await (fetch.s(7) | items | ship.s() | fetch.si(9)).enqueue()
    for type, number in (("fetch order", 1), ("pack", 10), ("fetch order", 1)):
        await _end(store, type, number, Completed({"order": 7}), now)
    await _end(store, "pack", 1, Failed(ERRORS["invoice"]), now)
    await kue.batch("spring catalogue").enqueue(pack.s(7, item) for item in range(30))
    await _end(store, "pack", 20, Completed(), now)
    await kue.batch(allow_failures=True).enqueue([pack.s(8, 1)])
    return flow.flow


async def _end(store: Store, type: str, number: int, ending: Ending, now: int) -> None:
    jobs = await claim(store, type, limit=number, now=now, worker="press-1", lease=HOUR)
    await store.settle([Outcome(job, ending) for job in jobs], now=now)


async def _limits(q: Kue, now: int) -> int:
    """Have named limits, with jobs that run and wait; return one that waits."""
    declared = LimitRule(concurrency=5)
    changed = StoredLimit(LimitRule(concurrency=2), declared)
    await q.store.set_named_limit("stripe", changed)
    await q.store.set_named_limit("bank", StoredLimit(declared, declared))
    await q.set_limit("calls of a customer", rate("3/1h"))
    for number in range(8):
        limits = {"stripe": "", "calls of a customer": f"customer {number % 2}"}
        await add_many(q.store, 1, "charge", now=now, limited_by=limits)
    await claim(q.store, "charge", worker="press-2", lease=HOUR, limit=9, now=now)
    [held, *_] = await add_many(
        q.store, 5, "call", now=now, limited_by={"calls of a customer": "customer 7"}
    )
    await claim(q.store, "call", worker="press-2", lease=HOUR, limit=9, now=now)
    return held + 4


async def _schedules(q: Kue, now: int) -> None:
    """Have schedules of each kind, one of them with something of every outcome."""
    draft = q.draft("report", {"shop": "north", "password": "x"}, attempts=3)
    nightly = await q.schedule(
        "nightly report", draft, cron="0 3 * * *", overlap="skip"
    )
    ticks = tuple(
        Tick(now - (9 - number) * HOUR, now - (9 - number) * HOUR + 400, outcome, 1_200)
        for number, outcome in enumerate(TICKS)
    )
    assert await q.store.schedule(replace(nightly, ticks=ticks), expected=nightly)
    first = moment(now + HOUR)
    await q.schedule("sync stock", q.draft("webhook"), every="10m", start=first)
    await q.pause_schedule("sync stock")
    await q.schedule(ANNOUNCEMENT, q.draft(PAUSED), at=moment(now + 30 * HOUR))


async def _minute(store: Store, now: int, chance: random.Random) -> int:
    """Let a minute pass; return a job that failed in it."""
    orders = [_order(chance) for _ in range(chance.randint(14, 30))]
    await add(store, orders, now=now)
    worker = chance.choice(WORKERS)
    jobs = await claim(store, *TYPES, limit=50, worker=worker, now=now + SECOND)
    outcomes = [Outcome(job, _ending(job, chance)) for job in jobs]
    await store.settle(outcomes, now=now + 2 * SECOND)
    await store.measure([_timing(type, jobs, chance) for type in TYPES], now=now)
    failed = [one.job.id for one in outcomes if isinstance(one.ending, Failed)]
    return failed[-1] if failed else 0


def _order(chance: random.Random) -> Draft:
    number = chance.randint(1000, 9999)
    data = {
        "order": number,
        "customer": {"name": chance.choice(["Ann", "Bob", "Cleo"]), "password": "x"},
        "lines": [{"sku": f"A-{number % 7}", "count": number % 4 + 1}],
    }
    levels: list[PriorityGiven] = ["low", "normal", "normal", "high", "critical"]
    priority = chance.choice(levels)
    shop = chance.choice(["north", "south"])
    type = chance.choice(TYPES)
    return draft(type, data, priority=priority, tags=[shop], group=shop)


def _ending(job: Job, chance: random.Random) -> Ending:
    if job.type in ERRORS and chance.random() < FAILING:
        return Failed(ERRORS[job.type])
    if chance.random() < FAILING / 3:
        return Cancelled("the customer changed their mind")
    return Completed({"status": 204, "sent": ["receipt", "copy"]})


def _timing(type: str, jobs: list[Job], chance: random.Random) -> Timing:
    count = sum(job.type == type for job in jobs)
    waits: dict[int, int] = {}
    runs: dict[int, int] = {}
    for _ in range(count):
        wait, run = bucket(chance.lognormvariate(4, 1)), bucket(chance.gauss(400, 90))
        waits[wait] = waits.get(wait, 0) + 1
        runs[run] = runs.get(run, 0) + 1
    return Timing(type, waits, runs)


async def _workers(store: Store, now: int) -> None:
    for number, worker in enumerate(WORKERS, 1):
        await store.renew(
            RenewRequest(
                worker,
                lease=HOUR,
                info={
                    "host": f"shop-{number}",
                    "pid": 4100 + number,
                    "version": "0.4.0",
                    "started_at": now - 3 * HOUR,
                    "slots": dict.fromkeys(TYPES, 4),
                    "done": 1840 * number,
                    "memory": 61_000_000 + number * 7_000_000,
                    "lag_ms": 1.4 * number,
                    "blocked": number - 1,
                    "blocked_at": "shop/pictures.py:88" if number > 1 else None,
                },
            ),
            now=now,
        )


async def _running(store: Store, now: int) -> int:
    """Let jobs run; return one that says how far it is."""
    ago = now - 48 * SECOND
    await add_many(store, 5, "report", now=ago, tags=["monthly"])
    jobs = await claim(store, "report", worker="press-1", lease=HOUR, now=ago)
    for number, job in enumerate(jobs, 1):
        share = Progress(job.id, 17 * number, {"page": number}, token=job.token)
        await store.progress([share], now=now)
    lines = [LogLine(f"page {number} of 40 is set") for number in range(1, 19)]
    await store.log(jobs[1].id, [*lines, LogLine("no logo", "warning")], now=now)
    await add_many(store, 1, "thumbnail", now=now - HOUR)
    await claim(store, "thumbnail", worker=LOST, lease=SECOND, now=now - 5 * MINUTE)
    return jobs[1].id
