"""The API is what its OpenAPI document says, whoever asks whatever."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import HTTPConnection
from starlette.routing import Mount

from kue import Kue, concurrency, rate
from kue.http import create_app
from kue.http.auth import Role
from kue.http.auth.access import Anyone, User
from kue.http.auth.account_guard import COOKIE
from kue.model.job import Completed, Ending, Failed
from tests.http.conftest import serving
from tests.support.exploring import EXPLORES, seed
from tests.support.jobs import OOPS, claim_one, end

SETTINGS = Path(__file__).parent / "schemathesis.toml"
#: Seconds, for a machine that does much else; alone, it takes about twenty.
PATIENCE = 1200
#: What the requests carry.
BEARER = "Bearer correct-horse-battery-staple"
on_any_store = pytest.mark.parametrize("url", ["memory://"])
#: What is tried on which engine: what comes before the store is the same on all.
PHASES = {"sqlite": "coverage,fuzzing,stateful", "redis": "fuzzing,stateful"}
#: Requests to each operation that are drawn; `make explore` draws as many on each.
EXAMPLES = {"sqlite": 15, "redis": 15 if EXPLORES else 5}


def known(request: HTTPConnection) -> User | None:
    """Let in who has the token: whether it is asked for is tried, too."""
    is_known = request.headers.get("authorization") == BEARER
    return User("ann", Role.ADMIN) if is_known else None


async def furnish(q: Kue) -> None:
    """Have some of everything there is to ask for."""
    endings: list[Ending] = [Completed({"sent": True}), Failed(OOPS)]
    for ending in endings:
        await q.enqueue("email", {"to": "ann"}, tags=["mail"], unique=str(ending))
        job = await claim_one(q.store, now=await q.now())
        await end(q.store, job, ending, now=await q.now())
    parent = await q.enqueue("email", {"to": "bob"}, priority="high")
    await parent.log("one")
    await q.enqueue("report", after=[parent.id])
    await q.enqueue("report", delay="1h", group="ann")
    await (await q.enqueue("report")).cancel("not wanted")
    await q.enqueue("email")
    await claim_one(q.store, now=await q.now())
    await q.limit("email", concurrency=3)
    await q.set_limit("stripe", concurrency(1))
    await q.set_limit("mail", rate("5/1m"))
    await q.enqueue("email", limited_by={"stripe": "", "mail": "ann"})
    await q.pause("report", reason="month end")
    await q.schedule("nightly", q.draft("report"), cron="0 3 * * *", tz="Europe/Berlin")
    await q.run_schedule("nightly")


@pytest.mark.long
@pytest.mark.timeout(PATIENCE + 60)
async def test_nothing_is_answered_but_what_the_document_says(
    q: Kue, url: str, tmp_path: Path
) -> None:
    """Schemathesis finds nothing, and the store is sound after all that it did."""
    scheme = urlsplit(url).scheme
    await furnish(q)
    app = create_app(q, guard=known)
    async with serving(app) as address:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "schemathesis.cli", "--config-file", SETTINGS),
            *("run", f"{address}/api/v1/openapi.json", "--url", f"{address}/api/v1"),
            *("--header", f"Authorization: {BEARER}"),
            *("--phases", PHASES[scheme], "--no-color"),
            *("--max-examples", str(EXAMPLES[scheme])),
            *("--seed", str(seed(1))),
            cwd=tmp_path,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            async with asyncio.timeout(PATIENCE):
                said, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        await app.state.live.close()

    assert process.returncode == 0, said.decode()
    assert (await q.store.check()).findings == ()


@pytest.mark.parametrize("path", ["/errors", "/stats/history"])
async def test_a_type_that_never_was_is_a_404_that_is_documented(
    client: httpx.AsyncClient, path: str
) -> None:
    answer = await client.get(path, params={"type": "nobody"})

    document = (await client.get("/openapi.json")).json()
    operation = document["paths"][path]["get"]
    assert answer.status_code == 404
    assert "404" in operation["responses"]


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/jobs", {"GET", "HEAD", "POST"}),
        ("/jobs/1", {"GET", "HEAD", "PATCH", "DELETE"}),
        ("/jobs/batch", {"POST"}),
        ("/jobs/bulk", {"POST"}),
        # The limits of email, and the queue email/limits.
        ("/queues/email/limits", {"GET", "HEAD", "PUT", "DELETE"}),
    ],
)
async def test_a_wrong_method_is_told_which_are_right(
    client: httpx.AsyncClient, path: str, allowed: set[str]
) -> None:
    answer = await client.options(path)

    assert answer.status_code == 405
    assert set(answer.headers["allow"].split(", ")) == allowed


@pytest.mark.parametrize("method", ["GET", "PATCH", "DELETE"])
async def test_a_word_of_ours_is_never_taken_for_the_id_of_a_job(
    client: httpx.AsyncClient, method: str
) -> None:
    for word in ("batch", "bulk"):
        answer = await client.request(method, f"/jobs/{word}")

        assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


# -- S-9: what generators of clients need ----------------------------------------


@on_any_store
async def test_s_9_the_document_says_where_the_paths_are(q: Kue) -> None:
    inner = create_app(q, guard=Anyone())
    outer = Starlette(routes=[Mount("/ops/jobs", inner)])
    async with serving(outer) as address, httpx.AsyncClient(verify=False) as client:
        document = await client.get(f"{address}/ops/jobs/api/v1/openapi.json")
        [server] = document.json()["servers"]
        found = await client.get(f"{address}{server['url']}/stats")

    assert server["url"] == "/ops/jobs/api/v1"
    assert found.status_code == 200


@on_any_store
async def test_s_9_the_document_says_how_to_log_in(client: httpx.AsyncClient) -> None:
    document = (await client.get("/openapi.json")).json()

    schemes = document["components"]["securitySchemes"]
    assert (schemes["bearer"]["type"], schemes["bearer"]["scheme"]) == (
        "http",
        "bearer",
    )
    assert (schemes["session"]["in"], schemes["session"]["name"]) == (
        "cookie",
        COOKIE,
    )
    assert document["security"] == [{"bearer": []}, {"session": []}]
    open_to_all = [
        f"{method} {path}"
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if operation.get("security") == []
    ]
    assert sorted(open_to_all) == ["get /health", "get /login", "post /login"]


@on_any_store
async def test_s_9_a_body_that_may_be_left_out_is_not_null(
    client: httpx.AsyncClient, q: Kue
) -> None:
    document = (await client.get("/openapi.json")).json()

    bodies = [
        operation["requestBody"]
        for methods in document["paths"].values()
        for operation in methods.values()
        if "requestBody" in operation
    ]
    optional = [body for body in bodies if not body["required"]]
    assert optional
    for body in bodies:
        schema = body["content"]["application/json"]["schema"]
        assert {"type": "null"} not in schema.get("anyOf", [])
    job = await q.enqueue("email")
    assert (await client.post(f"/jobs/{job.id}/cancel")).status_code == 200


@on_any_store
async def test_s_9_what_may_be_left_out_has_no_default_to_generators(
    client: httpx.AsyncClient,
) -> None:
    document = (await client.get("/openapi.json")).json()

    fields = [
        field
        for schema in document["components"]["schemas"].values()
        for field in schema.get("properties", {}).values()
    ]
    assert not [field for field in fields if "default" in field]
    assert [field for field in fields if "x-default" in field]
