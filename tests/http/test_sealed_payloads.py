"""The REST API on sealed payloads, with their keys and without."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from kue import ActiveJob, Kue
from kue.model.events import Event, Kind
from kue.model.payload_keys import new_key
from tests.http.conftest import Http

KEY = new_key("may")
SECRET = "a secret that only readers with the key see"
SEALED = {
    "sealed": "encrypted with key 'may', which this queue does not have; add that key "
    "to payload_keys ($KUE_PAYLOAD_KEYS)"
}


@pytest.fixture
def url(tmp_path: Any) -> str:
    """One engine will do: what is here comes before the store."""
    return f"sqlite:///{tmp_path}/kue.db"


@pytest.fixture
async def keyed(url: str) -> AsyncIterator[Kue]:
    async with Kue(url, payload_keys=[KEY], payload_protection="encrypt") as queue:
        yield queue


async def done(q: Kue) -> int:
    """Return a job that has run, and whose payloads are all sealed."""

    @q.task(attempts=1)
    async def work(job: ActiveJob, text: str) -> dict[str, str]:
        await job.step("one", lambda: text)
        await job.progress(1, 2, {"text": text})
        return {"text": text}

    handle = await work.enqueue(text=SECRET)
    await q.schedule("daily", q.draft("work", {"text": SECRET}), every="1d")
    await q.run(burst=True, signals=False)
    return handle.id


async def test_a_server_with_the_key_shows_payloads_and_one_without_says_so(
    q: Kue, keyed: Kue
) -> None:
    job_id = await done(keyed)
    for queue, shown in ((keyed, {"text": SECRET}), (q, SEALED)):
        async with Http(queue).client() as client:
            job = (await client.get(f"/jobs/{job_id}")).json()
            steps = (await client.get(f"/jobs/{job_id}/steps")).json()
            schedule = (await client.get("/schedules/daily")).json()
            listed = (await client.get("/jobs", params={"type": "work"})).json()
            words = (await client.get("/jobs", params={"text": "secret"})).json()
        values = [job["data"], job["result"], job["progress_data"]]
        attempt = job["history"][-1] if "history" in job else job["attempts"][-1]
        assert values == [shown] * 3, attempt
        step = steps["steps"][0]["result"]
        assert step == (SECRET if queue is keyed else SEALED)
        assert schedule["data"] == shown
        assert listed["jobs"][0]["data"] == shown
        # Sealed data is not searched, with or without the key.
        assert words["jobs"] == []


async def test_a_job_that_cannot_be_opened_is_neither_copied_nor_edited(
    q: Kue, keyed: Kue
) -> None:
    job_id = await done(keyed)
    async with Http(q).client() as client:
        copied = await client.post(f"/jobs/{job_id}/copy")
        edited = await client.patch(f"/jobs/{job_id}", json={"data": {"text": "x"}})
        retried = await client.post(f"/jobs/{job_id}/retry", json={"data": [1]})
        again = await client.post(f"/jobs/{job_id}/retry")
    for answer in (copied, edited, retried):
        assert answer.status_code == 409
        assert "is encrypted with key 'may', which this queue" in answer.text
    assert again.status_code == 204

    async with Http(keyed).client() as client:
        copy = (await client.post(f"/jobs/{job_id}/copy")).json()
        changed = {"data": {"text": "other"}}
        await client.patch(f"/jobs/{copy['id']}", json=changed)
    await keyed.run(burst=True, signals=False)
    assert await (await keyed.get(job_id)).result() == {"text": SECRET}
    assert await (await keyed.get(copy["id"])).result() == {"text": "other"}


async def test_an_event_does_not_show_what_is_sealed(http: Http, keyed: Kue) -> None:
    from kue.http.security.redaction import Redaction

    handle = await keyed.enqueue("work", SECRET)
    [raw] = await http.q.store.engine.get([handle.id])  # type: ignore[attr-defined]
    event = Event(
        kind=Kind.PROGRESS, job_id=1, type="work", at=0, detail={"data": raw.data}
    )

    shown = Redaction().detail(event.detail)

    assert shown == {"data": {"sealed": "encrypted with key 'may'"}}


async def test_an_error_that_names_a_key_is_shown_as_it_is(q: Kue, keyed: Kue) -> None:
    handle = await keyed.enqueue("work", SECRET)
    q.process("work", print)
    await q.run(burst=True, signals=False)
    async with Http(q).client() as client:
        job = (await client.get(f"/jobs/{handle.id}")).json()

    assert job["error"]["kind"] == "PayloadRefused"
    assert job["error"]["message"] == f"its data is {SEALED['sealed']}"


async def test_the_audit_log_has_no_payloads(keyed: Kue) -> None:
    data = {"text": SECRET}
    job = {"type": "work", "data": data}
    async with Http(keyed).client() as client:
        made = (await client.post("/jobs", json=job)).json()["id"]
        root = str(client.base_url).removesuffix("/api/v1/")
        await client.post("/jobs/batch", json=[job])
        await client.patch(f"/jobs/{made}", json={"data": data})
        go = {"name": "go", "data": data}
        await client.post(f"/jobs/{made}/signals", json=go)
        await client.put("/schedules/daily", json=job | {"every": "1d"})
        await client.post(f"{root}/kue/job", json=job)
        await client.put(f"{root}/vertx-kue/job", json=job)
    acts = (await keyed.store.acts(500)).acts

    assert len(acts) == 7, acts
    assert {act.status // 100 for act in acts} == {2}
    assert acts[-1].detail == '{"type":"work","data":"•••"}'
    assert SECRET not in str(acts)
