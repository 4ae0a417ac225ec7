"""The API is what its OpenAPI document says, whoever asks whatever."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from kue.http import create_app
from kue.http.access import Anyone
from kue.job import Completed, Failed
from tests.http.conftest import serving
from tests.support.jobs import OOPS, claim_one, end

if TYPE_CHECKING:
    import httpx

    from kue import Kue
    from kue.job import Ending

SETTINGS = Path(__file__).parent / "schemathesis.toml"
#: Seconds, for a machine that does much else; alone, it takes about twenty.
PATIENCE = 500
#: What is tried on which engine: what comes before the store is the same on all.
PHASES = {"sqlite": "coverage,fuzzing,stateful", "redis": "fuzzing,stateful"}


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
    await q.pause("report", reason="month end")


@pytest.mark.long
@pytest.mark.timeout(PATIENCE + 60)
async def test_nothing_is_answered_but_what_the_document_says(
    q: Kue, url: str, tmp_path: Path
) -> None:
    """Schemathesis finds nothing, and the store is sound after all that it did."""
    await furnish(q)
    app = create_app(q, guard=Anyone())
    async with serving(app) as address:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "schemathesis.cli", "--config-file", SETTINGS),
            *("run", f"{address}/api/v1/openapi.json", "--url", f"{address}/api/v1"),
            *("--phases", PHASES[urlsplit(url).scheme], "--no-color"),
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
