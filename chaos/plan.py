"""
The plan of a run: jobs, faults and orders, drawn from a seed before the start.

The same engine, seed and length give the same plan, and a shorter run is the beginning
of a longer one.  Jobs, faults and orders are drawn by separate generators, so that a
new fault does not change the jobs.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
    from pathlib import Path

PRODUCERS = 2
#: Jobs per second, of all producers together.
RATE = 80.0
#: The most jobs one call of a producer adds.
MAX_CALL = 12
#: Seconds between two faults, and between two orders, on average.
FAULT_SECONDS = 0.8
ORDER_SECONDS = 0.28
#: Jobs that one order in bulk is for.
BULK = 20

#: Storm and calm: in the calm part of each period the store has no faults and workers
#: have fewer, so that recovery times can be measured.
PERIOD_SECONDS = 10.0
STORM_SECONDS = 5.5
CALM_SHARE = 0.5

#: The type whose jobs run in separate processes.
APART = "apart"
TYPES = ("quick", "slow", "rough", "threaded", APART)
#: More than the attempts or stalls of any job: always.
ALWAYS = 99


class Chore(msgspec.Struct, frozen=True, omit_defaults=True):
    """The specification of a job: what it does, and how it is added."""

    #: Identifies it before it has an id.
    key: str
    type: str
    #: See `chaos.app`.
    does: str
    seconds: float = 0.0
    #: How often it misbehaves before it succeeds.
    times: int = 0
    attempts: int = 1
    priority: int = 0
    delay: float = 0.0
    timeout: float = 0.0
    unique: str | None = None
    #: Delivered at most once.
    once: bool = False
    #: Once acknowledged, it must survive a fail-over.
    durable: bool = False


class Call(msgspec.Struct, frozen=True):
    """What a producer does at one time: one call, or several at once."""

    at: float
    #: "together" is one call per job, all at once; "bulk" is one call for all.
    how: str
    chores: tuple[Chore, ...]


class Fault(msgspec.Struct, frozen=True):
    """A fault: its time, kind and duration."""

    at: float
    kind: str
    seconds: float
    #: From 0 to 1: which of the workers that exist then.
    pick: float


class Order(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an operator does at one time."""

    at: float
    verb: str
    #: The job is picked among those in this state, from 0 to 1.
    state: str = ""
    pick: float = 0.0
    #: The type that is paused or resumed.
    type: str = ""

    @property
    def is_bulk(self) -> bool:
        return self.verb.endswith("_many")


class Plan(msgspec.Struct, frozen=True):
    """Everything that will be done in one run."""

    engine: str
    seed: int
    seconds: float
    #: What each producer does.
    calls: tuple[tuple[Call, ...], ...]
    faults: tuple[Fault, ...]
    orders: tuple[Order, ...]

    def write(self, path: Path) -> None:
        path.write_bytes(msgspec.json.encode(self))

    @classmethod
    def read(cls, path: Path) -> Plan:
        return msgspec.json.decode(path.read_bytes(), type=cls)


T = TypeVar("T", Call, Fault, Order)


async def in_time(steps: Sequence[T]) -> AsyncIterator[T]:
    """Yield each of *steps* at its time, or as soon as those before it are done."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    for step in steps:
        await asyncio.sleep(began + step.at - loop.time())
        yield step


class _Kind(NamedTuple):
    """A kind of job: how common it is, and the ranges its numbers are drawn from."""

    weight: float
    type: str
    does: str
    seconds: tuple[float, float] = (0.0, 0.0)
    times: tuple[int, int] = (0, 0)
    attempts: int = 2
    timeout: float = 0.0


_KINDS = (
    _Kind(50, "quick", "return", (0.0, 0.05)),
    _Kind(8, "quick", "raise", (0.0, 0.02), times=(1, 2), attempts=4),
    _Kind(3, "quick", "raise", times=(ALWAYS, ALWAYS), attempts=3),
    _Kind(2, "quick", "escape", times=(1, 1), attempts=2),
    _Kind(3, "quick", "release", (0.05, 0.6), times=(1, 2)),
    _Kind(3, "quick", "tell", (0.05, 0.2)),
    _Kind(8, "slow", "return", (0.1, 1.0)),
    # Longer than a lease: they depend on heartbeats.
    _Kind(3, "slow", "return", (2.0, 3.5)),
    _Kind(1, "slow", "return", (20.0, 20.0), timeout=0.5),
    _Kind(1, "slow", "ignore", (0.5, 2.0)),
    _Kind(6, "rough", "return", (0.0, 0.2)),
    _Kind(0.5, "rough", "block", (0.3, 2.2)),
    _Kind(0.3, "rough", "spin", (0.1, 0.8)),
    _Kind(0.25, "rough", "exit", (0.0, 0.3), times=(1, 1)),
    _Kind(0.04, "rough", "exit", times=(ALWAYS, ALWAYS)),
    _Kind(4, "threaded", "return", (0.0, 0.3)),
    _Kind(1, "threaded", "raise", times=(1, 1), attempts=3),
    _Kind(0.2, "threaded", "spin", (0.1, 0.8)),
    _Kind(4, APART, "return", (0.0, 0.3)),
    _Kind(0.2, APART, "spin", (0.1, 0.8)),
    _Kind(0.7, APART, "exit", times=(1, 1), attempts=3),
    _Kind(0.3, APART, "return", (20.0, 20.0), timeout=0.5),
)

#: The engine that loses acknowledged writes, by these faults, in this first part of a
#: run; for jobs added later all rules hold.
LOSSY = "lossy"
LOSSES = frozenset({"empty", "failover"})
LOSSY_SHARE = 0.6
#: The share of its jobs that must survive.
DURABLE_SHARE = 0.3

#: Kind of fault → how common it is, and the range of how long it lasts.
FaultKinds: TypeAlias = "Mapping[str, tuple[float, tuple[float, float]]]"
WORKER_FAULTS = {
    "kill": (30.0, (0.0, 0.0)),
    "stop": (24.0, (0.3, 4.0)),
    "terminate": (4.0, (0.0, 0.0)),
    "orphan": (3.0, (0.0, 0.0)),
}
STORE_FAULTS = {
    "redis": {
        "cut": (12.0, (0.0, 0.0)),
        "drop": (30.0, (0.2, 1.2)),
        "swallow": (6.0, (0.3, 1.5)),
        "flush": (10.0, (0.0, 0.0)),
        "client_kill": (10.0, (0.0, 0.0)),
        "client_pause": (8.0, (0.2, 1.5)),
        "redis_kill": (12.0, (0.05, 1.0)),
        "redis_stop": (12.0, (0.3, 2.5)),
    },
    "sentinel": {
        "flush": (10.0, (0.0, 0.0)),
        "client_kill": (12.0, (0.0, 0.0)),
        "client_pause": (8.0, (0.2, 1.5)),
        "redis_stop": (10.0, (0.3, 2.0)),
        "sentinel_kill": (10.0, (0.3, 2.0)),
        "failover": (24.0, (0.0, 0.5)),
    },
    "cluster": {
        "flush": (10.0, (0.0, 0.0)),
        "client_kill": (12.0, (0.0, 0.0)),
        "client_pause": (8.0, (0.2, 1.5)),
        "redis_stop": (10.0, (0.3, 2.0)),
        "redis_kill": (12.0, (0.05, 1.0)),
        "move_slot": (24.0, (0.0, 0.0)),
        "failover": (16.0, (0.0, 0.0)),
    },
    LOSSY: {
        "cut": (12.0, (0.0, 0.0)),
        "client_kill": (12.0, (0.0, 0.0)),
        "redis_stop": (10.0, (0.3, 2.0)),
        "empty": (6.0, (0.0, 0.0)),
        "failover": (24.0, (0.1, 1.5)),
    },
    "sqlite": {"lock": (30.0, (0.2, 4.0)), "checkpoint": (25.0, (0.0, 0.0))},
}
ENGINES = tuple(STORE_FAULTS)

#: Verb and state of the jobs it is for → how common it is.
_ORDERS = {
    ("cancel", "waiting"): 6.0,
    ("cancel", "delayed"): 10.0,
    ("cancel", "active"): 8.0,
    ("retry", "failed"): 6.0,
    ("retry", "cancelled"): 6.0,
    ("retry", "complete"): 3.0,
    ("retry_many", "failed"): 3.0,
    ("retry_many", "cancelled"): 2.0,
    # A second retry, with outdated data of the jobs.
    ("retry_late", "failed"): 5.0,
    ("promote", "delayed"): 5.0,
    ("promote_many", "delayed"): 2.0,
    # Many jobs that were waiting when read have ended by then.
    ("promote_many", "waiting"): 2.0,
    ("remove", "waiting"): 2.0,
    ("remove", "delayed"): 3.0,
    ("remove", "complete"): 5.0,
    ("force_remove", "active"): 3.0,
    ("pause", ""): 6.0,
}
_PAUSE_SECONDS = (0.3, 2.0)


def draw(engine: str, seed: int, seconds: float) -> Plan:
    """Return the plan for *engine*, *seed* and length."""
    faults = _faults(Random(f"faults {engine} {seed}"), engine, seconds)
    durable = 0.0
    if engine == LOSSY:
        durable = DURABLE_SHARE
        faults = [fault for fault in faults if not _is_late_loss(fault, seconds)]
    return Plan(
        engine=engine,
        seed=seed,
        seconds=seconds,
        calls=tuple(
            tuple(
                _calls(
                    Random(f"jobs {engine} {seed} {number}"), number, seconds, durable
                )
            )
            for number in range(PRODUCERS)
        ),
        faults=tuple(faults),
        orders=tuple(_orders(Random(f"orders {engine} {seed}"), seconds)),
    )


def moments(random: Random, every: float, seconds: float) -> Iterator[float]:
    """Yield times up to *seconds*, *every* seconds on average."""
    at = random.uniform(0, every)
    while at < seconds:
        yield round(at, 3)
        at += random.uniform(0.2, 1.8) * every


def _calls(random: Random, producer: int, seconds: float, durable: float) -> list[Call]:
    calls: list[Call] = []
    number = 0
    every = PRODUCERS * (1 + MAX_CALL) / 2 / RATE
    for at in moments(random, every, seconds):
        keys = [f"p{producer}-{number + more}" for more in range(_size(random))]
        number += len(keys)
        chores = tuple(_chore(random, key) for key in keys)
        if durable and random.random() < durable:
            chores = tuple(replace(chore, durable=True) for chore in chores)
        calls.append(Call(at, random.choice(("together", "bulk")), chores))
    return calls


def _size(random: Random) -> int:
    return random.randint(1, MAX_CALL)


def _chore(random: Random, key: str) -> Chore:
    [kind] = random.choices(_KINDS, [kind.weight for kind in _KINDS])
    is_plain = kind.does == "return" and not kind.timeout
    is_unique = is_plain and random.random() < 0.03
    is_once = is_plain and random.random() < 0.03
    return Chore(
        key=key,
        type=kind.type,
        does=kind.does,
        seconds=round(random.uniform(*kind.seconds), 3),
        times=random.randint(*kind.times),
        attempts=1 if is_once else kind.attempts,
        timeout=kind.timeout,
        priority=random.choice((0, 0, 0, -10, 10)),
        delay=round(random.uniform(0.1, 3.0), 3) if random.random() < 0.15 else 0.0,
        unique=f"key {random.randint(1, 5)}" if is_unique else None,
        once=is_once,
    )


def _faults(random: Random, engine: str, seconds: float) -> list[Fault]:
    storm = {**WORKER_FAULTS, **STORE_FAULTS[engine]}
    faults: list[Fault] = []
    for at in moments(random, FAULT_SECONDS, seconds):
        is_calm = at % PERIOD_SECONDS > STORM_SECONDS
        kinds = WORKER_FAULTS if is_calm else storm
        if is_calm and random.random() > CALM_SHARE:
            continue
        faults.append(draw_fault(random, at, kinds))
    return faults


def draw_fault(random: Random, at: float, kinds: FaultKinds) -> Fault:
    """Return a fault of one of *kinds*."""
    [kind] = random.choices(list(kinds), [weight for weight, _ in kinds.values()])
    length = round(random.uniform(*kinds[kind][1]), 3)
    return Fault(at, kind, length, random.random())


def _is_late_loss(fault: Fault, seconds: float) -> bool:
    return fault.kind in LOSSES and fault.at > LOSSY_SHARE * seconds


def _orders(random: Random, seconds: float) -> list[Order]:
    orders: list[Order] = []
    for at in moments(random, ORDER_SECONDS, seconds):
        [(verb, state)] = random.choices(list(_ORDERS), list(_ORDERS.values()))
        if verb == "pause":
            orders += _pause(random, at)
        else:
            orders.append(Order(at, verb, state, random.random()))
    return sorted(orders, key=lambda order: order.at)


def _pause(random: Random, at: float) -> list[Order]:
    type = random.choice(TYPES)
    until = round(at + random.uniform(*_PAUSE_SECONDS), 3)
    return [Order(at, "pause", type=type), Order(until, "resume", type=type)]
