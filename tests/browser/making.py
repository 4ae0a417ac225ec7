"""Jobs in the states that a page is to show, without a worker to bring them there."""

from __future__ import annotations

from typing import Any

from kue import Kue
from kue.model.draft import draft
from kue.model.job import Completed, Error, Failed, Job, Retried
from kue.model.payload import JSON
from kue.store.values import MAX_BATCH, LogLine, Outcome, Progress
from tests.support.jobs import add, claim, claim_one

STACK = """\
Traceback (most recent call last):
  File "/srv/app/.venv/lib/python3.12/site-packages/kue/worker/run.py", line 88, in call
    return await handler(job)
  File "/srv/app/shop/mail.py", line 41, in send
    connection = smtp.connect(host)
ConnectionError: mail.example.com refused
"""
WEBHOOK: JSON = {
    "url": "https://hooks.example.com/orders",
    "event": {"name": "order.paid", "id": 4711, "lines": [{"sku": "a1", "count": 2}]},
    "api_key": "very secret",
    "sandbox": False,
    "note": None,
}


async def running(
    q: Kue,
    type: str = "email",
    data: JSON = None,
    *,
    worker: str = "w1",
    **options: Any,
) -> Job:
    """Add a job of a type that has no other waiting, and start it."""
    await q.enqueue(type, data, **options)
    return await claim_one(q.store, type, worker=worker, now=await q.now())


async def complete(
    q: Kue, type: str = "email", data: JSON = None, **options: Any
) -> int:
    """Let a job end well; its result is ``{"sent": True}``."""
    job = await running(q, type, data, **options)
    await q.store.settle([Outcome(job, Completed({"sent": True}))])
    return job.id


async def failed(
    q: Kue,
    *messages: str,
    type: str = "email",
    kind: str = "ConnectionError",
    stack: str = STACK,
    **options: Any,
) -> list[int]:
    """Let jobs fail, one for each message; their data says which they are."""
    now = await q.now()
    ids: list[int] = []
    for start in range(0, len(messages), MAX_BATCH):
        batch = messages[start : start + MAX_BATCH]
        drafts = [draft(type, {"i": start + i}, **options) for i in range(len(batch))]
        await add(q.store, drafts, now=now)
        jobs = await claim(q.store, type, limit=len(batch), now=now)
        await q.store.settle(
            [
                Outcome(job, Failed(Error(kind, message, stack)))
                for job, message in zip(jobs, batch, strict=True)
            ]
        )
        ids += [job.id for job in jobs]
    return ids


def failure_of(job: Job, message: str, kind: str = "TimeoutError") -> Outcome:
    """Return that a run failed for good."""
    return Outcome(job, Failed(Error(kind, message, STACK)))


async def furnish(q: Kue) -> dict[str, int]:
    """Have some of everything there is to see; return one job of each kind."""
    found = {}
    for number in range(40):
        who = f"user{number}@example.com"
        data: JSON = {"to": who, "template": "welcome", "attempt": number}
        await q.enqueue("email", data, tags=["newsletter"], priority="low")
        found["complete"] = await complete(q, "thumbnail", {"image": f"{who}.jpg"})
    hosts = ["mail.example.com", "smtp.example.net"]
    await failed(q, *[f"{hosts[n % 2]} refused" for n in range(60)], type="invoice")
    await failed(
        q,
        *[f"order {n} has no customer" for n in range(12)],
        type="import-orders",
        kind="KeyError",
        tags=["nightly", "import"],
    )
    retried = await running(
        q, "webhook", WEBHOOK, attempts=5, backoff="10m", tags=["partner"], group="acme"
    )
    refused = Error("ConnectionError", "hooks.example.com refused", STACK)
    await q.store.settle([Outcome(retried, Retried(refused, delay=600_000))])
    [found["failed"]] = await failed(
        q, "mail.example.com refused", type="receipt", tags=["vip"], unique="receipt-7"
    )
    found["delayed"] = retried.id
    job = await running(q, "report", {"month": "2026-10", "pages": 48}, worker="eu-1")
    await q.store.progress([Progress(job.id, 64, {"page": 31})])
    lines = [f"rendered page {number} of 48" for number in range(1, 32)]
    await q.store.log(job.id, [LogLine(text, "info", 1) for text in lines])
    odd = [("font missing, used another", "warning"), ("chart 4 is empty", "error")]
    await q.store.log(job.id, [LogLine(text, level, 1) for text, level in odd])
    found["active"] = job.id
    for number in range(5):
        await q.enqueue("cleanup", {"bucket": number}, delay=f"{number + 1}h")
    parent = await q.enqueue("report", {"month": "2026-11"}, priority="high")
    blocked = await q.enqueue("archive", {"month": "2026-11"}, after=[parent.id])
    found["blocked"] = blocked.id
    await (await q.enqueue("cleanup", {"bucket": 9})).cancel("no longer needed")
    await q.pause("email", reason="mail server is moved", by="ann")
    return found
