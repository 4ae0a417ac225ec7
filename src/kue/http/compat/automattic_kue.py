"""
JSON API of Automattic's Kue, for programs and dashboards made for it.

As there, most errors are 200 with ``{"error": …}``, numbers of a job are text, and so
is its id where one job is requested.  Unlike there, an unknown state is refused rather
than becoming a new state, and only workers start and complete jobs.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from starlette.responses import Response
from starlette.routing import Route

from kue.client.handle import job_of
from kue.http.auth.roles import Scope
from kue.http.compat import jobs
from kue.http.compat.api import MEDIA_TYPE, CompatApi, read_json
from kue.http.framework.problem import (
    Refused,
    bad_request,
    input_errors,
    not_found,
    refused,
)
from kue.model.errors import JobNotFound
from kue.vertx import job_json

if TYPE_CHECKING:
    from starlette.requests import Request

    from kue.client.handle import JobHandle
    from kue.client.queue import Kue
    from kue.http.auth.access import Guard
    from kue.http.options import AppOptions
    from kue.model.job import Job
    from kue.model.payload import JSON

#: Jobs that one POST may add.
MAX_JOBS = 1000

#: Errors that are sent with 200, except when adding jobs.
_SENT_WITH_OK = {HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT}


def routes(q: Kue, guard: Guard, options: AppOptions | None = None) -> list[Route]:
    """
    Return the routes of the API, to be mounted under any prefix.

    Reading needs the role viewer, DELETE admin, everything else operator: also
    ``GET /inactive/:id``, which restarts a job.
    """
    api = _AutomatticApi(q, guard, options)
    plain = [
        api.route("GET", "/stats", api.stats),
        api.route("GET", "/job/search", api.search, limit=api.searches),
        api.route("GET", "/job/types", api.types),
        *api.ranges("{first}..{last}", api.range),
        api.route("GET", "/jobs/{type:path}/{state}/stats", api.count),
        api.route("GET", "/job/{id}", api.job),
        api.route("GET", "/job/{id}/log", api.log),
        api.route("PUT", "/job/{id}/state/{state}", api.put_state),
        api.route("PUT", "/job/{id}/priority/{priority}", api.put_priority),
        api.route("DELETE", "/job/{id}", api.remove),
        api.route("POST", "/job", api.add, scope=Scope.ENQUEUE),
        api.route("GET", "/inactive/{id}", api.restart, scope=Scope.MANAGE),
    ]
    return plain + [_slashed(route) for route in plain]


def _slashed(route: Route) -> Route:
    """Return the route with a slash at its end, as Express allows and clients send."""
    slashed = Route(f"{route.path}/", route.endpoint)
    slashed.methods = route.methods
    return slashed


class _AutomatticApi(CompatApi):
    name = "kue"

    def show_error(self, problem: Refused, request: Request) -> Response:
        if request.method != "POST" and problem.status in _SENT_WITH_OK:
            return self.reply({"error": problem.detail})
        return self.reply({"error": problem.detail}, _status(problem), problem.headers)

    # -- reading ---------------------------------------------------------------

    async def stats(self, request: Request) -> Response:
        counted = await jobs.counts(self._q)
        worked = await self._q.work_time()
        return self.reply({**counted, "workTime": worked or None})

    async def range(self, request: Request) -> Response:
        """Take a range in the order jobs run in, and return it sorted by id."""
        params = request.path_params
        first, last = _span(params["first"], params["last"])
        name = params["state"].lower() if "state" in params else None
        if name not in (None, *job_json.STATES):
            return self.reply([])
        if first < 0 or (last is not None and last < 0):
            total = await jobs.total(self._q, name=name, type=params.get("type"))
            first = first if first >= 0 else max(0, total + first)
            last = last if last is None or last >= 0 else total + last
        if last is not None and last < first:
            return self.reply([])
        found = await jobs.page(
            self._q, first, last, name=name, type=params.get("type")
        )
        is_descending = params.get("order") == "desc"
        found.sort(key=lambda job: job.id, reverse=is_descending)
        return self.reply([_show(self._redaction.job(job)) for job in found])

    async def count(self, request: Request) -> Response:
        params = request.path_params
        name = params["state"].lower()
        if name not in job_json.STATES:
            return self.reply({"count": 0})
        count = await jobs.total(self._q, name=name, type=params["type"])
        return self.reply({"count": count})

    async def job(self, request: Request) -> Response:
        job = self._redaction.job(job_of(await self._get(request)))
        return self.reply({**_show(job), "id": str(job.id)})

    async def log(self, request: Request) -> Response:
        job_id = jobs.number_of(request.path_params["id"])
        lines = [] if job_id is None else await self._q.logs(job_id)
        return self.reply([self._redaction.text(line.text) for line in lines])

    # -- changing --------------------------------------------------------------

    async def put_state(self, request: Request) -> Response:
        name = request.path_params["state"].lower()
        if name not in job_json.STATES:
            raise bad_request("invalid state")
        await jobs.put(await self._get(request), name)
        return self.reply({"message": "updated state"})

    async def put_priority(self, request: Request) -> Response:
        priority = jobs.priority_of(request.path_params["priority"])
        if not isinstance(priority, int):
            raise bad_request("invalid priority")
        handle = await self._get(request)
        with input_errors():
            await handle.update(priority=priority)
        return self.reply({"message": "updated priority"})

    async def remove(self, request: Request) -> Response:
        """Remove a job, even if it is running, as Kue does."""
        handle = await self._get(request)
        await handle.remove(force=True)
        return self.reply({"message": f"job {handle.id} removed"})

    async def restart(self, request: Request) -> Response:
        """Restart a job: a GET that changes something, as in Kue."""
        handle = await self._get(request)
        await jobs.put(handle, "inactive")
        return self.reply({"message": f"job {handle.id} inactive"})

    async def add(self, request: Request) -> Response:
        """Add one job, or many: valid ones are added even if others are not."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip()
        # Kue ignores a body of another content type.
        body = await read_json(request) if kind.lower() == MEDIA_TYPE else None
        if body is not None and not isinstance(body, dict | list):
            raise bad_request("the body must be an object or a list")
        if not body:
            return Response(status_code=HTTPStatus.NO_CONTENT)
        if isinstance(body, list):
            return await self._add_many(body)
        return self.reply(_created(await self._add(body)))

    async def _add_many(self, wanted: list[JSON]) -> Response:
        if len(wanted) > MAX_JOBS:
            raise bad_request(
                f"one request adds at most {MAX_JOBS:,} jobs, not {len(wanted):,}"
            )
        # Enqueued concurrently, they go to the store together, in this order.
        answers = await asyncio.gather(
            *(self._add(one) for one in wanted), return_exceptions=True
        )
        results = [_result(answer) for answer in answers]
        failed = [status for _, status in results if status is not HTTPStatus.OK]
        return self.reply(
            [value for value, _ in results], failed[0] if failed else HTTPStatus.OK
        )

    async def _add(self, wanted: JSON) -> int:
        """Add a job and return its id."""
        if not isinstance(wanted, dict) or not wanted.get("type"):
            raise bad_request("Must provide job type")
        options = wanted.get("options") or {}
        with input_errors():
            if not isinstance(options, dict):
                raise ValueError("options must be an object")
            handle = await self._q.enqueue(
                wanted["type"],
                wanted.get("data") or {},
                **jobs.options_of(options, attempts="attempts"),
            )
        return handle.id

    async def _get(self, request: Request) -> JobHandle[Any]:
        text = request.path_params["id"]
        job_id = jobs.number_of(text)
        if job_id is not None:
            with suppress(JobNotFound):
                return await self._q.get(job_id)
        raise not_found(f'job "{text[:40]}" doesnt exist')


def _span(first: str, last: str) -> tuple[int, int | None]:
    """Return the ends of a range; a last of -1 is the end of all, and None here."""
    start, stop = _position(first), _position(last)
    if start is None or stop is None:
        raise bad_request(
            "a range counts from 0, such as 0..9, or from the end, such as -3..-1"
        )
    return start, None if stop == -1 else stop


def _position(text: str) -> int | None:
    """Return the position in *text*; negative ones count from the end."""
    number = jobs.number_of(text.removeprefix("-"))
    return -number if number is not None and text.startswith("-") else number


def _show(job: Job) -> dict[str, JSON]:
    """Return a job in Kue's JSON; what it does not have yet is omitted."""
    made, most = job_json.attempts_made(job), job_json.max_attempts(job)
    shown = {
        "id": job.id,
        "type": job.type,
        "data": {} if job.data is None else job.data,
        "result": job.result,
        "priority": job.priority,
        "progress": _text(job.progress) or 0,
        "progress_data": job.progress_data,
        "state": job_json.name_of(job.state),
        "error": _error(job),
        "created_at": _text(job.created_at),
        "promote_at": _text(job_json.due_at(job)),
        "updated_at": _text(job.updated_at),
        "failed_at": _text(job.failed_at),
        "started_at": _text(job.started_at),
        "duration": None if job.duration is None else str(job.duration),
        "delay": _text(job.spec.delay),
        "workerId": job.worker,
        "ttl": _text(job.ttl),
        "attempts": {
            "made": made,
            "remaining": max(0, most - made),
            "max": most,
        },
    }
    return {name: value for name, value in shown.items() if value is not None}


def _text(number: int | None) -> str | None:
    return str(number) if number else None


def _error(job: Job) -> str | None:
    """Return the last error as a line and its stack, in the format of Node."""
    if job.error is None:
        return job_json.reason_of(job)
    return "\n".join(filter(None, (job.error.summary, job.error.stack)))


def _created(job_id: int) -> dict[str, JSON]:
    return {"message": "job created", "id": job_id}


def _result(answer: int | BaseException) -> tuple[JSON, HTTPStatus]:
    """Return the result for one job of many; internal errors are raised."""
    if not isinstance(answer, BaseException):
        return _created(answer), HTTPStatus.OK
    problem = refused(answer) if isinstance(answer, Exception) else None
    if problem is None:
        raise answer
    return {"error": problem.detail}, _status(problem)


def _status(problem: Refused) -> HTTPStatus:
    # Kue reports every error of its store as one of the server.
    return min(problem.status, HTTPStatus.INTERNAL_SERVER_ERROR)
