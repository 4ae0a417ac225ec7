"""Which keys the payloads in a store are protected with: to know when one can go."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kue.model.sealed_payload import Envelope
from kue.store.sealed_store import SealedStore
from kue.store.values import MAX_BATCH, PageRequest

if TYPE_CHECKING:
    from kue.model.job import Job
    from kue.store.contract import Store


class PayloadKeyUse(msgspec.Struct):
    """What is protected with one key."""

    name: str
    #: Jobs whose data or result is.
    unfinished: int = 0
    ended: int = 0
    schedules: int = 0


async def key_use(store: Store) -> list[PayloadKeyUse]:
    """Read all jobs and schedules; return the keys of their data and results."""
    engine = store.engine if isinstance(store, SealedStore) else store
    used: dict[str, PayloadKeyUse] = {}
    cursor: str | None = None
    while True:
        page = await engine.page(PageRequest(limit=MAX_BATCH, cursor=cursor))
        for job in page.jobs:
            for name in _keys_of(job):
                use = used.setdefault(name, PayloadKeyUse(name))
                use.unfinished += not job.state.is_final
                use.ended += job.state.is_final
        cursor = page.cursor
        if cursor is None:
            break
    for schedule in await engine.schedules():
        spec = schedule.draft.spec
        for name in _keys_in(spec.data) if spec.sealed else ():
            used.setdefault(name, PayloadKeyUse(name)).schedules += 1
    return [used[name] for name in sorted(used)]


def _keys_of(job: Job) -> set[str]:
    return _keys_in(job.data) | _keys_in(job.result) if job.spec.sealed else set()


def _keys_in(value: object) -> set[str]:
    envelope = Envelope.read(value)
    return {envelope.key} if envelope and envelope.key else set()
