"""The comparison of everything a reader can see, after every step."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import NamedTuple

import msgspec

from kue.model.job import Job, State
from kue.model.named_limits import StoredLimit
from kue.model.schedule import Schedule
from kue.store.values import (
    Errors,
    Failure,
    Filter,
    Limits,
    PageRequest,
    Pause,
    WorkerStatus,
)
from tests.store_model.both import Both
from tests.store_model.entry import Entry
from tests.store_model.model import Model
from tests.store_model.sameness import same, same_events, same_jobs
from tests.support.jobs import all_pages


def compare(both: Both) -> None:
    """Fail unless store and model agree on everything."""
    _compare_events(both)
    seen = both.ask(_look(both))
    _compare_jobs(both, seen)
    _compare_settings(both.model, seen)
    _compare_workers(both, seen.workers)
    same(seen.types, sorted(both.model.types))


def prove(both: Both) -> None:
    """Fail unless the store's own check finds every job and nothing wrong with any."""
    report = both.ask(both.store.check())
    same(report.findings, ())
    same(report.jobs, len(both.model.jobs))


class Seen(NamedTuple):
    """All that a reader can see without asking for more."""

    jobs: list[Job | None]
    counts: dict[str, dict[State, int]]
    pauses: list[Pause]
    limits: dict[str, Limits]
    named: dict[str, StoredLimit]
    schedules: list[Schedule]
    types: list[str]
    workers: list[WorkerStatus]
    errors: Errors
    failures: list[Failure]


async def _look(both: Both) -> Seen:
    """Read everything at once: waiting for one answer at a time takes long."""
    store, ids = both.store, range(both.first_id, both.model.last_id + 2)
    async with asyncio.TaskGroup() as group:
        jobs = group.create_task(store.get(ids))
        counts = group.create_task(store.count())
        pauses = group.create_task(store.paused())
        limits = group.create_task(store.limits())
        named = group.create_task(store.named_limits())
        schedules = group.create_task(store.schedules())
        types = group.create_task(store.types())
        workers = group.create_task(store.workers(now=both.now))
        errors = group.create_task(store.errors())
        failures = group.create_task(store.failures())
    return Seen(
        jobs.result(),
        counts.result(),
        pauses.result(),
        limits.result(),
        named.result(),
        schedules.result(),
        types.result(),
        workers.result(),
        errors.result(),
        failures.result(),
    )


def _compare_events(both: Both) -> None:
    model = both.model
    wanted, model.told = model.told, []
    perhaps, model.perhaps = model.perhaps, []
    if both.ear is not None:
        heard = both.ask(both.ear.hear(wanted, perhaps))
        same_events(heard, wanted)


def _compare_jobs(both: Both, seen: Seen) -> None:
    for job_id, job in enumerate(seen.jobs, start=both.first_id):
        entry = both.model.jobs.get(job_id)
        if job is not None and entry is not None:
            _compare_job(both, job, entry)
        else:
            same(job, entry and entry.view())
    counts = {
        type: {state: of.get(state, 0) for state in State}
        for type, of in seen.counts.items()
    }
    same(counts, both.model.counts())
    failed = both.model.of(State.FAILED)
    marks = Counter((entry.type, entry.history[-1].fingerprint) for entry in failed)
    groups = seen.errors.groups
    same({(one.type, one.fingerprint): one.count for one in groups}, dict(marks))
    same({*seen.failures}, both.model.failures)
    same(len(seen.failures), len(both.model.failures))


def _compare_job(both: Both, job: Job, entry: Entry) -> None:
    both.model.learn_rank(entry, job.rank)
    same_jobs([job], [entry.view()])
    same(job.attempts, entry.attempts)
    if entry.had_steps:
        same(both.ask(both.store.steps(job.id)), entry.steps.view())
    _compare_held(both, job, entry)


def _compare_held(both: Both, job: Job, entry: Entry) -> None:
    """A job that a claim has set aside says so; which of many come back, varies."""
    model = both.model
    is_limited = job.type in model.limits or model.is_paused(job.type, both.now)
    may_be_held = job.state is State.WAITING and (entry.may_be_held or is_limited)
    assert may_be_held or not job.held, f"job {job.id} is held: {job.held}"
    must_be_held = entry.is_held or (
        job.state is State.WAITING and model.is_stopped(job.type)
    )
    assert job.held or not must_be_held, f"job {job.id} must be held"


def _compare_workers(both: Both, said: list[WorkerStatus]) -> None:
    """Compare all but lost workers, which are forgotten sooner or later."""
    workers = both.model.workers
    assert {status.name for status in said} <= workers.keys()
    for status in both.model.status(both.now):
        found = [one for one in said if one.name == status.name]
        worker = workers[status.name]
        if worker.is_lost:
            continue
        if found and worker.info is None:
            status = msgspec.structs.replace(status, info=found[0].info)
        if found and worker.has_left:
            status = msgspec.structs.replace(status, deadline=found[0].deadline)
        same(found, [status])


def _compare_settings(model: Model, seen: Seen) -> None:
    # What ends by itself has ended by the engine's own clock, which `paused` reads.
    pauses = sorted(model.pauses.values(), key=lambda pause: pause.type or "")
    pauses += [pause for _, pause in sorted(model.worker_pauses.items())]
    said = [pause for pause in seen.pauses if pause.until is None]
    same(said, [pause for pause in pauses if pause.until is None])
    same(seen.limits, model.limits)
    rules = {name: limit.rule.concurrency for name, limit in seen.named.items()}
    same(rules, dict(sorted(model.named.items())))
    schedules = sorted(model.schedules.values(), key=lambda schedule: schedule.name)
    same([*map(model.as_seen, seen.schedules)], [*map(model.as_seen, schedules)])


def walk(
    both: Both, state: State | None, type: str | None, size: int, descending: bool
) -> None:
    """Read all pages of *size*; together they are the list the model has."""
    request = PageRequest(state, type, limit=size, descending=descending)
    pages = both.ask(all_pages(both.store, request))
    assert all(len(page.jobs) <= size for page in pages)
    wanted = both.model.page(state, type)
    jobs = [job for page in pages for job in page.jobs]
    same_jobs(jobs, wanted[::-1] if descending else wanted)


def skip(both: Both, state: State | None, number: int, size: int) -> None:
    """Read one page that begins after the first *number* jobs."""
    page = both.ask(both.store.page(PageRequest(state, skip=number, limit=size)))
    wanted = both.model.page(state, None)[number : number + size]
    same_jobs(page.jobs, wanted)


def search(both: Both, wanted: Filter, size: int) -> None:
    """Find in steps of *size*; together they are all that match."""
    jobs: list[Job] = []
    cursor = None
    while True:
        page = both.ask(both.store.find(wanted, limit=size, cursor=cursor))
        jobs += page.jobs
        if page.cursor is None:
            break
        cursor = page.cursor
    same_jobs(jobs, both.model.find(wanted))


def logs(both: Both, job_id: int, start: int, stop: int) -> None:
    """Read a part of a log."""
    entry = both.model.jobs.get(job_id)
    lines = entry.log if entry else []
    first = max(0, start + len(lines)) if start < 0 else start
    last = stop + len(lines) if stop < 0 else stop
    same(
        both.ask(both.store.logs(job_id, start, stop)), lines[first : max(0, last + 1)]
    )


def stats(both: Both) -> None:
    """Read all counters there are."""
    wanted = both.model.stats()
    minutes = [stat.minute for stat in wanted] or [0]
    said = both.ask(both.store.stats(min(minutes), max(minutes)))
    same(sorted(said, key=lambda stat: (stat.minute, stat.type)), wanted)
