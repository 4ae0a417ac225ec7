"""
REST API of Vert.x Kue, for programs made for it.

Every body is pretty-printed JSON.  A job has the fields of `kue.vertx.job_json.show`.
The search and the route to a job's priority, which its dashboard requested, work here.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from kue.client.handle import job_of
from kue.http.auth.roles import Scope
from kue.http.compat import jobs
from kue.http.compat.api import CompatApi, read_json
from kue.http.framework.problem import Refused, bad_request, input_errors
from kue.model.errors import JobNotFound
from kue.vertx import job_json

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.routing import Route

    from kue.client.handle import JobHandle
    from kue.client.queue import Kue
    from kue.http.auth.access import Guard
    from kue.http.options import AppOptions
    from kue.model.payload import JSON


def routes(q: Kue, guard: Guard, options: AppOptions | None = None) -> list[Route]:
    """
    Return the routes of the API, to be mounted under any prefix.

    Reading needs the role viewer, DELETE admin, everything else operator.
    """
    api = _VertxApi(q, guard, options)
    return [
        api.route("GET", "/job/search/{text:path}", api.search, limit=api.searches),
        api.route("GET", "/stats", api.stats),
        api.route("GET", "/job/types", api.types),
        *api.ranges("{first}/to/{last}", api.range),
        api.route("GET", "/jobs/{type:path}/{state}/stats", api.count),
        api.route("PUT", "/job", api.add, scope=Scope.ENQUEUE),
        api.route("PUT", "/job/{id}/state/{state}", api.put_state),
        api.route("PUT", "/job/{id}/priority/{priority}", api.put_priority),
        api.route("GET", "/job/{id}", api.job),
        api.route("GET", "/job/{id}/log", api.log),
        api.route("DELETE", "/job/{id}", api.remove),
        api.route("POST", "/inactive/{id}", api.restart),
    ]


class _VertxApi(CompatApi):
    name = "vertx"
    is_pretty = True

    def show_error(self, problem: Refused, request: Request) -> Response:
        status = problem.status
        if status is HTTPStatus.NOT_FOUND:
            return self.reply({"message": "job_not_found"}, status)
        if status is HTTPStatus.INSUFFICIENT_STORAGE:
            status = HTTPStatus.SERVICE_UNAVAILABLE
        return self.reply({"error": problem.detail}, status, problem.headers)

    # -- reading ---------------------------------------------------------------

    async def stats(self, request: Request) -> Response:
        worked = await self._q.work_time()
        return self.reply({"workTime": worked, **await jobs.counts(self._q)})

    async def range(self, request: Request) -> Response:
        params = request.path_params
        first, last = _span(params["first"], params["last"])
        with input_errors():
            order = job_json.read_order(params.get("order", "asc"))
            name = job_json.read_state(params["state"]) if "state" in params else None
        found = await jobs.page(
            self._q, first, last, order, name=name, type=params.get("type")
        )
        return self.reply([job_json.show(self._redaction.job(job)) for job in found])

    async def count(self, request: Request) -> Response:
        params = request.path_params
        with input_errors():
            name = job_json.read_state(params["state"])
        count = await jobs.total(self._q, name=name, type=params["type"])
        return self.reply({"count": count})

    async def job(self, request: Request) -> Response:
        try:
            handle = await self._get(request)
        except JobNotFound:
            return Response(status_code=HTTPStatus.NOT_FOUND)
        return self.reply(job_json.show(self._redaction.job(job_of(handle))))

    async def log(self, request: Request) -> Response:
        lines = await self._q.logs(_id(request))
        return self.reply([self._redaction.text(line.text) for line in lines])

    # -- changing --------------------------------------------------------------

    async def add(self, request: Request) -> Response:
        """
        Add a job.

        The body is a job, of which only the options of a new one count: an id, a state
        or attempts made are ignored.
        """
        body = await read_json(request)
        with input_errors():
            wanted = _wanted(body)
            handle = await self._q.enqueue(
                wanted["type"], wanted.get("data") or {}, **_options(wanted)
            )
        created = {"message": "job created", "id": handle.id}
        return self.reply(created, HTTPStatus.CREATED)

    async def put_state(self, request: Request) -> Response:
        with input_errors():
            name = job_json.read_state(request.path_params["state"])
        await jobs.put(await self._get(request), name)
        return self.reply({"message": "job_state_updated"})

    async def put_priority(self, request: Request) -> Response:
        handle = await self._get(request)
        with input_errors():
            priority = jobs.priority_of(request.path_params["priority"])
            await handle.update(priority=priority)
        return self.reply({"message": "job_priority_updated"})

    async def remove(self, request: Request) -> Response:
        """Remove a job, even if it is running; a missing one is not an error."""
        job_id = _id(request)
        await self._q.remove_many([job_id], force=True)
        return self.reply({"message": f"job {job_id} removed"})

    async def restart(self, request: Request) -> Response:
        handle = await self._get(request)
        await jobs.put(handle, "inactive")
        return self.reply({"message": f"job {handle.id} restart"})

    async def _get(self, request: Request) -> JobHandle[Any]:
        return await self._q.get(_id(request))


def _id(request: Request) -> int:
    text = request.path_params["id"]
    job_id = jobs.number_of(text)
    if job_id is None:
        raise bad_request(f"a job's id is a number, not {text[:40]!r}")
    return job_id


def _span(first: str, last: str) -> tuple[int, int]:
    start, stop = jobs.number_of(first), jobs.number_of(last)
    if start is None or stop is None or stop < start:
        raise bad_request("a range counts from 0 and goes forward, such as 0/to/9")
    return start, stop


def _wanted(body: JSON) -> dict[str, JSON]:
    if not isinstance(body, dict):
        raise ValueError("a job is an object")
    if body.get("type") is None:
        raise ValueError("Job type cannot be null")
    if not isinstance(body.get("data") or {}, dict):
        raise ValueError("data must be an object")
    return body


def _options(wanted: dict[str, JSON]) -> dict[str, Any]:
    options = jobs.options_of(wanted, attempts="max_attempts")
    # The sender may be subscribed to this address already.
    if address := wanted.get("address_id"):
        options["address_id"] = address
    return options
