"""What other sites make a browser send, and names that are not this server's."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.types import Message

from kue import Kue
from kue.http import AccountGuard, Role, create_app
from kue.http.auth.startup_token import LocalhostGuard, StartupToken
from kue.http.security.csrf import AllowedHosts, CsrfProtection
from tests.http.accounts import CHEAP, site_of
from tests.http.conftest import serving

on_any_store = pytest.mark.parametrize("url", ["memory://"])

HOST = "kue.example:8000"
#: Headers of requests that no page of another origin can have made.
OURS = [
    {},
    {"sec-fetch-site": "same-origin"},
    {"sec-fetch-site": "none"},
    {"origin": f"http://{HOST}"},
    # A proxy that ends TLS and does not tell.
    {"origin": f"https://{HOST}"},
    {"sec-fetch-site": "same-origin", "origin": "null"},
]
THEIRS = [
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
    {"sec-fetch-site": ""},
    {"sec-fetch-site": "cross-site", "origin": f"http://{HOST}"},
    {"origin": "null"},
    {"origin": ""},
    {"origin": "http://elsewhere.example"},
    {"origin": "http://kue.example"},
    {"origin": f"http://{HOST}.elsewhere.example"},
    {"origin": f"ftp://{HOST}"},
    {"origin": "http://[bad"},
]


async def passes(
    headers: dict[str, str],
    *,
    method: str = "POST",
    kind: str = "http",
    hosts: AllowedHosts | None = None,
    host: str | None = HOST,
    **scope: Any,
) -> tuple[bool, list[Message]]:
    """Return whether a request comes through the gate, and what was answered."""
    came: list[bool] = []
    sent: list[Message] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        came.append(True)

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    async def send(message: Message) -> None:
        sent.append(message)

    given = headers if host is None else {"host": host, **headers}
    request = {
        "type": kind,
        "method": method,
        "scheme": "ws" if kind == "websocket" else "http",
        "path": "/",
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in given.items()],
        **scope,
    }
    gate = CsrfProtection(app, hosts or AllowedHosts(["*"], is_open=True))
    await gate(request, receive, send)
    return bool(came), sent


@pytest.mark.parametrize("kind", ["http", "websocket"])
@pytest.mark.parametrize("headers", OURS, ids=str)
async def test_a_change_by_a_page_of_ours_or_a_program_is_let_in(
    headers: dict[str, str], kind: str
) -> None:
    came, _ = await passes(headers, kind=kind)

    assert came


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "TRACE", "X"])
@pytest.mark.parametrize("headers", THEIRS, ids=str)
async def test_a_change_by_a_page_of_others_is_403(
    headers: dict[str, str], method: str
) -> None:
    came, sent = await passes(headers, method=method)

    assert not came
    assert sent[0]["status"] == 403


@pytest.mark.parametrize("headers", THEIRS, ids=str)
async def test_a_websocket_of_a_page_of_others_is_closed(
    headers: dict[str, str],
) -> None:
    came, sent = await passes(headers, kind="websocket")

    assert not came
    assert [message["type"] for message in sent] == [
        "websocket.accept",
        "websocket.close",
    ]
    assert sent[1]["code"] == 1008


@pytest.mark.parametrize("headers", THEIRS, ids=str)
async def test_looking_is_let_in_from_anywhere(headers: dict[str, str]) -> None:
    """What is answered, the browser keeps from the page."""
    came, _ = await passes(headers, method="GET")

    assert came


async def test_a_page_without_tls_makes_no_change_where_there_is_tls() -> None:
    came, _ = await passes({"origin": f"http://{HOST}"}, scheme="https")

    assert not came


LOOPBACK = ["localhost", "LOCALHOST:80", "a.localhost", "127.0.0.1:8000", "127.8.9.1"]
ELSEWHERE = ["kue.example", "evil.example:8000", "", "localhost.evil.example", "[bad"]


@pytest.mark.parametrize("host", [*LOOPBACK, "[::1]:8000", "[::1]"])
@pytest.mark.parametrize("names", [None, [], ["kue.example"]])
async def test_loopback_is_always_meant(host: str, names: list[str] | None) -> None:
    came, _ = await passes({}, host=host, hosts=AllowedHosts(names, is_open=True))

    assert came


@pytest.mark.parametrize("host", [*ELSEWHERE, None, "10.0.0.1", "0.0.0.0"])
@pytest.mark.parametrize("kind", ["http", "websocket"])
async def test_where_anyone_may_other_names_are_421(host: str, kind: str) -> None:
    hosts = AllowedHosts(None, is_open=True)

    came, sent = await passes({}, host=host, hosts=hosts, kind=kind, method="GET")

    assert not came
    assert sent[0].get("status", 421) == 421


async def test_names_that_were_given_are_meant_and_no_others() -> None:
    hosts = AllowedHosts(["Kue.Example"], is_open=False)

    assert (await passes({}, host="kue.example:81", hosts=hosts))[0]
    assert not (await passes({}, host="evil.example", hosts=hosts))[0]


@pytest.mark.parametrize(
    "long",
    [
        {"path": f"/{'a' * 20_000}"},
        {"path": "/", "raw_path": b"/" + b"%61" * 7_000},
    ],
    ids=["path", "raw_path"],
)
async def test_path_and_query_count_together(long: dict[str, Any]) -> None:
    short, _ = await passes({}, query_string=b"a" * 20_000)
    came, sent = await passes({}, query_string=b"a" * 20_000, **long)

    assert (short, came) == (True, False)
    assert sent[0]["status"] == 431


async def test_where_people_log_in_or_another_app_is_around_any_name_will_do() -> None:
    for hosts, root in (
        (AllowedHosts(None, is_open=False), ""),
        (AllowedHosts(None, is_open=True), "/queue"),
        (AllowedHosts(["*"], is_open=True), ""),
    ):
        assert (await passes({}, host="kue.example", hosts=hosts, root_path=root))[0]


# -- through a server ----------------------------------------------------------

ATTACKS: list[dict[str, Any]] = [
    {"data": {"type": "email"}, "headers": {"Sec-Fetch-Site": "cross-site"}},
    {"data": {"type": "email"}, "headers": {"Origin": "http://evil.example"}},
    {"content": "{}", "headers": {"Content-Type": "text/plain", "Origin": "null"}},
    {"json": {"type": "email"}, "headers": {"Sec-Fetch-Site": "same-site"}},
]


@on_any_store
@pytest.mark.parametrize("attack", ATTACKS, ids=str)
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/api/v1/jobs"),
        ("POST", "/api/v1/login"),
        ("DELETE", "/api/v1/jobs/1"),
        ("POST", "/kue/job"),
        ("PUT", "/vertx-kue/job"),
        ("POST", "/vertx-kue/inactive/1"),
    ],
)
async def test_a_stolen_cookie_is_useless_to_another_site(
    q: Kue, method: str, path: str, attack: dict[str, Any]
) -> None:
    async with site_of(q) as site:
        cookie = await site.headers("admin")
        headers = {**cookie, **attack["headers"]}
        async with site.client() as client:
            answer = await client.request(
                method, site.address + path, **{**attack, "headers": headers}
            )

    assert answer.status_code == 403
    assert sum((await q.counts()).values()) == 0


@on_any_store
async def test_the_get_of_kue_that_restarts_a_job_is_a_change_too(q: Kue) -> None:
    async with site_of(q) as site, site.client() as client:
        headers = {**await site.headers("admin"), "Sec-Fetch-Site": "cross-site"}
        answer = await client.get(f"{site.address}/kue/inactive/1", headers=headers)

    assert answer.status_code == 403


@on_any_store
async def test_no_answer_lets_other_origins_read_it(q: Kue) -> None:
    headers = {"Origin": "http://evil.example"}
    preflight = {**headers, "Access-Control-Request-Method": "POST"}
    async with site_of(q) as site, site.client() as client:
        answers = [
            await client.get("/health", headers=headers),
            await client.options("/jobs", headers=preflight),
        ]

    for answer in answers:
        assert not [
            name for name in answer.headers if name.startswith("access-control")
        ]
    assert answers[1].status_code == 405


@on_any_store
async def test_an_app_without_guard_answers_to_loopback_alone(q: Kue) -> None:
    startup = StartupToken()
    headers = {"Authorization": f"Bearer {startup.secret}"}
    async with (
        serving(create_app(q, guard=LocalhostGuard(startup))) as address,
        httpx.AsyncClient(verify=False, headers=headers) as client,
    ):
        ours = await client.get(f"{address}/api/v1/stats")
        theirs = await client.get(
            f"{address}/api/v1/stats", headers={"Host": "evil.example"}
        )

    assert ours.status_code == 200
    assert theirs.status_code == 421
    assert "evil.example" in theirs.json()["detail"]


@on_any_store
async def test_the_cookie_of_a_mounted_app_is_for_its_path_alone(q: Kue) -> None:
    accounts = AccountGuard(q, hasher=CHEAP)
    await accounts.users.add("ann", "correct horse", Role.ADMIN)
    inner = create_app(q, guard=accounts)
    outer = Starlette(routes=[Mount("/admin/queue", app=inner)])

    async with (
        serving(outer) as address,
        httpx.AsyncClient(verify=False) as client,
    ):
        answer = await client.post(
            f"{address}/admin/queue/api/v1/login",
            json={"name": "ann", "password": "correct horse"},
            headers={"Host": "kue.example"},
        )

    assert answer.status_code == 200
    assert "; Path=/admin/queue;" in answer.headers["set-cookie"]
