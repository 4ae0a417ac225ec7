"""Circuits over HTTP: look, open, close."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import httpx
import pytest

from kue import Kue
from tests.http.conftest import Http
from tests.http.test_queues import ODD
from tests.support.jobs import HOUR

on_any_store = pytest.mark.parametrize("url", ["memory://"])


def path(name: str, act: str) -> str:
    return f"/circuits/{quote(name, safe='')}/{act}"


async def test_circuits_are_listed_by_name(client: httpx.AsyncClient, q: Kue) -> None:
    assert (await client.get("/circuits")).json() == {"circuits": []}
    opened = await q.open_circuit("stripe", for_="1h", reason="moves", by="ann")
    await q.open_circuit("paypal")
    await q.close_circuit("paypal", by="bob")

    paypal, stripe = (await client.get("/circuits")).json()["circuits"]

    assert stripe == {
        "name": "stripe",
        "state": "open",
        "until": opened.until,
        "opened_at": opened.opened_at,
        "failures": 0,
        "last_error": "",
        "failed_at": None,
        "cause": "opened by ann: moves",
        "by": "ann",
        "probe": None,
        "closed_at": None,
    }
    assert (paypal["name"], paypal["state"], paypal["by"]) == (
        "paypal",
        "closed",
        "bob",
    )
    assert paypal["closed_at"] > 0


async def test_a_circuit_is_opened_and_closed(
    client: httpx.AsyncClient, q: Kue
) -> None:
    order = {"for": "1h", "reason": "they move"}

    opened = (await client.post("/circuits/stripe/open", json=order)).json()
    [known] = await q.circuits()
    closed = (await client.post("/circuits/stripe/close")).json()

    assert (opened["state"], opened["by"]) == ("open", "local")
    assert opened["cause"] == "opened by local: they move"
    assert opened["until"] == known.until
    assert opened["until"] - opened["opened_at"] == HOUR
    assert (closed["state"], closed["until"], closed["by"]) == ("closed", None, "local")


@on_any_store
async def test_a_circuit_opens_for_five_minutes_unless_told_otherwise(
    client: httpx.AsyncClient,
) -> None:
    opened = (await client.post("/circuits/stripe/open", json={})).json()

    assert opened["until"] - opened["opened_at"] == 300_000


@pytest.mark.parametrize("name", ODD)
async def test_a_circuit_may_have_any_name(
    client: httpx.AsyncClient, q: Kue, name: str
) -> None:
    opened = await client.post(path(name, "open"), json={})
    closed = await client.post(path(name, "close"))

    assert [one.json()["name"] for one in (opened, closed)] == [name, name]
    assert [one.name for one in await q.circuits()] == [name]


@on_any_store
@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"for": "soon"}, "body.for"),
        ({"for": "0s"}, "body.for"),
        ({"for": "400d"}, "body.for"),
        ({"for": 300}, "body.for"),
        ({"reason": "x" * 501}, "body.reason"),
        ({"until": 1}, "body"),
    ],
)
async def test_an_order_that_makes_no_sense_is_refused(
    client: httpx.AsyncClient, q: Kue, body: Any, field: str
) -> None:
    answer = await client.post("/circuits/stripe/open", json=body)

    assert (answer.status_code, answer.json()["field"]) == (400, field)
    assert await q.circuits() == []


@on_any_store
async def test_a_circuit_that_nobody_knows_cannot_be_closed(
    client: httpx.AsyncClient,
) -> None:
    answer = await client.post("/circuits/strype/close")

    assert answer.status_code == 404
    assert answer.json()["detail"] == (
        "no circuit 'strype' has opened or failed in the last day"
    )


@on_any_store
async def test_a_viewer_only_looks(http: Http) -> None:
    async with http.client("viewer") as viewer:
        looked = await viewer.get("/circuits")
        opened = await viewer.post("/circuits/stripe/open", json={})
        closed = await viewer.post("/circuits/stripe/close")

    assert looked.status_code == 200
    assert (opened.status_code, closed.status_code) == (403, 403)
