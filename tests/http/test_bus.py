"""The event bus over HTTP: looked at, listened in, and sent to."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette

from kue import Kue
from kue.bus import EventBus, Message
from kue.bus.redis import RedisCluster
from kue.http import create_app
from kue.http.auth.access import Anyone
from kue.http.security.redaction import Redaction
from kue.http.streaming import bus_node, bus_samples
from kue.http.streaming.bus_samples import hidden_text
from tests.http.accounts import site_of
from tests.http.conftest import Http
from tests.support.patience import PATIENCE_SECONDS, until
from tests.support.servers import RedisServer

on_redis = pytest.mark.parametrize("url", ["redis"], indirect=True)


@pytest.fixture
async def bus(redis_server: RedisServer, url: str) -> AsyncIterator[EventBus]:
    """A node beside the server, which answers."""

    def greet(message: Message) -> None:
        message.reply({"hello": message.body}, headers={"lang": "en", "token": "t0p"})

    cluster = RedisCluster(redis_server.url, heartbeat=0.2, lease=3)
    async with EventBus(cluster) as bus:
        bus.consumer("deaf", lambda message: None)
        bus.consumer("broken", lambda message: message.fail(7, "password=abc is old"))
        bus.consumer("bytes", lambda message: message.reply(b"\x00"))
        bus.consumer("large", lambda message: message.reply(["x" * 100] * 5_000))
        bus.consumer("secret", lambda message: message.reply({"password": "abc"}))
        await bus.consumer("greeter", greet).ready()
        yield bus


@pytest.fixture
async def app(q: Kue) -> AsyncIterator[Starlette]:
    app = create_app(q, guard=Anyone())
    yield app
    await app.state.live.close()


@pytest.fixture
async def client(http: Http, app: Starlette) -> AsyncIterator[httpx.AsyncClient]:
    async with http.client_of(app) as client:
        yield client


async def read_when(
    client: httpx.AsyncClient, path: str, is_so: Any, **params: Any
) -> Any:
    """Ask until the answer is what is waited for: nodes tell with their beats."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            answer = await client.get(path, params=params)
            assert answer.status_code == 200, answer.text
            if is_so(found := answer.json()):
                return found
            await asyncio.sleep(0.02)


async def ask(client: httpx.AsyncClient, address: str, **message: Any) -> Any:
    answer = await client.post(
        "/bus/messages", json={"address": address, "kind": "request", **message}
    )
    assert answer.status_code == 200, answer.text
    return answer.json()


# -- without Redis -------------------------------------------------------------


@pytest.mark.parametrize("url", ["memory://"])
async def test_without_redis_there_is_no_bus(client: httpx.AsyncClient) -> None:
    bus = (await client.get("/bus")).json()
    others = [
        await client.get("/bus/addresses"),
        await client.get("/bus/samples"),
        await client.post("/bus/messages", json={"address": "news"}),
    ]

    assert (bus["available"], bus["nodes"]) == (False, [])
    assert "meets in Redis" in bus["reason"]
    assert [answer.status_code for answer in others] == [404, 404, 404]
    assert {answer.json()["detail"] for answer in others} == {bus["reason"]}


# -- looking -------------------------------------------------------------------


@on_redis
async def test_nodes_are_shown_with_what_passes_them(
    client: httpx.AsyncClient, bus: EventBus
) -> None:
    await bus.request("greeter")

    shown = await read_when(client, "/bus", lambda it: it["total"]["latency"])

    [one] = shown["nodes"]
    assert (one["name"], one["pid"]) == (bus.node, os.getpid())
    assert (one["lost"], one["given_up"], one["waiting"]) == (0, 0, 0)
    assert one["flow"]["consumers"] == shown["total"]["consumers"] == 6
    assert shown["total"]["latency"]["p95"] >= 1
    assert shown["total"]["sent"] == 1
    assert shown["total"]["failures"] == {}


@on_redis
async def test_a_bus_without_nodes_is_empty(client: httpx.AsyncClient) -> None:
    shown = (await client.get("/bus")).json()

    assert (shown["available"], shown["nodes"]) == (True, [])
    assert shown["total"]["latency"] is None


@on_redis
async def test_addresses_are_found_by_a_part_of_their_name(
    client: httpx.AsyncClient, bus: EventBus
) -> None:
    bus.publish("News", 1)
    bus.publish("NEWSPAPER", 1)

    found = await read_when(
        client, "/bus/addresses", lambda it: it["found"] == 2, text="news"
    )
    one = (await client.get("/bus/addresses?text=news&limit=1")).json()
    greeter = (await client.get("/bus/addresses?text=greeter")).json()["addresses"]

    assert {it["address"] for it in found["addresses"]} == {"News", "NEWSPAPER"}
    assert (len(one["addresses"]), one["found"], one["rest"]) == (1, 2, 0)
    assert (greeter[0]["nodes"], greeter[0]["consumers"]) == ([bus.node], 1)


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "limit=x", "what=1"])
@on_redis
async def test_a_query_that_makes_no_sense_is_400(
    client: httpx.AsyncClient, query: str
) -> None:
    assert (await client.get(f"/bus/addresses?{query}")).status_code == 400


# -- samples -------------------------------------------------------------------


@on_redis
async def test_messages_are_shown_cut_and_without_secrets(
    client: httpx.AsyncClient, bus: EventBus
) -> None:
    seen: list[Any] = []
    last = 0
    body = {"to": "ann", "password": "abc", "text": "x" * 2_000}
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not seen:
            bus.publish("news", body, headers={"Action": "save"})
            answer = (await client.get(f"/bus/samples?after={last}")).json()
            seen += answer["messages"]
            last = answer["last"]
            await asyncio.sleep(0.02)

    one = seen[0]
    assert (one["address"], one["kind"], one["node"]) == ("news", "publish", bus.node)
    assert one["headers"] == ["Action"]
    assert one["size"] > 2_000
    assert one["body"].startswith('{"to":"ann","password":"•••","text":"xxx')
    assert len(one["body"]) <= 501
    assert seen[-1]["id"] == last


@pytest.mark.parametrize(
    ("codec", "body", "shown"),
    [
        ("failure", {"text": "password=abc"}, '{"text":"password=•••"}'),
        ("failure", ["odd"], '["odd"]'),
        ("json", "token: abc", "token: •••"),
        ("json", None, "null"),
        ("bytes", None, ""),
    ],
)
@on_redis
async def test_every_kind_of_body_is_shown_as_it_may_be(
    client: httpx.AsyncClient,
    redis_server: RedisServer,
    codec: str,
    body: Any,
    shown: str,
) -> None:
    told = {"at": 1, "address": "a", "kind": "reply", "codec": codec, "body": body}
    seen: list[Any] = []
    with redis_server.client() as redis:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not seen:
                channel = "{kue:bus}:samples"
                redis.execute_command("SPUBLISH", channel, json.dumps([told]))
                seen = (await client.get("/bus/samples")).json()["messages"]
                await asyncio.sleep(0.01)

    assert seen[0]["body"] == shown


@on_redis
async def test_a_server_that_is_asked_no_more_looks_no_more(
    client: httpx.AsyncClient,
    app: Starlette,
    bus: EventBus,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bus_samples, "IDLE_SECONDS", 0.1)
    await client.get("/bus/samples")

    task = app.state.samples._task
    await until(task.done)

    # And it begins anew.
    await client.get("/bus/samples?after=999999")
    assert app.state.samples._task is not task


@pytest.mark.parametrize(
    "text",
    [
        'password="abc def',
        '{"password": "abc def',
        "{'password': 'abc def",
        "password=abc",
    ],
)
def test_a_secret_whose_end_was_cut_off_is_hidden(text: str) -> None:
    shown = hidden_text(Redaction(), text, is_cut=True)

    assert "abc" not in shown
    assert "•••" in shown


# -- sending -------------------------------------------------------------------


@on_redis
async def test_a_request_is_answered(client: httpx.AsyncClient, bus: EventBus) -> None:
    outcome = await ask(client, "greeter", body="ann")

    assert outcome["nodes"] == 1
    assert outcome["failure"] is None
    assert outcome["reply"]["body"] == {"hello": "ann"}
    assert outcome["reply"]["headers"] == {"lang": ["en"], "token": ["•••"]}
    assert outcome["took_ms"] > 0


@on_redis
async def test_a_message_is_sent_or_published(
    client: httpx.AsyncClient, bus: EventBus
) -> None:
    consumer = bus.consumer("news")
    await consumer.ready()

    outcomes = [
        (
            await client.post(
                "/bus/messages",
                json={"address": "news", "kind": kind, "headers": {"A": "b"}},
            )
        ).json()
        for kind in ("send", "publish")
    ]

    async with asyncio.timeout(PATIENCE_SECONDS):
        heard = [await anext(consumer) for _ in range(2)]
    assert [message.is_send for message in heard] == [True, False]
    assert heard[0].headers["a"] == "b"
    assert [outcome["nodes"] for outcome in outcomes] == [1, 1]
    assert [outcome["reply"] for outcome in outcomes] == [None, None]


@on_redis
async def test_that_there_is_no_reply_is_the_outcome(
    client: httpx.AsyncClient, bus: EventBus
) -> None:
    nobody = await ask(client, "nobody")
    deaf = await ask(client, "deaf", timeout="50ms")
    broken = await ask(client, "broken")

    assert (nobody["nodes"], nobody["failure"]["kind"]) == (0, "NO_HANDLERS")
    assert deaf["failure"]["kind"] == "TIMEOUT"
    assert broken["failure"] == {
        "kind": "RECIPIENT_FAILURE",
        "code": 7,
        "text": "password=••• is old",
    }


@on_redis
async def test_replies_are_shown_as_far_as_they_may_and_can_be(
    client: httpx.AsyncClient, bus: EventBus
) -> None:
    raw = (await ask(client, "bytes"))["reply"]
    secret = (await ask(client, "secret"))["reply"]
    large = (await ask(client, "large"))["reply"]

    assert (raw["codec"], raw["body"]) == ("bytes", None)
    assert secret["body"] == {"password": "•••"}
    assert large["is_cut"]
    assert len(large["body"]) < 100


@pytest.mark.parametrize(
    ("message", "field"),
    [
        ({}, "body"),
        ({"address": ""}, "body.address"),
        ({"address": "x" * 1001}, "body.address"),
        ({"address": "a", "kind": "shout"}, "body.kind"),
        ({"address": "a", "timeout": 31}, "body.timeout"),
        ({"address": "a", "timeout": "soon"}, "body.timeout"),
        ({"address": "a", "timeout": 0}, "body.timeout"),
        ({"address": "a", "headers": {"x": 1}}, "body.headers[...]"),
        ({"address": "a", "headers": {"": "x"}}, "body.headers"),
        ({"address": "a", "headers": {"x": "y" * 4001}}, "body.headers[...]"),
        (
            {"address": "a", "headers": {str(n): "x" for n in range(51)}},
            "body.headers",
        ),
        ({"address": "a", "what": 1}, "body"),
    ],
)
@on_redis
async def test_a_message_that_makes_no_sense_is_refused(
    client: httpx.AsyncClient, app: Starlette, message: Any, field: str
) -> None:
    answer = await client.post("/bus/messages", json=message)

    assert (answer.status_code, answer.json()["field"]) == (400, field)
    assert not app.state.node.is_joined


@on_redis
async def test_the_server_leaves_the_bus_when_it_idles_and_comes_back(
    client: httpx.AsyncClient,
    app: Starlette,
    bus: EventBus,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert len(bus.nodes) == 1
    monkeypatch.setattr(bus_node, "IDLE_SECONDS", 0.1)

    await ask(client, "greeter")
    await until(lambda: not app.state.node.is_joined)
    await until(lambda: len(bus.nodes) == 1)

    assert (await ask(client, "greeter"))["reply"] is not None


@on_redis
async def test_too_many_at_once_are_refused(
    client: httpx.AsyncClient, bus: EventBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bus_node, "MAX_USERS", 0)

    answer = await client.post("/bus/messages", json={"address": "greeter"})

    assert answer.status_code == 429
    assert answer.headers["retry-after"] == "1"


@on_redis
async def test_a_message_is_in_the_audit_log(
    client: httpx.AsyncClient, bus: EventBus
) -> None:
    await ask(client, "greeter", body={"name": "ann", "api_key": "k"})

    [act] = (await client.get("/audit")).json()["acts"]
    assert act["what"] == "bus.send_message"
    assert '"api_key":"•••"' in act["detail"]


@pytest.mark.parametrize("url", ["memory://"])
async def test_sending_takes_an_admin(q: Kue) -> None:
    """Services on the bus do what REST leaves to admins: jobs can be removed there."""
    async with site_of(q) as site:
        for who, status in [("viewer", 403), ("operator", 403), ("admin", 404)]:
            async with site.client(headers=await site.headers(who)) as client:
                answer = await client.post("/bus/messages", json={"address": "a"})
            assert (who, answer.status_code) == (who, status)
