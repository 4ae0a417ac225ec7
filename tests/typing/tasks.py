"""Type checkers see the parameters of a task's own function, and what it returns."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator
from typing import assert_type

from kue import (
    ActiveJob,
    JobHandle,
    Kue,
    Resource,
    SyncJobHandle,
    current_job,
    skip_when,
    window,
)

q = Kue("memory://")


class Pool:
    """Some database."""


@q.resource
async def database() -> AsyncIterator[Pool]:
    yield Pool()


@q.resource(check=bool)
async def checked() -> AsyncIterator[Pool]:
    yield Pool()


@q.task
async def send(to: str, title: str = "hi") -> dict[str, int]:
    return {to: len(title)}


@q.task(attempts=5, timeout="30s", tags=["mail"], uses=[database])
def count(words: list[str], *, twice: bool = False) -> int:
    return len(words)


@q.task
async def report(job: ActiveJob, page: int) -> str:
    return f"{job.id}: {page}"


@q.task
async def tell(job: ActiveJob, topic: str) -> AsyncIterator[str]:
    yield topic


@q.task(attempts=2)
def spell(word: str) -> Generator[str, None, int]:
    yield from word
    return len(word)


@q.task(
    attempts="unlimited",
    retry_until="2h",
    fail_on=ValueError,
    not_counted=(OSError, KeyError),
    middleware=[window("9:00-20:00", tz="UTC"), skip_when(lambda job: True)],
)
async def pay(order: int) -> None: ...


@q.task(execution="process", concurrency=2)
def render(job: ActiveJob, page: int) -> bytes:
    return bytes(page)


async def a_task_is_called_as_its_function() -> None:
    assert_type(await send(to="a@b.c", title="hi"), dict[str, int])
    assert_type(count(["a"], twice=True), int)
    assert_type(await report(page=7), str)


async def calls_become_jobs_of_the_same_result() -> None:
    assert_type(await send.enqueue("a@b.c"), JobHandle[dict[str, int]])
    assert_type(await count.enqueue(["a"], twice=True), JobHandle[int])
    assert_type(await report.enqueue(7), JobHandle[str])
    assert_type(await render.enqueue(page=7), JobHandle[bytes])
    assert_type(await tell.enqueue("kue"), JobHandle[None])
    assert_type(await spell.enqueue("kue"), JobHandle[int])
    job = await send.options(priority="high", delay="10m").enqueue(to="a@b.c")
    assert_type(await job.result(), dict[str, int])
    many = await count.enqueue_many([{"words": []}, count.draft([])])
    assert_type(many, list[JobHandle[int]])


async def options_are_known_by_name(level: int) -> None:
    first = await send.options(priority="critical").enqueue("a@b.c")
    blocking = count.options(priority=-7).delay(["a"])
    await send.options(after=[first, blocking, 7], parent=first).enqueue("a@b.c")
    await q.enqueue("email", priority=level, after=[first])


def ordinary_code_gets_a_blocking_handle() -> None:
    assert_type(count.delay(["a"]), SyncJobHandle[int])
    assert_type(report.options(tags=["x"]).delay(page=7), SyncJobHandle[str])


def what_is_around_them() -> None:
    assert_type(database, Resource[Pool])
    assert_type(checked.value, Pool)
    assert_type(current_job(), ActiveJob)
