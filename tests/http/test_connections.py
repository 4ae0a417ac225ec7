"""Named connections over HTTP: what they are, and which of them answer."""

from __future__ import annotations

import asyncio
import socket
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

import kue
from kue import Kue
from kue.client import connection_check
from kue.model.connections import VARIABLE
from tests.http.conftest import HOST, Http
from tests.support.patience import until

pytestmark = pytest.mark.usefixtures("no_connections")
on_any_store = pytest.mark.parametrize("url", ["memory://"])
DOWN = {"url": f"redis://{HOST}:1/0", "budget": "50ms"}


async def listed(client: httpx.AsyncClient) -> list[dict[str, Any]]:
    answer = await client.get("/connections")
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["connections"]
    return found


async def test_the_queue_of_the_server_comes_first_and_has_no_name(
    client: httpx.AsyncClient, q: Kue, url: str
) -> None:
    kue.configure(mail="memory://")

    own, mail = await listed(client)

    assert own == {
        "name": None,
        "url": url,
        "prefix": q.settings.prefix,
        "engine": url.partition(":")[0],
        "answers": True,
        "problem": None,
        "members": [],
        "current": None,
        "since": None,
        "is_own": True,
    }
    assert (mail["name"], mail["engine"], mail["is_own"]) == ("mail", "memory", False)


async def test_the_queue_of_the_server_has_the_name_of_its_store(
    client: httpx.AsyncClient, url: str
) -> None:
    kue.configure(mail="memory://", shop=url)

    shop, mail = await listed(client)

    assert (shop["name"], shop["is_own"], shop["answers"]) == ("shop", True, True)
    assert (mail["name"], mail["is_own"]) == ("mail", False)


async def test_each_engine_is_asked_whether_it_answers(
    client: httpx.AsyncClient, url: str, tmp_path: Path
) -> None:
    kue.configure(
        again={"url": url, "keep_failed": "1d"} | _prefix(url),
        down=DOWN,
        missing=f"sqlite:///{tmp_path}/missing.db",
        inline="sync://",
        nothing="null://",
    )
    # It is a queue of its own, or the same file.
    found = {one["name"]: one for one in await listed(client)}

    assert found["again"]["answers"]
    assert (found["down"]["engine"], found["down"]["answers"]) == ("redis", False)
    assert "cannot be reached" in found["down"]["problem"]
    assert "there is no store" in found["missing"]["problem"]
    assert not (tmp_path / "missing.db").exists()
    assert (found["inline"]["engine"], found["inline"]["answers"]) == ("sync", True)
    assert (found["nothing"]["engine"], found["nothing"]["answers"]) == ("null", True)


def _prefix(url: str) -> dict[str, str]:
    return {"prefix": "again"} if url.startswith("redis") else {}


@on_any_store
async def test_passwords_are_masked_as_the_command_line_does(
    client: httpx.AsyncClient,
) -> None:
    kue.configure(
        mail=DOWN | {"url": f"redis://ann:hunter2@{HOST}:1/0"},
        other=DOWN | {"url": f"redis://{HOST}:1/0?password=hunter2"},
    )

    answer = await client.get("/connections")

    assert "hunter2" not in answer.text
    assert [one["url"] for one in answer.json()["connections"][1:]] == [
        f"redis://ann:***@{HOST}:1/0",
        f"redis://{HOST}:1/0?password=***",
    ]


@on_any_store
async def test_stores_that_never_reply_take_no_longer_than_one_of_them(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_check, "TIMEOUT_SECONDS", 0.5)
    with socket.create_server((HOST, 0)) as silent:
        url = f"redis://{HOST}:{silent.getsockname()[1]}/0"
        kue.configure(**dict.fromkeys([f"s{number}" for number in range(40)], url))
        began = time.monotonic()

        found = await listed(client)

    # One after the other, they would take twenty.
    assert time.monotonic() - began < 15
    assert {one["problem"] for one in found[1:]} == {
        "it did not answer within 0.5 seconds"
    }
    await until(lambda: not connection_check._late)


@on_any_store
async def test_a_failover_shows_its_members_and_which_is_used_since_when(
    client: httpx.AsyncClient,
) -> None:
    kue.configure(main=DOWN, spare="memory://", orders="failover://main,spare")
    [before] = [one for one in await listed(client) if one["name"] == "orders"]
    orders = kue.connect("orders")
    [connected] = [one for one in await listed(client) if one["name"] == "orders"]

    began = time.time_ns() // 1_000_000
    await orders.enqueue("confirm")
    [after] = [one for one in await listed(client) if one["name"] == "orders"]
    await orders.close()

    assert (before["current"], before["since"]) == (None, None)
    assert (connected["current"], connected["since"]) == ("main", None)
    assert (after["url"], after["engine"]) == ("failover://main,spare", None)
    assert (after["answers"], after["problem"]) == (True, None)
    main, spare = after["members"]
    assert spare == {"name": "spare", "answers": True, "problem": None}
    assert (main["name"], main["answers"]) == ("main", False)
    assert "cannot be reached" in main["problem"]
    assert after["current"] == "spare"
    assert began <= after["since"] <= time.time_ns() // 1_000_000


async def test_a_store_that_was_given_is_named_and_not_that_of_the_settings() -> None:
    async with (
        Kue("memory://") as other,
        Kue(DOWN["url"], store=other.store) as q,
        Http(q).client() as client,
    ):
        [own] = await listed(client)

    assert (own["name"], own["url"], own["engine"]) == (None, "memory://", "memory")
    assert own["answers"]


async def test_the_queue_of_the_server_may_be_a_failover() -> None:
    kue.configure(main=DOWN, spare="memory://", orders="failover://main,spare")
    async with Kue("failover://main,spare") as q, Http(q).client() as client:
        await q.enqueue("confirm")

        own = (await listed(client))[0]

    assert (own["name"], own["is_own"], own["answers"]) == ("orders", True, True)
    assert own["current"] == "spare"
    assert [one["answers"] for one in own["members"]] == [False, True]


@on_any_store
async def test_blocking_code_switches_too(client: httpx.AsyncClient) -> None:
    kue.configure(main=DOWN, spare="memory://", orders="failover://main,spare")
    orders = kue.connect("orders")
    await asyncio.to_thread(orders.sync.enqueue, "confirm")

    found = {one["name"]: one for one in await listed(client)}
    await asyncio.to_thread(orders.sync.close)

    assert found["orders"]["current"] == "spare"


@on_any_store
async def test_a_failover_without_a_member_that_answers_does_not_either(
    client: httpx.AsyncClient,
) -> None:
    kue.configure(main=DOWN, spare=DOWN, orders="failover://main,spare")
    kue.configure(broken="failover://main,nobody")

    found = {one["name"]: one for one in await listed(client)}

    assert found["orders"]["problem"] == "none of its connections answers"
    assert "there is no connection 'nobody'" in found["broken"]["problem"]
    assert found["broken"]["url"] == ""


@on_any_store
async def test_connections_that_fail_over_in_a_circle_do_not_answer(
    client: httpx.AsyncClient,
) -> None:
    kue.configure(
        main="memory://",
        first="failover://main,second",
        second="failover://main,first",
        outer="failover://main,first",
        nested="failover://main,inner",
        inner="failover://main,spare",
        spare="memory://",
    )

    found = {one["name"]: one for one in await listed(client)}

    for name in ("first", "second", "outer"):
        assert found[name]["problem"] == "its connections fail over in a circle"
    assert found["nested"]["answers"]


@on_any_store
async def test_a_variable_that_cannot_be_read_is_reported(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "redis://ann:hunter2@mail/0")

    answer = await client.get("/connections")
    monkeypatch.delenv(VARIABLE)

    found = answer.json()
    assert "KUE_CONNECTIONS has pairs" in found["problem"]
    assert [one["is_own"] for one in found["connections"]] == [True]
    assert "hunter2" not in answer.text


@on_any_store
async def test_only_an_admin_sees_other_stores(http: Http) -> None:
    for role, status in [("viewer", 403), ("operator", 403), ("admin", 200)]:
        async with http.client(role) as client:
            assert (await client.get("/connections")).status_code == status
