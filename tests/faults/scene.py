"""
A store with some of everything in it, and every verb there is, said to it.

Faults must be met by each verb alike: tests walk this table instead of a choice of it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from msgspec import Raw
from msgspec.structs import replace

from kue.model.draft import draft
from kue.model.job import (
    Cancelled,
    Completed,
    Draft,
    Failed,
    Job,
    Released,
    Retried,
    State,
)
from kue.model.steps import Signal
from kue.model.stream import SentChunks
from kue.store.contract import Store
from kue.store.validation import IdNotReserved
from kue.store.values import (
    Change,
    Claim,
    ClaimRequest,
    Limits,
    LogLine,
    MoveRequest,
    Outcome,
    PageRequest,
    PauseRequest,
    Progress,
    RemoveRequest,
    RenewRequest,
)
from tests.support.jobs import (
    HOUR,
    OOPS,
    SECOND,
    T0,
    add_one,
    claim_one,
    end,
    job_in,
    start_one,
)
from tests.support.schedules import every
from tests.support.upkeep import KEEP_ALL

Verb: TypeAlias = Callable[[Store, "Scene"], Awaitable[Any]]


TYPE = "email"
#: When the verbs are said: leases, ttls, delays and expiries of the scene are over, and
#: yet maintenance was made so lately that nobody thinks the store was away.
LATER = T0 + 4 * SECOND
#: A signal that nothing waits for yet; the same each time.
SIGNAL = Signal(name="approved", data={"by": "ann"}, id="5e1f")
#: The priority that edited jobs get: another than they have.
_EDITED = -5


@dataclass(frozen=True, slots=True)
class Scene:
    """Jobs of the type "email", one for each thing that can be the matter with one."""

    waiting: int
    unique: int
    delayed: int
    held: int
    blocked: int
    complete: int
    failed: int
    cancelled: int
    #: Running plainly.
    plain: Job
    #: Running, with a ttl, a group and a unique key, for the second time.
    rich: Job
    #: Running, and asked to end.
    asked: Job
    #: The id of no job yet.
    reserved: int


async def build(store: Store) -> Scene:
    """Bring a store that has no jobs yet into a state where every structure is used."""
    await store.limit(TYPE, Limits(per_key=1, concurrency=100, rate=100), now=T0)
    plain = await start_one(store, TYPE, worker="w1")
    rich = await _rich(store)
    asked = await start_one(store, TYPE, worker="w1")
    await store.cancel([asked.id], now=T0)
    held = await _held(store)
    scene = Scene(
        plain=plain,
        rich=rich,
        asked=asked,
        held=held,
        complete=await job_in(store, State.COMPLETE, TYPE, retention="2s"),
        failed=await job_in(
            store, State.FAILED, TYPE, unique="lasting", unique_for="3s"
        ),
        cancelled=await job_in(store, State.CANCELLED, TYPE),
        delayed=await add_one(store, TYPE, delay="1s"),
        unique=await add_one(store, TYPE, unique="u", expires="2s"),
        blocked=await job_in(store, State.BLOCKED, TYPE),
        waiting=await add_one(store, TYPE, {"i": 1}),
        reserved=(await store.reserve([TYPE], now=T0))[0],
    )
    await _surroundings(store, scene)
    return scene


async def _rich(store: Store) -> Job:
    first = await start_one(
        store, TYPE, worker="w1", attempts=9, ttl="1s", group="g", unique="rich"
    )
    await end(store, first, Retried(OOPS))
    return await claim_one(store, TYPE, worker="w1")


async def _held(store: Store) -> int:
    """Add a job whose group already runs one, and have a claim set it aside."""
    held = await add_one(store, TYPE, group="g")
    claimed = await store.claim(
        ClaimRequest([TYPE], 1, worker="w1", claim=Claim("h", 1)), now=T0
    )
    assert claimed.jobs == []
    return held


async def _surroundings(store: Store, scene: Scene) -> None:
    await store.renew(
        RenewRequest("w1", lease=2 * SECOND, info={"host": "here"}), now=T0
    )
    await store.progress([Progress(scene.rich.id, 10, {"step": 1})], now=T0)
    await store.log(scene.plain.id, [LogLine("so far, so good")], now=T0)
    await store.record_step(scene.plain, "charge", Raw(b"1"), duration=5, now=T0)
    await store.signal(scene.plain.id, SIGNAL, now=T0)
    await store.append_chunks([_chunks(scene, 0)], now=T0)
    await store.pause(PauseRequest("video", reason="tests"), now=T0)
    due = every("nightly", "1h", draft("report"), first_at=T0 + SECOND)
    await store.schedule(due)
    await store.tend(now=T0, keep=KEEP_ALL)


def _chunks(scene: Scene, start: int) -> SentChunks:
    return SentChunks(scene.plain, start, [Raw(b'"a"'), Raw(b'{"b":2}')])


def drafts(scene: Scene) -> list[Draft]:
    """Return drafts that between them use all there is to say of a job."""
    return [
        draft(TYPE, {"i": 2}),
        draft(TYPE, priority="high", unique="u"),
        draft(TYPE, unique="new", unique_for="1h", expires="1h", group="g", ttl="1h"),
        draft(TYPE, delay="1h", retention="1d"),
        draft(TYPE, after=[scene.waiting, scene.complete]),
        draft(TYPE, after=[scene.failed], on_parent_failure="run"),
        draft(TYPE, after=[scene.cancelled]),
    ]


def _add(store: Store, scene: Scene) -> Awaitable[Any]:
    return store.add(drafts(scene), producer="p", seq=1, now=LATER)


def _add_plain(store: Store, scene: Scene) -> Awaitable[Any]:
    return store.add([draft(TYPE)] * 3, producer="plain", seq=1, now=LATER)


async def _add_reserved(store: Store, scene: Scene) -> None:
    made = replace(draft(TYPE), id=scene.reserved)
    # Without the last id, the store no longer knows what was reserved.
    with suppress(IdNotReserved):
        await store.add([made], producer="reserved", seq=1, now=LATER)


def _claim(types: list[str], limit: int, worker: str, lane: str) -> Verb:
    request = ClaimRequest(types, limit, worker=worker, claim=Claim(lane, 1))
    return lambda store, scene: store.claim(request, now=LATER)


def _settle(ending: Any) -> Verb:
    def verb(store: Store, scene: Scene) -> Awaitable[Any]:
        runs = (scene.plain, scene.rich, scene.asked)
        return store.settle([Outcome(job, ending) for job in runs], now=LATER)

    return verb


def _cycle(store: Store, scene: Scene) -> Awaitable[Any]:
    outcomes = [
        Outcome(scene.plain, Completed("fine")),
        Outcome(scene.rich, Retried(OOPS)),
        Outcome(scene.asked, Cancelled("asked")),
    ]
    claim = Claim("a", 1)
    return store.cycle(
        outcomes, ClaimRequest([TYPE], 5, worker="w1", claim=claim), now=LATER
    )


def _renew(store: Store, scene: Scene) -> Awaitable[Any]:
    runs = [scene.plain, scene.rich, scene.asked]
    return store.renew(RenewRequest("w1", runs=runs, info={"host": "there"}), now=LATER)


def _progress(store: Store, scene: Scene) -> Awaitable[Any]:
    return store.progress(
        [Progress(scene.plain.id, 50), Progress(scene.rich.id, 60, {"step": 2})],
        now=LATER,
    )


def _update(name: str) -> Verb:
    def verb(store: Store, scene: Scene) -> Awaitable[Any]:
        change = Change(id_of(scene, name), data={"i": 9}, priority=_EDITED)
        return store.update([change], now=LATER)

    return verb


def _clear(state: State) -> Verb:
    return lambda store, scene: store.clear(TYPE, [state], now=LATER)


def _page(state: State | None) -> Verb:
    return lambda store, scene: store.page(PageRequest(state))


def _on(
    verb: str, *names: str, request: Callable[[list[int]], Any] = list[int]
) -> Verb:
    """Say a verb to the named jobs of the scene, with the request made of their ids."""

    def say(store: Store, scene: Scene) -> Awaitable[Any]:
        given = request([id_of(scene, name) for name in names])
        answer: Awaitable[Any] = getattr(store, verb)(given, now=LATER)
        return answer

    return say


def id_of(scene: Scene, name: str) -> int:
    """Return the id of a job of the scene."""
    job: Job | int = getattr(scene, name)
    return job.id if isinstance(job, Job) else job


async def _schedule(store: Store, scene: Scene) -> None:
    hourly = every("hourly", "1h", draft("report"), first_at=T0)
    await store.schedule(hourly)


async def _watch(store: Store, scene: Scene) -> None:
    async with store.watch([scene.waiting]):
        pass


def _step(store: Store, scene: Scene) -> Awaitable[Any]:
    return store.record_step(scene.plain, "refund", Raw(b"1"), duration=5, now=LATER)


#: The states that `remove` and `move` tell apart, by jobs of the scene.
_STILL = ("waiting", "unique", "delayed", "held", "blocked")
_ENDED = ("complete", "failed", "cancelled")
_TO_WAITING = partial(MoveRequest, to=State.WAITING)

#: Verbs that change something.
WRITES: dict[str, Verb] = {
    "add": _add,
    "add plain": _add_plain,
    "add reserved": _add_reserved,
    "reserve": lambda store, scene: store.reserve([TYPE] * 3, now=LATER),
    "claim": _claim([TYPE], 5, "w2", "a"),
    "claim several": _claim([TYPE, "video", "parent", "never seen"], 5, "w2", "a"),
    "claim again": _claim([TYPE], 1, "w1", "h"),
    "settle complete": _settle(Completed({"ok": True})),
    "settle failed": _settle(Failed(OOPS)),
    "settle cancelled": _settle(Cancelled("enough")),
    "settle retried": _settle(Retried(OOPS)),
    "settle delayed": _settle(Retried(OOPS, HOUR)),
    "settle released": _settle(Released(0)),
    "settle suspended": _settle(Released(HOUR, suspended="wait:1:paid")),
    "append chunks": lambda store, scene: store.append_chunks(
        [_chunks(scene, 2)], now=LATER
    ),
    "record step": _step,
    "receive": lambda store, scene: store.receive(
        scene.plain, "approved", 1, now=LATER
    ),
    "signal": lambda store, scene: store.signal(
        scene.plain.id, Signal(name="paid", id="ab"), now=LATER
    ),
    "cycle": _cycle,
    "renew": _renew,
    "leave": lambda store, scene: store.leave("w1", now=LATER),
    "tend": lambda store, scene: store.tend(now=LATER),
    "progress": _progress,
    "log": lambda store, scene: store.log(scene.plain.id, [LogLine("more")], now=LATER),
    **{f"update {n}": _update(n) for n in ("waiting", "held", "delayed", "plain")},
    "move": _on("move", *_STILL, request=_TO_WAITING),
    "move ended": _on("move", *_ENDED, request=_TO_WAITING),
    "delay": _on(
        "move",
        *_STILL,
        request=partial(MoveRequest, to=State.DELAYED, at=LATER + HOUR),
    ),
    "cancel": _on("cancel", *_STILL, "plain"),
    "remove": _on("remove", *_STILL, *_ENDED, request=RemoveRequest),
    "remove running": _on(
        "remove", "plain", "rich", "asked", request=partial(RemoveRequest, force=True)
    ),
    "pause": lambda store, scene: store.pause(PauseRequest(TYPE), now=LATER),
    "pause all": lambda store, scene: store.pause(PauseRequest(), now=LATER),
    "resume": lambda store, scene: store.resume("video", now=LATER),
    "limit": lambda store, scene: store.limit(TYPE, Limits(rate=5), now=LATER),
    "unlimit": lambda store, scene: store.limit(TYPE, None, now=LATER),
    **{f"clear {s}": _clear(s) for s in State if s is not State.ACTIVE},
    "schedule": _schedule,
    "unschedule": lambda store, scene: store.unschedule("nightly"),
    "fire": lambda store, scene: store.fire("nightly", now=LATER),
}
#: Verbs that only look.
READS: dict[str, Verb] = {
    "get": lambda store, scene: store.get([scene.waiting, scene.rich.id, scene.held]),
    "page": _page(None),
    **{f"page {state}": _page(state) for state in State},
    "count": lambda store, scene: store.count(),
    "types": lambda store, scene: store.types(),
    "parents": lambda store, scene: store.parents([scene.blocked]),
    "logs": lambda store, scene: store.logs(scene.plain.id),
    "chunks": lambda store, scene: store.chunks(scene.plain.id),
    "steps": lambda store, scene: store.steps(scene.plain.id),
    "workers": lambda store, scene: store.workers(now=LATER),
    "stats": lambda store, scene: store.stats(T0 // 60_000, LATER // 60_000),
    "paused": lambda store, scene: store.paused(),
    "limits": lambda store, scene: store.limits(),
    "schedules": lambda store, scene: store.schedules(),
    "now": lambda store, scene: store.now(),
    "wait": lambda store, scene: store.wait([TYPE], 0.01),
    "watch": _watch,
    "check": lambda store, scene: store.check(),
}
VERBS = {**WRITES, **READS}
