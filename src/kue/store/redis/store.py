"""The Redis store: a table of its verbs, which are functions in ``verbs/``."""

from __future__ import annotations

from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from kue.store.contract import Store
from kue.store.corruption_errors import MALFORMED, corrupt, is_damage
from kue.store.redis.keys import shard_of_type
from kue.store.redis.sharding import Shards
from kue.store.redis.verbs import (
    add,
    changes,
    check,
    failures,
    flows,
    limits,
    maintenance,
    named_limits,
    pages,
    queries,
    records,
    runs,
    schedules,
    stats,
    steps,
    stream,
    workers,
)
from kue.store.redis.verbs.watch import RedisSubscriptions
from kue.store.validation import CHECKS

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Sequence
    from contextlib import AbstractAsyncContextManager

    from kue.model.settings import Settings
    from kue.store.contract import Events
    from kue.store.redis.wire.url import RedisAddress

P = ParamSpec("P")
T = TypeVar("T")


def _verb(
    function: Callable[Concatenate[Shards, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[RedisStore, P], Coroutine[Any, Any, T]]:
    """Make a method of *function*; a reply that is malformed raises `StoreCorrupt`."""
    check = CHECKS.get(function.__name__)

    async def verb(self: RedisStore, /, *args: P.args, **kwargs: P.kwargs) -> T:
        if check is not None:
            check(*args, **kwargs)
        try:
            return await function(self._db, *args, **kwargs)
        except MALFORMED as exc:
            if is_damage(exc):
                raise corrupt(self.name, exc) from exc
            raise

    update_wrapper(verb, function)
    return verb


class RedisStore(Store):
    """Jobs in Redis, Valkey, or a Redis Cluster."""

    def __init__(self, settings: Settings, address: RedisAddress | None = None) -> None:
        """*address* is where it is, and how to connect, if not by the URL alone."""
        self._db = Shards(settings, address)
        self._subscriptions = RedisSubscriptions(self._db)
        self.name = self._db.name

    @property
    def losses(self) -> int:
        return self._db.client.losses

    def spans_shards(self, types: Iterable[str]) -> bool:
        count = self._db.count
        return count > 1 and len({shard_of_type(one, count) for one in types}) > 1

    async def open(self) -> str:
        return await self._db.open()

    async def close(self) -> None:
        await self._subscriptions.close()
        await self._db.close()

    def twin(self) -> RedisStore:
        return RedisStore(self._db.settings, self._db.address)

    def watch(
        self, job_ids: Sequence[int] | None = None, *, buffer: int = 1000
    ) -> AbstractAsyncContextManager[Events]:
        return self._subscriptions.watch(job_ids, buffer=buffer)

    verify = _verb(Shards.verify)
    now = _verb(Shards.now)

    reserve = _verb(add.reserve)
    add = _verb(add.add)

    claim = _verb(runs.claim)
    settle = _verb(runs.settle)
    cycle = _verb(runs.cycle)
    stand_by = _verb(runs.stand_by)
    renew = _verb(runs.renew)
    measure = _verb(runs.measure)
    begin = _verb(runs.begin)
    leave = _verb(runs.leave)
    wait = _verb(runs.wait)
    progress = _verb(runs.progress)
    log = _verb(runs.log)

    append_chunks = _verb(stream.append_chunks)
    chunks = _verb(stream.chunks)

    record_step = _verb(steps.record_step)
    receive = _verb(steps.receive)
    signal = _verb(steps.signal)
    steps = _verb(steps.steps)

    tend = _verb(maintenance.tend)
    schedule = _verb(schedules.schedule)
    unschedule = _verb(schedules.unschedule)
    fire = _verb(schedules.fire)
    schedules = _verb(schedules.schedules)

    update = _verb(changes.update)
    move = _verb(changes.move)
    cancel = _verb(changes.cancel)
    remove = _verb(changes.remove)
    clear = _verb(changes.clear)

    pause = _verb(limits.pause)
    resume = _verb(limits.resume)
    paused = _verb(limits.paused)
    limit = _verb(limits.limit)
    limits = _verb(limits.limits)
    set_named_limit = _verb(named_limits.set_named_limit)
    limit_use = _verb(named_limits.limit_use)
    named_limits = _verb(named_limits.named_limits)

    set_failure_rule = _verb(failures.set_failure_rule)
    failure_rules = _verb(failures.failure_rules)
    forget_failures = _verb(failures.forget_failures)
    failures = _verb(failures.failures)

    order = _verb(workers.order)
    write_stacks = _verb(workers.write_stacks)
    stacks = _verb(workers.stacks)
    workers = _verb(workers.workers)

    get = _verb(pages.get)
    page = _verb(pages.page)
    members = _verb(flows.members)
    flow_counts = _verb(flows.flow_counts)
    parents = _verb(flows.parents)
    types = _verb(pages.types)
    count = _verb(queries.count)
    logs = _verb(queries.logs)
    newest_logs = _verb(queries.newest_logs)
    errors = _verb(queries.errors)
    hours = _verb(stats.hours)
    work_time = _verb(stats.work_time)
    facts = _verb(stats.facts)
    stats = _verb(stats.stats)
    check = _verb(check.check)

    keep = _verb(records.keep)
    kept = _verb(records.kept)
    all_kept = _verb(records.all_kept)
    forget = _verb(records.forget)
    note = _verb(records.note)
    acts = _verb(records.acts)
