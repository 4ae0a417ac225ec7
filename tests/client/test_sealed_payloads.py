"""Payloads of a queue with keys: sealed in the store, and open where they are used."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import kue
from kue import ActiveJob, JobFailed, Kue, PayloadRefused, State
from kue.model.job import SEALED, Completed, Error, Failed
from kue.model.payload_keys import PayloadKey, Protection, new_key
from kue.model.sealed_payload import Envelope, Sealed
from kue.model.steps import Signal
from kue.store import null_store
from kue.store.contract import Store
from kue.store.validation import IdNotReserved
from kue.store.values import (
    Change,
    Filter,
    Outcome,
    PageRequest,
    Progress,
    RemoveRequest,
)
from kue.worker import failure_reporter
from tests.support.jobs import claim_one
from tests.support.patience import PATIENCE_SECONDS, until

OLD, NEW = new_key("old"), new_key("new")
SECRET = "a secret that is in no text of the store"
FAR = datetime(2040, 1, 1, tzinfo=UTC)
LONG = {"text": SECRET * 200}

Make = Callable[..., Kue]


@pytest.fixture
def make(kue_store: Store) -> Make:
    """Return queues on the same store, each with its own settings."""

    def make(*keys: str, protection: Protection = "encrypt", **given: Any) -> Kue:
        if keys:
            given |= {"payload_keys": keys, "payload_protection": protection}
        return Kue(store=kue_store, lease="60s", **given)

    return make


@pytest.fixture
def memory() -> Make:
    """Return queues on one store in memory: for what no engine has to do with."""
    inner = Kue("memory://").store

    def make(*keys: str, protection: Protection = "encrypt", **given: Any) -> Kue:
        if keys:
            given |= {"payload_keys": keys, "payload_protection": protection}
        return Kue(store=inner.engine, lease="60s", **given)  # type: ignore[attr-defined]

    return make


async def burst(q: Kue) -> None:
    await q.run(burst=True, signals=False)


async def failing(q: Kue) -> None:
    """Run jobs that fail, until that was reported."""
    await burst(q)
    await failure_reporter.report(q.store)


def is_sealed(value: object, key: str = "new") -> bool:
    envelope = Envelope.read(value)
    return envelope is not None and envelope.key == key


async def stored_texts(store: Store) -> str:
    """Return everything that the store has about jobs, as one text."""
    page = await store.page(PageRequest())
    steps = [await store.steps(job.id) for job in page.jobs]
    return repr((page.jobs, steps, await store.schedules()))


# -- what is sealed ------------------------------------------------------------


@pytest.mark.parametrize("protection", ["sign", "encrypt"])
async def test_nothing_of_a_job_is_plain_in_the_store(
    make: Make, kue_store: Store, protection: Protection
) -> None:
    q = make(NEW, protection=protection)
    runs: list[Any] = []

    @q.task(attempts=2, backoff=0)
    async def work(job: ActiveJob, text: str) -> dict[str, Any]:
        step = await job.step("one", lambda: {"step": text})
        await job.progress(1, 2, {"progress": text})
        await job.send({"chunk": text})
        runs.append((text, step))
        if len(runs) == 1:
            raise ValueError("once more")
        sent = await job.wait_for("go")
        return {"result": text, "sent": sent}

    handle = await work.enqueue(text=SECRET)
    await handle.signal("go", {"signal": SECRET})
    async with q.work():
        result = await handle.result(timeout=PATIENCE_SECONDS)

    assert result == {"result": SECRET, "sent": {"signal": SECRET}}
    assert runs == [(SECRET, {"step": SECRET})] * 2
    job = await handle.refresh()
    assert job.data == {"text": SECRET}
    assert [one.progress.data for one in job.history if one.progress] == [
        {"progress": SECRET}
    ] * 2
    steps = await handle.steps()
    assert [step.result for step in steps.steps] == [
        {"step": SECRET},
        {"signal": SECRET},
    ]

    assert [chunk async for chunk in handle.stream()] == [{"chunk": SECRET}]

    [raw] = await kue_store.get([handle.id])
    assert raw is not None
    assert raw.spec.sealed == SEALED
    assert all(map(is_sealed, [raw.data, raw.result, raw.progress_data]))
    stored = await kue_store.steps(handle.id)
    assert all(is_sealed(step.result) for step in stored.steps)
    assert all(is_sealed(signal.data) for signal in stored.signals)
    assert all(is_sealed(chunk.value) for chunk in await kue_store.chunks(handle.id))
    assert SECRET not in await stored_texts(kue_store)


async def test_a_plain_queue_stores_what_looks_like_an_envelope_as_it_is(
    make: Make,
) -> None:
    [fake] = [f"kue-sealed:1:new:e:job=1:{base64.b64encode(bytes(64)).decode()}"]
    for q in (make(), make(NEW), make(compress_over=10)):

        @q.task(attempts=1)
        async def echo(job: ActiveJob, text: str) -> list[str]:
            assert await job.step("one", lambda: text) == text
            return [text, await job.wait_for("go")]

        handle = await echo.enqueue(text=fake)
        await handle.signal("go", fake)
        async with q.work():
            assert await handle.result(timeout=PATIENCE_SECONDS) == [fake, fake]
        assert (await handle.refresh()).data == {"text": fake}
        steps = (await handle.steps()).steps
        assert [step.result for step in steps] == [fake, fake]


async def test_long_data_is_compressed_and_its_job_is_run_by_queues_that_compress(
    make: Make, kue_store: Store
) -> None:
    q = make(compress_over="1KiB")
    q.process("echo", lambda job: job.data)
    long, short = await q.enqueue("echo", LONG), await q.enqueue("echo", [1])
    await burst(q)

    assert await long.result() == LONG
    assert await short.result() == [1]
    stored = await kue_store.get([long.id, short.id])
    assert [job.spec.sealed for job in stored if job] == [SEALED, 0]
    assert len(repr(stored)) < len(repr(LONG))
    # A client that only reads needs no settings for that.
    assert (await make().get(long.id)).job.data == LONG  # type: ignore[union-attr]


async def test_a_worker_that_does_not_compress_says_what_to_set(make: Make) -> None:
    handle = await make(compress_over=10).enqueue("echo", LONG)
    plain = make()
    plain.process("echo", lambda job: job.data)
    await burst(plain)

    with pytest.raises(JobFailed, match=r"set compress_over \(\$KUE_COMPRESS_OVER\)"):
        await handle.result()


# -- keys ----------------------------------------------------------------------


async def test_keys_are_rotated_without_losing_a_job(make: Make) -> None:
    first = await make(OLD).enqueue("echo", {"n": 1}, attempts=5)
    both, new = make(NEW, OLD), make(NEW)
    second = await both.enqueue("echo", {"n": 2})
    calls: list[Any] = []
    for q in (both, new):
        q.process("echo", lambda job: calls.append(job.data))

    # Too early: the old key is still in use.
    await burst(new)
    assert calls == [{"n": 2}]
    with pytest.raises(
        JobFailed,
        match="PayloadRefused: its data is encrypted with key 'old', which this queue",
    ):
        await first.result()
    job = await first.refresh()
    assert (job.attempts, job.state) == (1, State.FAILED)

    await first.retry()
    await burst(both)
    assert await second.result() is None
    assert await first.result() is None
    assert calls == [{"n": 2}, {"n": 1}]


async def test_without_a_key_everything_says_that_it_is_sealed(make: Make) -> None:
    q = make(NEW)

    @q.task(attempts=1)
    async def work(job: ActiveJob, text: str) -> str:
        await job.step("one", lambda: text)
        await job.progress(1, 2, text)
        return text

    handle = await work.enqueue(text=SECRET)
    await q.schedule("often", q.draft("work", {"text": SECRET}), every="1h")
    await burst(q)

    plain = make()
    job = (await plain.get(handle.id)).job
    assert job is not None
    steps = await plain.steps(handle.id)
    [schedule] = await plain.schedules()
    values = [job.data, job.result, job.progress_data, steps.steps[0].result]
    for value in [*values, schedule.draft.spec.data]:
        assert isinstance(value, Sealed)
        assert value.why.startswith("encrypted with key 'new', which this queue does")
    with pytest.raises(PayloadRefused, match=f"the result of job {handle.id} is encr"):
        await (await plain.get(handle.id)).result()
    found = await plain.store.find(Filter(type="work"))
    assert isinstance(found.jobs[0].data, Sealed)


async def test_a_result_that_is_only_sent_is_opened_or_refused(make: Make) -> None:
    q = make(NEW)
    q.process("echo", lambda job: job.data)
    for reader in (q, make()):
        handle = await q.enqueue("echo", SECRET, remove_on_complete=True)
        there = await reader.get(handle.id)
        waiting = await _watched(there)
        async with q.work():
            outcome = await waiting
        if reader is q:
            assert outcome == SECRET
        else:
            assert isinstance(outcome, PayloadRefused)


async def _watched(handle: kue.JobHandle[Any]) -> asyncio.Task[Any]:
    """Wait for a result; return once that has begun: the job is read again then."""
    before, waiting = handle.job, asyncio.create_task(_outcome(handle))
    await until(lambda: handle.job is not before)
    return waiting


async def _outcome(handle: kue.JobHandle[Any]) -> Any:
    try:
        return await handle.result(timeout=PATIENCE_SECONDS)
    except PayloadRefused as exc:
        return exc


async def test_a_stream_that_is_only_sent_is_opened_or_refused(make: Make) -> None:
    q = make(NEW)
    was_read = asyncio.Event()

    @q.task(remove_on_complete=True)
    async def talk() -> AsyncIterator[str]:
        yield "first"
        await was_read.wait()
        yield SECRET

    handle = await talk.enqueue()
    async with q.work():
        chunks = handle.stream(timeout=PATIENCE_SECONDS)
        assert await anext(chunks) == "first"
        with pytest.raises(PayloadRefused, match="the stream of job"):
            await anext((await make().get(handle.id)).stream())
        was_read.set()
        assert [chunk async for chunk in chunks] == [SECRET]


# -- what is refused -----------------------------------------------------------


async def test_a_plain_job_fails_at_once_unless_it_is_accepted(make: Make) -> None:
    calls: list[Any] = []
    strict, lenient = make(NEW), make(NEW, accept_plain=True)

    async def echo(job: ActiveJob) -> Any:
        calls.append(job.data)
        return job.data

    for q in (strict, lenient):
        q.process("echo", echo)
    handle = await make().enqueue("echo", [1], attempts=5)
    await burst(strict)

    assert calls == []
    with pytest.raises(JobFailed, match=r"neither signed nor encrypted.*accept_plain"):
        await handle.result()
    assert (await handle.refresh()).attempts == 1

    await handle.retry()
    await burst(lenient)
    # It is plain, and so is its result.
    assert (await make().get(handle.id)).job.result == [1]  # type: ignore[union-attr]
    assert calls == [[1]]


async def test_data_of_another_job_is_refused(make: Make, kue_store: Store) -> None:
    q = make(NEW)
    calls: list[Any] = []
    q.process("pay", lambda job: calls.append(job.data))
    one, two = await q.enqueue("pay", {"n": 1}), await q.enqueue("pay", {"n": 2})
    [raw] = await kue_store.get([one.id])
    assert raw is not None
    await kue_store.update([Change(two.id, data=raw.data, sealed=SEALED)])
    await burst(q)

    assert calls == [{"n": 1}]
    with pytest.raises(JobFailed, match=rf"another job \(job={one.id}\)"):
        await two.result()


async def test_a_damaged_payload_fails_its_job_and_no_other(
    make: Make, kue_store: Store
) -> None:
    q = make(NEW)
    q.process("pay", lambda job: job.data)
    broken, whole = await q.enqueue("pay", {"n": 1}), await q.enqueue("pay", {"n": 2})
    cut = f"kue-sealed:1:new:e:job={broken.id}:A"
    await kue_store.update([Change(broken.id, data=cut, sealed=SEALED)])
    await burst(q)

    assert await whole.result() == {"n": 2}
    with pytest.raises(JobFailed, match="its data is damaged: it is not base64"):
        await broken.result()


async def test_results_and_streams_of_a_plain_job_are_refused(make: Make) -> None:
    q, intruder = make(NEW), make()

    def rate(job: ActiveJob) -> str:
        job.send("evil")
        return "evil"

    intruder.process("rate", rate)
    planted = await intruder.enqueue("rate")
    await burst(intruder)

    seen = await q.get(planted.id)
    with pytest.raises(PayloadRefused, match=r"the result of job \d+ is neither sign"):
        await seen.result()
    with pytest.raises(PayloadRefused, match=r"the stream of job \d+ is neither sign"):
        await anext(seen.stream())
    [job] = (await q.page(State.COMPLETE)).jobs
    assert isinstance(job.result, Sealed)
    there = await make(NEW, accept_plain=True).get(planted.id)
    assert await there.result() == "evil"
    assert [chunk async for chunk in there.stream()] == ["evil"]


async def test_a_result_of_a_plain_job_is_no_argument(make: Make) -> None:
    q, intruder = make(NEW), make()
    paid: list[Any] = []

    @q.task(attempts=1)
    async def rate() -> str:
        return "good"

    @q.task(attempts=1)
    async def pay(rate: str) -> None:
        paid.append(rate)

    intruder.process("rate", lambda job: "evil")
    flow = await kue.chain(rate.s(), pay.s()).enqueue()
    [first] = (await q.find(type="rate")).jobs
    await intruder.store.update([Change(first.id, data=None, sealed=0)])
    await intruder.run(types=["rate"], burst=True, signals=False)
    await burst(q)

    with pytest.raises(JobFailed, match="PayloadRefused: the result of job"):
        await flow.result(timeout=PATIENCE_SECONDS)
    assert paid == []


async def test_a_planted_result_that_is_only_sent_is_refused(
    make: Make, kue_store: Store
) -> None:
    handle = await make(NEW).enqueue("pay", SECRET, remove_on_complete=True)
    waiting = await _watched(await make(NEW).get(handle.id))

    job = await claim_one(kue_store, "pay", now=None)
    await kue_store.settle([Outcome(job, Completed("evil"))])

    assert isinstance(await waiting, PayloadRefused)


async def test_a_planted_step_or_signal_fails_the_job(
    memory: Make,
) -> None:
    q, intruder = memory(NEW), memory()
    done: list[str] = []

    @q.task(attempts=3)
    async def work(job: ActiveJob) -> None:
        await job.wait_for("go")
        done.append("paid")

    handle = await work.enqueue()
    await intruder.store.signal(handle.id, Signal(name="go", data="evil"))
    await burst(q)
    with pytest.raises(JobFailed, match="the data of signal 'go' is not sealed"):
        await handle.result()

    other = await work.enqueue()
    job = await claim_one(intruder.store, "work", now=None)
    await intruder.store.record_step(job, "one", b'"evil"', duration=1)  # type: ignore[arg-type]
    await intruder.store.settle([Outcome(job, Failed(Error("E", "e")))])
    await other.retry()
    await other.signal("go")
    await burst(q)
    with pytest.raises(JobFailed, match="what step 'one' returned is not sealed"):
        await other.result()
    assert done == []


# -- what names or copies jobs -------------------------------------------------


async def test_a_replaced_job_has_the_data_of_the_last_add(make: Make) -> None:
    q = make(NEW)
    options: dict[str, Any] = {"unique": "k", "on_conflict": "replace", "delay": "1h"}
    first = await q.enqueue("echo", {"n": 1}, **options)
    second = await q.enqueue("echo", {"n": 2}, **options)
    assert (second.id, second.has_replaced) == (first.id, True)
    q.process("echo", lambda job: job.data)
    await first.promote()
    await burst(q)

    assert await first.result() == {"n": 2}


async def test_a_job_of_a_schedule_can_be_edited_and_run(make: Make) -> None:
    q = make(NEW)
    q.process("echo", lambda job: job.data)
    await q.schedule("daily", q.draft("echo", {"n": 1}), at=FAR)
    [known] = await q.schedules()
    assert known.draft.spec.data == {"n": 1}
    await q.pause_schedule("daily")
    await q.resume_schedule("daily")
    one, two = await q.run_schedule("daily"), await q.run_schedule("daily")
    # Without the tag it is no longer known to be of the schedule.
    await one.update(tags=["mine"])
    await burst(q)

    assert await one.result() == await two.result() == {"n": 1}
    stored = await q.store.engine.schedules("daily")  # type: ignore[attr-defined]
    assert is_sealed(stored[0].draft.spec.data)


async def test_a_schedule_is_paused_without_its_key_and_fires_with_it(
    make: Make,
) -> None:
    q, plain = make(NEW), make()
    q.process("echo", lambda job: job.data)
    await q.schedule("daily", q.draft("echo", {"n": 1}), at=FAR)
    await plain.pause_schedule("daily")
    await plain.resume_schedule("daily")
    handle = await plain.run_schedule("daily")
    await burst(q)

    assert await (await q.get(handle.id)).result() == {"n": 1}


async def test_other_data_of_a_job_is_sealed_for_it(
    make: Make, kue_store: Store
) -> None:
    q = make(NEW)
    q.process("echo", lambda job: job.data)
    plain = await make().enqueue("echo", 1)
    sealed = await q.enqueue("echo", 2)
    await burst(q)
    for handle, data in ((plain, 3), (sealed, 4)):
        there = await q.get(handle.id)
        await there.retry(data=data)
    await burst(q)

    assert [await (await q.get(one.id)).result() for one in (plain, sealed)] == [3, 4]
    stored = await kue_store.get([plain.id, sealed.id])
    assert all(is_sealed(job.data) for job in stored if job)


async def test_flows_pass_results_that_are_sealed(make: Make, kue_store: Store) -> None:
    q = make(NEW)

    @q.task(attempts=1)
    async def load(text: str) -> str:
        return text

    @q.task(attempts=1)
    async def join(texts: list[str]) -> str:
        return "+".join(texts)

    @q.task(attempts=1)
    async def shout(text: str) -> str:
        return text.upper()

    parts = kue.group(load.s(SECRET), load.s("b"))
    flow = await kue.chain(parts, join.s(), shout.s()).enqueue()
    async with q.work():
        result = await flow.result(timeout=PATIENCE_SECONDS)

    assert result == f"{SECRET}+b".upper()
    text = await stored_texts(kue_store)
    assert SECRET not in text
    assert result not in text


async def test_a_dead_letter_is_replayed_as_the_same_job_or_as_a_new_one(
    make: Make, kue_store: Store
) -> None:
    q = make(NEW, OLD)
    is_broken = [True]

    @q.task(attempts=1, dead_letter="dead")
    async def pay(text: str) -> str:
        if is_broken[0]:
            raise ValueError("no")
        return text

    handles = [await pay.enqueue(text=SECRET) for _ in range(2)]
    await failing(q)
    assert SECRET not in await stored_texts(kue_store)
    is_broken[0] = False
    await q.store.remove(RemoveRequest([handles[0].id]))

    assert await q.replay("dead") == 2
    await burst(q)

    jobs = (await q.store.find(Filter(type="pay", state=State.COMPLETE))).jobs
    assert [job.result for job in jobs] == [SECRET, SECRET]
    assert handles[0].id not in [job.id for job in jobs]


async def test_a_dead_letter_of_a_missing_key_is_replayed_once_the_key_is_back(
    memory: Make,
) -> None:
    new, both = memory(NEW), memory(NEW, OLD)
    for q in (new, both):

        @q.task(attempts=1, dead_letter="dead")
        async def pay(text: str) -> str:
            return text

    handle = await memory(OLD).enqueue("pay", {"text": SECRET})
    await failing(new)
    await new.store.remove(RemoveRequest([handle.id]))

    with pytest.raises(PayloadRefused, match=r"no job was added.*with key 'old'"):
        await new.replay("dead")
    assert await both.replay("dead") == 1
    await burst(both)

    [job] = (await both.store.find(Filter(type="pay"))).jobs
    assert (job.state, job.result) == (State.COMPLETE, SECRET)


async def test_a_dead_letter_of_an_encrypted_job_is_never_plain(memory: Make) -> None:
    reader = memory(payload_keys=[NEW])

    @reader.task(attempts=1, dead_letter="dead")
    async def pay(text: str) -> None:
        raise ValueError("no")

    await memory(NEW).enqueue("pay", {"text": SECRET})
    await failing(reader)

    [letter] = (await memory().find(type="dead")).jobs
    assert isinstance(letter.data, Sealed)


async def test_a_batch_and_its_watching_job_are_sealed(memory: Make) -> None:
    q = memory(NEW)
    seen: list[Any] = []

    @q.task(attempts=1)
    async def work(n: int) -> int:
        seen.append(n)
        return n

    batch = kue.batch("import")
    handle = await batch.enqueue([work.s(n) for n in range(3)])
    async with q.work():
        done = await handle.result(timeout=PATIENCE_SECONDS)

    assert (done["complete"], sorted(seen)) == (3, [0, 1, 2])
    page = await q.store.engine.page(PageRequest())  # type: ignore[attr-defined]
    assert all(job.spec.sealed for job in page.jobs)


def test_blocking_calls_are_sealed_as_well(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/kue.db"
    q = Kue(url, payload_keys=[NEW], payload_protection="sign")
    stranger = Kue(url)
    q.process("echo", lambda job: job.data)
    handle = q.sync.enqueue("echo", SECRET)
    q.sync.run(burst=True, signals=False)

    assert handle.result() == SECRET
    assert isinstance(stranger.sync.get(handle.id).job.data, Sealed)  # type: ignore[union-attr]
    for one in (q, stranger):
        one.sync.close()


async def test_jobs_of_a_sync_queue_are_sealed_too() -> None:
    async with Kue("sync://", payload_keys=[NEW], payload_protection="sign") as q:

        @q.task(attempts=1)
        async def echo(text: str) -> str:
            return text

        handle = await echo.enqueue(text=SECRET)
        assert await handle.result() == SECRET
        [raw] = await q.store.engine.get([handle.id])  # type: ignore[attr-defined]
        assert is_sealed(raw.result)


async def test_adds_of_a_fail_over_are_sealed_for_the_store_that_gets_them() -> None:
    kue.configure(
        first={"url": "memory://", "payload_keys": [NEW], "payload_protection": "sign"},
        second="memory://",
        both={"url": "failover://first,second"},
    )
    try:
        q = kue.connect("both")
        handle = await q.enqueue("echo", SECRET)
        store = kue.connect("first").store
        [raw] = await store.engine.get([handle.id])  # type: ignore[attr-defined]
        assert is_sealed(raw.data)
        assert (await handle.refresh()).data == SECRET
        await q.close()
    finally:
        kue.configure(first=None, second=None, both=None)


# -- the store beneath ---------------------------------------------------------


async def test_a_plain_queue_makes_no_call_more(memory: Make) -> None:
    plain = memory()
    for verb in ("add", "claim", "cycle", "stand_by", "settle", "progress", "signal"):
        assert getattr(plain.store, verb).__self__ is plain.store.engine  # type: ignore[attr-defined]


async def test_progress_of_a_plain_job_stays_plain(memory: Make) -> None:
    plain, q = memory(), memory(NEW, accept_plain=True)
    handle = await plain.enqueue("work", 1)
    job = await claim_one(plain.store, "work", now=None)

    await q.store.progress([Progress(job.id, 50, {"a": 1}), Progress(job.id, 60)])
    await q.store.progress([Progress(job.id, 70, {"a": 2})])

    assert (await plain.get(handle.id)).job.progress_data == {"a": 2}  # type: ignore[union-attr]


async def test_a_reading_queue_protects_results_like_the_data_of_their_job(
    memory: Make,
) -> None:
    reader = memory(payload_keys=[NEW])
    await memory(NEW).enqueue("work", 1)
    job = await claim_one(reader.store, "work", now=None)
    await reader.store.settle([Outcome(job, Completed(SECRET))])

    [raw] = await reader.store.engine.get([job.id])  # type: ignore[attr-defined]
    assert Envelope.read(raw.result).protection == "encrypt"  # type: ignore[union-attr]
    # What it adds itself is plain.
    handle = await reader.enqueue("work", 1)
    assert (await memory().get(handle.id)).job.data == 1  # type: ignore[union-attr]


async def test_a_reading_queue_does_not_weaken_what_it_changes(memory: Make) -> None:
    """Neither a schedule that it pauses, nor a dead letter that it puts back."""
    q, reader = memory(NEW), memory(payload_keys=[NEW])
    await q.schedule("daily", q.draft("pay", {"text": SECRET}), at=FAR)
    await reader.pause_schedule("daily")
    engine = q.store.engine  # type: ignore[attr-defined]
    [schedule] = await engine.schedules()
    assert is_sealed(schedule.draft.spec.data)

    blind = memory()

    @blind.task(attempts=1, dead_letter="dead")
    async def pay(text: str) -> None: ...

    handle = await q.enqueue("pay", {"text": SECRET})
    await failing(blind)
    await engine.remove(RemoveRequest([handle.id]))
    assert await reader.replay("dead") == 1
    [job] = (await engine.page(PageRequest(type="pay"))).jobs
    assert is_sealed(job.data)
    assert Envelope.read(job.data).protection == "encrypt"  # type: ignore[union-attr]


async def test_compressed_jobs_run_on_while_protection_is_turned_on(
    memory: Make,
) -> None:
    handle = await memory(compress_over=10).enqueue("echo", LONG)
    for q, state in (
        (memory(NEW), State.FAILED),
        (memory(NEW, accept_plain=True), State.COMPLETE),
    ):
        q.process("echo", lambda job: None)
        await burst(q)
        assert (await handle.refresh()).state is state
        if state is State.FAILED:
            await handle.retry()


async def test_ids_that_a_fail_over_lost_are_reserved_again(
    memory: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    q = memory(NEW)
    inner = q.store.engine  # type: ignore[attr-defined]
    reserve, lost = inner.reserve, [10**9, 10**9]

    async def losing(types: list[str], **given: Any) -> list[int]:
        return [lost.pop()] if lost else await reserve(types, **given)

    monkeypatch.setattr(inner, "reserve", losing)

    assert (await q.enqueue("work", SECRET)).is_new
    lost[:] = [10**9] * 3
    with pytest.raises(IdNotReserved, match="reserve another one"):
        await q.enqueue("work", SECRET)


def test_a_process_that_runs_jobs_needs_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program is imported there, without the variables that have the keys."""
    monkeypatch.setenv("KUE_URL", null_store.URL)

    assert (
        Kue("sqlite:///kue.db", payload_protection="sign").settings.payload_keys == ()
    )


def test_keys_are_in_no_text_of_a_queue(caplog: pytest.LogCaptureFixture) -> None:
    q = Kue("memory://", payload_keys=[NEW], payload_protection="sign")
    secret = NEW.partition(":")[2]

    shown = [repr(q), repr(q.settings), str(q.settings), repr(q.store), caplog.text]

    assert not any(secret in text for text in shown)
    assert repr(PayloadKey.read(NEW).secret) not in "".join(shown)
