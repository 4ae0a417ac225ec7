"""What every route of the API answers while the store is away."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest

from kue.http.framework.problem import CONTENT_TYPE
from tests.http.test_matrix import FILLED, TABLE

PREFIX = "/api/v1"
#: Routes that ask nothing of the store, and what they answer.
WITHOUT = {
    "GET /openapi.json": 200,
    "GET /health": 200,
    "GET /jobs/bulk/{bulk_id}": 404,
    "POST /jobs/bulk/{bulk_id}/stop": 404,
    "GET /me": 200,
    # Where there are no accounts.
    "GET /login": 200,
    "POST /login": 404,
    "POST /logout": 404,
    "PUT /me/password": 404,
    # The stream says itself that the store is away: tests/http/test_events.py.
    "GET /events": 200,
    # Those that were seen before; GET /bus tells that it is away.
    "GET /bus/samples": 200,
    # It says of each store whether it is away.
    "GET /connections": 200,
    # It has a metric for that.
    "GET /metrics": 200,
}
#: What to send, where something must be sent.
BODIES: dict[str, Any] = {
    "POST /pause": {},
    "POST /queues/{type}/pause": {},
    "PUT /queues/{type}/limits": {"concurrency": 1},
    "POST /queues/{type}/clear": {"states": ["failed"]},
    "POST /circuits/{name}/open": {},
    "POST /flows": {"steps": [{"name": "a", "job": {"type": "email"}}]},
    "POST /jobs/bulk": {"action": "retry", "ids": [1]},
    "POST /jobs": {"type": "email"},
    "POST /jobs/batch": [{"type": "email"}],
    "PATCH /jobs/{job_id}": {"priority": 1},
    "POST /jobs/{job_id}/priority": {"priority": "high"},
    "POST /jobs/{job_id}/reschedule": {"delay": "1h"},
    "POST /jobs/{job_id}/signals": {"name": "paid"},
    "PUT /schedules/{name}": {"type": "email", "every": "1h"},
    "PUT /limits/{name}": {"concurrency": 1},
    "PUT /alerts/default": {"backlog": 10},
    "PUT /queues/{type}/alert": {"backlog": 10},
    "PUT /failures/default": {"dead_letter": "dead"},
    "PUT /queues/{type}/failures": {"dead_letter": "dead"},
    "POST /failures/replay": {"dead_letter": "dead"},
    "POST /workers/{name}/pause": {},
    "POST /login": {"name": "ann", "password": "correct horse"},
    "PUT /me/password": {"current": "correct horse", "password": "battery staple"},
    "POST /users": {"name": "ann", "password": "correct horse battery"},
    "PUT /users/{name}": {"role": "viewer"},
    "POST /tokens": {"name": "ci", "scopes": ["read"]},
    "POST /bus/messages": {"address": "news"},
}
ROUTES = [route.replace(PREFIX, "", 1) for route in TABLE if f" {PREFIX}/" in route]


@pytest.mark.parametrize("route", ROUTES)
async def test_a_route_says_that_the_store_is_away(
    lost: httpx.AsyncClient, route: str
) -> None:
    method, path = route.split(" ")
    path = re.sub(r"{(\w+)}", lambda found: FILLED.get(found[1], "nothing"), path)

    request = lost.build_request(method, path, json=BODIES.get(route))
    answer = await lost.send(request, stream=True)
    must = WITHOUT.get(route, 503)
    if must != 200:
        await answer.aread()

    assert answer.status_code == must
    if must == 503:
        assert answer.headers["content-type"] == CONTENT_TYPE
        assert answer.headers["retry-after"] == "1"
        # Where it is to be is nobody's business.
        assert "127.0.0.1" not in answer.text
    await answer.aclose()
