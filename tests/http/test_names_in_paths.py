"""S-3, S-8: names that stand in the path of a URL."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from msgspec.structs import replace

from kue import Kue, concurrency
from kue.model.draft import draft
from tests.support.schedules import every

on_any_store = pytest.mark.parametrize("url", ["memory://"])
dots = pytest.mark.parametrize("name", [".", ".."])


@on_any_store
@dots
async def test_no_type_has_such_a_name(q: Kue, name: str) -> None:
    with pytest.raises(ValueError, match="type must not be"):
        await q.enqueue(name)
    with pytest.raises(ValueError, match="type must not be"):
        await q.pause(name)
    with pytest.raises(ValueError, match="type must not be"):
        await q.limit(name, concurrency=1)
    with pytest.raises(ValueError, match="type must not be"):
        q.process(name, 1, print)
    with pytest.raises(ValueError, match="limit must not be"):
        await q.set_limit(name, concurrency(1))
    with pytest.raises(ValueError, match="schedule name must not be"):
        every(name, "1m", draft("email"), first_at=0)


@on_any_store
@pytest.mark.parametrize("name", [".", "..", "a\x1b[2J", "a\nb", "x" * 5_000])
async def test_no_worker_has_such_a_name(q: Kue, name: str) -> None:
    q.process("email", 1, print)

    with pytest.raises(ValueError, match="worker name"):
        async with q.work(name=name):
            pass
    with pytest.raises(ValueError, match="worker name"):
        await q.pause(worker=name)


async def test_no_api_takes_such_a_type(q: Kue, client: httpx.AsyncClient) -> None:
    root = str(client.base_url).removesuffix("/api/v1/")
    bodies: list[tuple[str, str, dict[str, Any]]] = [
        ("POST", f"{root}/api/v1/jobs", {"type": ".."}),
        ("POST", f"{root}/kue/job", {"type": ".."}),
        ("PUT", f"{root}/vertx-kue/job", {"type": ".."}),
    ]
    answers = [
        await client.request(method, url, json=body) for method, url, body in bodies
    ]

    assert [answer.status_code for answer in answers] == [400] * 3
    assert await q.counts_by_type() == {}


async def test_a_type_that_is_there_already_pauses_nothing_else(
    q: Kue, client: httpx.AsyncClient
) -> None:
    """A store of an older version may have one."""
    old = replace(draft("email"), type="..")
    await q.store.add([old], producer="p", seq=1)

    answer = await client.post("/queues/%2E%2E/pause", json={})

    assert answer.status_code in (400, 404)
    assert await q.paused() == []


@on_any_store
@pytest.mark.parametrize("type", [["l"], {"a": 1}, 7, True])
async def test_s_8_a_type_that_is_not_text_is_told_so(
    client: httpx.AsyncClient, q: Kue, type: object
) -> None:
    root = str(client.base_url).removesuffix("/api/v1/")
    answers = [
        await client.post(f"{root}/kue/job", json={"type": type}),
        await client.put(f"{root}/vertx-kue/job", json={"type": type}),
        await client.post("/jobs", json={"type": type}),
    ]

    assert [answer.status_code for answer in answers] == [400] * 3
    assert "type must be text, not" in answers[0].text
    assert "type must be text, not" in answers[1].text
    assert answers[2].json()["field"] == "body.type"
