"""
Jobs in both compatible APIs: pages, searches, changes of state and options.

States have the names of `kue.vertx.job_json`.
"""

from __future__ import annotations

import math
import re
import reprlib
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from kue.client.handle import job_of
from kue.http.framework.problem import bad_request
from kue.model.duration import MAX_MS
from kue.model.errors import InvalidTransition
from kue.store.batches import bytes_of_job
from kue.store.values import MAX_PAGE_BYTES, Filter
from kue.vertx import job_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kue.client.handle import JobHandle
    from kue.client.queries import Order
    from kue.client.queue import Kue
    from kue.http.security.redaction import Redaction
    from kue.model.job import Job
    from kue.model.payload import JSON

#: Jobs in one response: dashboards made for Kue show 200, and ask for one more.
MAX_PAGE = 201
#: Jobs that are read first, to see how large they are.
FEW = 20
#: Characters of a search text.
MAX_TEXT = 200
#: How many jobs a search looks at, the newest first, and in how many steps: each is
#: bounded in bytes, too.
MAX_SEARCHED, SEARCH_STEPS = 50_000, 5
#: The header that reports it, if there are more.
SEARCHED = "Kue-Searched"

#: Short enough that every engine can count with it.
_DIGITS = re.compile(r"[0-9]{1,15}")
_PRIORITY = re.compile(r"-?[0-9]{1,4}")


def number_of(text: str) -> int | None:
    """Return the id or position in *text*; None if it is not one."""
    return int(text) if _DIGITS.fullmatch(text) else None


# -- reading -------------------------------------------------------------------


async def counts(q: Kue) -> dict[str, int]:
    """Return how many jobs are in each state, as ``inactiveCount`` and so on."""
    return {f"{name}Count": count for name, count in (await job_json.counts(q)).items()}


async def total(q: Kue, *, name: str | None = None, type: str | None = None) -> int:
    """Return how many jobs there are: of all states or one, of all types or one."""
    counted = await job_json.counts(q, type)
    return sum(counted.values()) if name is None else counted[name]


async def page(
    q: Kue,
    first: int,
    last: int | None,
    order: Order = "asc",
    *,
    name: str | None = None,
    type: str | None = None,
) -> list[Job]:
    """Return jobs number *first* to *last* (None: all that follow), both included."""
    wanted = MAX_PAGE + 1
    if last is not None:
        wanted = min(wanted, last - first + 1)
    few = min(wanted, FEW)
    jobs = await job_json.part(q, first, few, order, name=name, type=type)
    if len(jobs) == few < wanted:
        left = await total(q, name=name, type=type) - first
        _check_bytes(jobs, min(wanted, left))
        rest = wanted - few
        jobs += await job_json.part(q, first + few, rest, order, name=name, type=type)
    _check_bytes(jobs, len(jobs))
    if len(jobs) > MAX_PAGE:
        raise bad_request(
            f"one answer has at most {MAX_PAGE} jobs; ask for fewer at a time"
        )
    return jobs


def _check_bytes(jobs: list[Job], wanted: int) -> None:
    """Refuse *wanted* jobs of the average size of *jobs*, if they are too large."""
    size = sum(map(bytes_of_job, jobs))
    if len(jobs) > 1 and size * wanted > MAX_PAGE_BYTES * len(jobs):
        raise bad_request(
            f"{wanted} jobs of {size // len(jobs) // 1000:,} kB each are too much for "
            "one answer; ask for fewer at a time"
        )


async def search(
    q: Kue, text: str, redaction: Redaction
) -> tuple[list[str], dict[str, str]]:
    """
    Return the ids of jobs that have all words of *text*, newest first.

    Looks at the newest `MAX_SEARCHED` jobs.  Also returns headers of the response: that
    there are others.
    """
    if len(text) > MAX_TEXT:
        raise bad_request(f"a search text has at most {MAX_TEXT} characters")
    wanted = Filter(text=text)
    ids: list[str] = []
    cursor: str | None = None
    looked_at = 0
    for _ in range(SEARCH_STEPS if wanted.terms else 0):
        found = await q.store.find(
            wanted,
            limit=MAX_PAGE - len(ids),
            cursor=cursor,
            descending=True,
            scan=MAX_SEARCHED // SEARCH_STEPS,
            redact=redaction,
        )
        ids += [str(job.id) for job in found.jobs]
        looked_at += found.looked_at
        cursor = found.cursor
        if cursor is None or len(ids) >= MAX_PAGE:
            break
    return ids, {} if cursor is None else {SEARCHED: f"newest {looked_at}"}


# -- changing ------------------------------------------------------------------


async def put(handle: JobHandle[Any], name: str) -> None:
    """
    Move a job to the state called *name*, if that can be done by hand.

    A job in that state already stays as it is; a delayed one waits for its own delay.
    Making it failed cancels it: the worker of a running job is asked to stop it.
    """
    job = job_of(handle)
    if job_json.name_of(job.state) == name:
        return
    if name == "delayed":
        await handle.delay(timedelta(milliseconds=job.spec.delay))
    elif name == "failed":
        await handle.cancel()
    elif name != "inactive":
        raise InvalidTransition(
            job.id,
            job.state,
            f"be made {name} by hand; workers start and complete jobs",
        )
    elif job.state.is_final:
        await handle.retry()
    else:
        await handle.promote()


def options_of(given: Mapping[str, JSON], *, attempts: str) -> dict[str, Any]:
    """
    Return the options of a job, as ``q.enqueue`` takes them.

    Durations are milliseconds.  A value of 0, null or empty counts as not given, as in
    both originals; unknown options are ignored.  *attempts* is the name of that option.
    """
    options: dict[str, Any] = {}
    if number := _whole(given, attempts):
        options["attempts"] = number
    if value := given.get("priority"):
        options["priority"] = priority_of(value)
    for name in ("delay", "ttl"):
        if number := _whole(given, name):
            options[name] = timedelta(milliseconds=number)
    if value := given.get("backoff"):
        options["backoff"] = _backoff(value)
    if value := given.get("removeOnComplete"):
        options["remove_on_complete"] = _flag(value, "removeOnComplete")
    return options


def priority_of(value: JSON) -> JSON:
    """Return a priority as number or name, given as either or as digits."""
    if isinstance(value, str) and _PRIORITY.fullmatch(value):
        return int(value)
    return _truncated(value)


def _truncated(value: JSON) -> JSON:
    """Return a number without its fraction: JavaScript has no integers."""
    return int(value) if isinstance(value, float) and math.isfinite(value) else value


def _whole(given: Mapping[str, JSON], field: str) -> int:
    """Return a number that may be given as digits, too; 0 if it is not given."""
    value = given.get(field) or 0
    number = number_of(value) if isinstance(value, str) else _truncated(value)
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        shown = reprlib.repr(value)
        raise ValueError(f"{field} must be a whole number, not {shown}")
    if number > MAX_MS:
        raise ValueError(f"{field} is too large: {reprlib.repr(number)}")
    return number


def _backoff(value: JSON) -> JSON:
    # Kue also accepted the source of a function, and evaluated it.
    if value is not True and not isinstance(value, dict):
        raise ValueError(
            f"backoff must be true or an object, not {reprlib.repr(value)}"
        )
    return value


def _flag(value: JSON, field: str) -> bool:
    if value in ("true", "false"):
        return bool(value == "true")
    if not isinstance(value, bool):
        raise ValueError(f"{field} must be true or false, not {reprlib.repr(value)}")
    return value
