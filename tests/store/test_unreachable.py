"""
A server that cannot be reached: every verb says so, in bounded time.

A file is there or it is not; what is wrong with one is in test_unfit.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from msgspec import Raw

from kue.model.draft import draft
from kue.model.errors import StoreUnavailable
from kue.model.histogram import Timing
from kue.model.job import Completed, Job, Spec, State
from kue.model.settings import load
from kue.model.steps import Signal
from kue.model.stream import SentChunks
from kue.store import store_for
from kue.store.contract import Store
from kue.store.values import (
    AuditEntry,
    Change,
    Claim,
    ClaimRequest,
    Failure,
    Filter,
    KeepRequest,
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
from tests.support.jobs import T0
from tests.support.schedules import every

#: Nobody listens on port 1.
URLS = {
    "redis": "redis://127.0.0.1:1/0",
    "redis-shards": "redis://127.0.0.1:1/0?shards=4",
    "redis-cluster": "redis+cluster://127.0.0.1:1?shards=4",
}
JOB = Job(
    id=1,
    type="email",
    state=State.ACTIVE,
    priority=0,
    created_at=T0,
    spec=Spec(),
    token=f"1:{T0}:1:w1:lane.1",
)
DRAFT = draft("email")
OUTCOME = Outcome(JOB, Completed())
CLAIM = Claim("lane", 1)
CHUNKS = SentChunks(JOB, 0, [Raw(b"1")])
SCHEDULE = every("s", "1m", DRAFT, first_at=T0)

VERBS: dict[str, Callable[[Store], Awaitable[Any]]] = {
    "open": lambda store: store.open(),
    "verify": lambda store: store.verify(),
    "now": lambda store: store.now(),
    "add": lambda store: store.add([DRAFT], producer="p", seq=1),
    "reserve": lambda store: store.reserve(["email"]),
    "claim": lambda store: store.claim(
        ClaimRequest(["email"], 1, worker="w1", claim=CLAIM)
    ),
    "settle": lambda store: store.settle([OUTCOME]),
    "cycle": lambda store: store.cycle(
        [OUTCOME], ClaimRequest(["email"], 1, worker="w1", claim=CLAIM)
    ),
    "renew": lambda store: store.renew(RenewRequest("w1")),
    "begin": lambda store: store.begin(JOB, alone=True),
    "leave": lambda store: store.leave("w1"),
    "tend": lambda store: store.tend(),
    "wait": lambda store: store.wait(["email"], 5),
    "stand_by": lambda store: store.stand_by(
        ClaimRequest(["email"], 1, worker="w1", claim=CLAIM), timeout=5
    ),
    "measure": lambda store: store.measure([Timing("email", {1: 1})]),
    "order": lambda store: store.order("w1", "stop"),
    "write_stacks": lambda store: store.write_stacks("w1", "here"),
    "stacks": lambda store: store.stacks("w1"),
    "progress": lambda store: store.progress([Progress(1, 5)]),
    "log": lambda store: store.log(1, [LogLine("hello")]),
    "append_chunks": lambda store: store.append_chunks([CHUNKS]),
    "chunks": lambda store: store.chunks(1),
    "steps": lambda store: store.steps(1),
    "record_step": lambda store: store.record_step(JOB, "a", Raw(b"1"), duration=1),
    "receive": lambda store: store.receive(JOB, "paid", 1),
    "signal": lambda store: store.signal(1, Signal(name="paid")),
    "update": lambda store: store.update([Change(1, data=1)]),
    "move": lambda store: store.move(MoveRequest([1], State.WAITING)),
    "cancel": lambda store: store.cancel([1]),
    "remove": lambda store: store.remove(RemoveRequest([1])),
    "pause": lambda store: store.pause(PauseRequest()),
    "resume": lambda store: store.resume(),
    "paused": lambda store: store.paused(),
    "limit": lambda store: store.limit("email", Limits(concurrency=1)),
    "limits": lambda store: store.limits(),
    "set_named_limit": lambda store: store.set_named_limit("stripe", None),
    "named_limits": lambda store: store.named_limits(),
    "set_failure_rule": lambda store: store.set_failure_rule(None, None),
    "failure_rules": lambda store: store.failure_rules(),
    "failures": lambda store: store.failures(),
    "forget_failures": lambda store: store.forget_failures([Failure(1, "email", 2)]),
    "limit_use": lambda store: store.limit_use("stripe"),
    "clear": lambda store: store.clear("email", [State.FAILED]),
    "schedule": lambda store: store.schedule(SCHEDULE),
    "unschedule": lambda store: store.unschedule("s"),
    "schedules": lambda store: store.schedules(),
    "fire": lambda store: store.fire("s"),
    "get": lambda store: store.get([1]),
    "page": lambda store: store.page(PageRequest()),
    "members": lambda store: store.members(1),
    "flow_counts": lambda store: store.flow_counts([1]),
    "parents": lambda store: store.parents([1]),
    "count": lambda store: store.count(),
    "types": lambda store: store.types(),
    "logs": lambda store: store.logs(1),
    "newest_logs": lambda store: store.newest_logs([1], 10),
    "workers": lambda store: store.workers(),
    "stats": lambda store: store.stats(1, 2),
    "hours": lambda store: store.hours(1, 2),
    "work_time": lambda store: store.work_time(),
    "facts": lambda store: store.facts(),
    "errors": lambda store: store.errors(),
    "check": lambda store: store.check(),
    "keep": lambda store: store.keep(KeepRequest("room", "a", "1")),
    "kept": lambda store: store.kept("room", "a"),
    "all_kept": lambda store: store.all_kept("room"),
    "forget": lambda store: store.forget("room", "a"),
    "note": lambda store: store.note(AuditEntry(who="ann", what="look")),
    "acts": lambda store: store.acts(),
    "find": lambda store: store.find(Filter()),
    "watch": lambda store: _watch(store),
}
SPEAK_TO_NOBODY = {"name", "losses", "close", "twin", "cursor_after", "spans_shards"}


async def _watch(store: Store) -> None:
    async with store.watch():
        pass


def test_no_verb_is_left_out() -> None:
    verbs = {name for name in vars(Store) if not name.startswith("_")}

    assert verbs - SPEAK_TO_NOBODY == VERBS.keys()


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("engine_url", list(URLS.values()), ids=list(URLS))
async def test_every_verb_says_that_the_store_cannot_be_reached(
    engine_url: str, verb: str
) -> None:
    """D-41: with an error, in bounded time, and not by falling silent."""
    store = store_for(load(environ={}, url=engine_url, budget="50ms"))
    try:
        with pytest.raises(StoreUnavailable, match=r"\w"):
            await VERBS[verb](store)
    finally:
        await store.close()
