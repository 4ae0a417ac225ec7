"""Builders return themselves, whichever side of the queue they are of."""

from __future__ import annotations

from datetime import datetime
from typing import Any, assert_type

from kue import Draft, JobBuilder, JobHandle, Kue, SyncJobBuilder, SyncJobHandle


async def awaited(q: Kue, moment: datetime) -> None:
    builder = q.create_job("email", {"to": ["a@b.c"]})
    assert_type(builder, JobBuilder)
    assert_type(builder.priority("high").delay("10m").at(moment), JobBuilder)
    assert_type(builder.attempts(3).backoff(True).ttl(5).tags("a", "b"), JobBuilder)
    assert_type(builder.attempts("unlimited").max_exceptions(3), JobBuilder)
    assert_type(builder.retry_until("2h").retry_until(moment), JobBuilder)
    assert_type(builder.draft, Draft)
    assert_type(await builder.save(durable=True), JobHandle[Any])


def blocking(q: Kue) -> None:
    builder = q.sync.create_job("email", {"to": ["a@b.c"]})
    assert_type(builder, SyncJobBuilder)
    assert_type(builder.priority(-10).unique("k", for_="1h"), SyncJobBuilder)
    assert_type(builder.save(), SyncJobHandle[Any])


def dependencies(
    builder: JobBuilder, one: JobHandle[int], other: SyncJobHandle[str]
) -> None:
    builder.after(one, other, 7, on_parent_failure="run").parent(one)
