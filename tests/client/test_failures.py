"""Jobs that failed for good: hooks, dead letters, webhooks, and the way back."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import to_builtins
from msgspec.structs import replace

from kue import Kue, QueueFull, State, StoreUnavailable
from kue.model.dead_letter import DeadLetter
from kue.model.failure_rule import FailureRule
from kue.model.job import Error, Failed, Job
from kue.store.contract import Store
from kue.store.values import Outcome, RemoveRequest
from kue.worker import failure_reporter, webhook
from tests.support.flaky import Wire
from tests.support.jobs import claim_one
from tests.support.patience import PATIENCE_SECONDS, until
from tests.support.receiver import receiving


class Calls:
    """A failure hook that remembers, and can be waited for."""

    def __init__(self) -> None:
        self.of: list[tuple[int, str]] = []
        self._called = asyncio.Event()

    async def __call__(self, job: Job, error: Error) -> None:
        assert (job.state, job.error) == (State.FAILED, error)
        self.of.append((job.id, error.kind))
        self._called.set()

    async def wait(self, count: int = 1) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(self.of) < count:
                await self._called.wait()
                self._called.clear()


class Dying:
    """A store that is lost when a failure is to be forgotten."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def forget_failures(self, failures: Any) -> None:
        raise StoreUnavailable("away")


async def fail(store: Store) -> None:
    """Fail the waiting job of type ``send``, as a worker does that is then killed."""
    job = await claim_one(store, "send", now=None)
    await store.settle([Outcome(job, Failed(Error("ValueError", "oops")))])


async def burst(q: Kue) -> None:
    await q.run(burst=True, signals=False)


async def test_the_hook_is_called_once_for_a_job_that_failed_for_good(q: Kue) -> None:
    """KMQueue's pipeline: what cannot be done is handed to someone, once."""
    calls = Calls()
    q.on_failure(calls)

    @q.task(attempts=2, backoff=None)
    async def send(ok: bool) -> None:
        if not ok:
            raise ValueError("oops")

    bad, _ = await send.enqueue(ok=False), await send.enqueue(ok=True)
    await burst(q)

    assert calls.of == [(bad.id, "ValueError")]
    assert await q.store.failures() == []


async def test_a_job_that_expired_calls_the_hook_although_it_never_ran(
    q: Kue,
) -> None:
    calls = Calls()
    q.on_failure(calls)
    q.process("email", print)
    # Declares the rule.
    await burst(q)
    job = await q.enqueue("email", expires="1ms", delay="1h")
    async with q.work():
        await calls.wait()

    assert calls.of == [(job.id, "Expired")]


async def test_a_silent_run_calls_the_hook_of_its_own_live_worker(q: Kue) -> None:
    calls = Calls()
    q.on_failure(calls)

    @q.task(attempts=1, ttl="100ms")
    async def hang() -> None:
        await asyncio.sleep(3600)

    job = await hang.enqueue()
    async with q.work():
        await calls.wait()

    assert calls.of == [(job.id, "TTLExceeded")]


async def test_rules_of_a_task_hold_in_each_queue_that_its_jobs_wait_in(q: Kue) -> None:
    calls = Calls()

    @q.task(attempts=1, queue="mail", on_failure=calls, dead_letter="dead")
    async def send() -> None:
        raise ValueError("oops")

    first = await send.enqueue()
    second = await send.options(queue="bulk").enqueue()
    await q.run(queues=["mail", "bulk"], burst=True, signals=False)

    assert sorted(calls.of) == [(first.id, "ValueError"), (second.id, "ValueError")]
    assert (await q.counts("dead"))[State.WAITING] == 2


async def test_the_rule_of_a_queue_is_that_of_each_task_without_its_own(
    q: Kue,
) -> None:
    @q.task(attempts=1, queue="mail")
    async def send() -> None:
        raise ValueError("oops")

    @q.task(attempts=1, queue="mail")
    async def print_label() -> None:
        raise ValueError("oops")

    await q.set_dead_letter("mail", "lost-mail")
    await q.set_dead_letter("print_label", "lost-labels")
    await send.enqueue()
    await print_label.enqueue()
    await burst(q)

    for dead in ("lost-mail", "lost-labels"):
        assert (await q.counts(dead))[State.WAITING] == 1


async def test_the_hook_of_a_task_is_called_before_those_of_the_queue(q: Kue) -> None:
    story: list[str] = []
    q.on_failure(lambda job, error: story.append("queue"))

    @q.task(attempts=1, on_failure=lambda job, error: story.append("task"))
    async def send() -> None:
        raise ValueError("oops")

    await send.enqueue()
    await burst(q)

    assert story == ["task", "queue"]


async def test_a_hook_that_raises_is_called_again_and_the_others_are_not(
    q: Kue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failure_reporter, "FIRST_RETRY", "1ms")
    story: list[str] = []

    @q.on_failure
    def unsteady(job: Job, error: Error) -> None:
        story.append("unsteady")
        if story.count("unsteady") == 1:
            raise OSError("database away")

    q.on_failure(lambda job, error: story.append("steady"))

    @q.task(attempts=1)
    async def send() -> None:
        raise ValueError("oops")

    await send.enqueue()
    async with q.work():
        await until(lambda: story.count("unsteady") == 2)

    assert story == ["unsteady", "steady", "unsteady"]


async def test_a_failure_that_is_reported_twice_calls_the_hook_once(q: Kue) -> None:
    """A process died after it added the job, before it deleted the failure."""
    calls = Calls()
    q.on_failure(calls)

    @q.task(attempts=1)
    async def send() -> None:
        raise ValueError("oops")

    await q.store.set_failure_rule("send", FailureRule(hooks=True))
    job = await send.enqueue()
    await fail(q.store)
    with pytest.raises(StoreUnavailable):
        await failure_reporter.report(Dying(q.store))  # type: ignore[arg-type]
    await burst(q)
    assert calls.of == [(job.id, "ValueError")]

    assert [one.job_id for one in await q.store.failures()] == []
    await burst(q)
    assert len(calls.of) == 1


async def test_a_program_without_hooks_ends_the_rule_of_its_types(q: Kue) -> None:
    await q.store.set_failure_rule("email", FailureRule(hooks=True))
    await q.store.set_failure_rule("of another", FailureRule(hooks=True))
    q.process("email", print)
    await burst(q)

    assert await q.failure_rules() == {"of another": FailureRule(hooks=True)}


async def test_a_failed_job_is_forwarded_to_its_dead_letter_type(q: Kue) -> None:
    @q.task(attempts=2, backoff=None, priority="high", tags=["a"], dead_letter="dead")
    async def send(to: str) -> None:
        raise ValueError(f"no {to}")

    job = await send.enqueue("ann")
    await burst(q)
    await failure_reporter.report(q.store)

    [letter] = (await q.find(type="dead")).jobs
    assert letter.state is State.WAITING
    assert letter.spec.parent == job.id
    read = DeadLetter.read(letter.data)
    assert read is not None
    assert (read.job_id, read.type, read.data) == (job.id, "send", {"to": "ann"})
    assert (read.error, read.attempts) == (Error("ValueError", "no ann"), 2)


async def test_a_dead_letter_is_put_back_by_retrying_the_job_that_failed(
    q: Kue,
) -> None:
    job_id = await fail_into(q, "dead")

    assert await q.replay("dead") == 1

    assert (await q.find(type="dead")).jobs == []
    assert (await (await q.get(job_id)).refresh()).state is State.WAITING
    assert await q.replay("dead") == 0


async def test_a_dead_letter_of_a_job_that_is_gone_is_added_again_as_it_was(
    q: Kue,
) -> None:
    job_id = await fail_into(q, "dead")
    await q.store.remove(RemoveRequest([job_id]))

    assert await q.replay("dead", type="other") == 0
    assert await q.replay("dead", type="send") == 1

    [again] = (await q.find(type="send")).jobs
    assert (again.state, again.data) == (State.WAITING, {"to": "ann"})
    assert (again.priority, again.tags, again.max_attempts) == (-10, ("a",), 2)


async def test_a_dead_letter_stays_while_a_cap_refuses_its_job(q: Kue) -> None:
    job_id = await fail_into(q, "dead")
    await q.store.remove(RemoveRequest([job_id]))
    await q.limit("send", max_waiting=1)
    other = await q.enqueue("send")

    with pytest.raises(QueueFull, match="no job of type 'send' was added"):
        await q.replay("dead")
    assert (await q.counts("dead"))[State.WAITING] == 1

    await other.remove()
    assert await q.replay("dead") == 1
    assert (await q.counts("send"))[State.WAITING] == 1


async def test_a_job_that_failed_again_is_replayed_once(q: Kue) -> None:
    job_id = await fail_into(q, "dead")
    await (await q.get(job_id)).retry()
    await burst(q)
    assert (await q.counts("dead"))[State.WAITING] == 2

    await q.replay("dead")

    [job] = (await q.find(type="send")).jobs
    assert (job.id, job.state) == (job_id, State.WAITING)
    assert (await q.find(type="dead")).jobs == []


async def test_a_dead_letter_that_makes_no_sense_keeps_no_other_from_being_replayed(
    q: Kue, caplog: pytest.LogCaptureFixture
) -> None:
    job = await q.enqueue("send")
    letter = DeadLetter.of(await job.refresh())
    await job.remove()
    broken = replace(letter, options={"priority": "x"})
    odd = await q.enqueue("dead", to_builtins(broken))
    await fail_into(q, "dead")

    assert await q.replay("dead", type="send") == 1
    assert f"dead letter {odd.id} cannot be replayed: Expected `int`" in caplog.text
    assert [one.id for one in (await q.find(type="dead")).jobs] == [odd.id]


async def test_a_failure_is_reported_to_a_webhook_and_retried(q: Kue) -> None:
    with receiving(503) as receiver:
        await q.set_failure_webhook(None, receiver.url)

        @q.task(attempts=1, tags=["mail"])
        async def send() -> None:
            raise ValueError("oops")

        job = await send.enqueue()
        await burst(q)
        [sending] = (await q.find(type=webhook.TYPE)).jobs
        assert sending.state is State.DELAYED
        assert "status 503" in str(sending.error)
        await deliver(q, sending)

    first, second = receiver.received
    assert first.json == second.json
    assert first.json["job"] == job.id
    assert first.json["error"] == {"kind": "ValueError", "message": "oops"}
    assert first.json["text"] == f"Kue job {job.id} of send failed: ValueError: oops"
    assert receiver.url not in json.dumps(sending.data)


async def test_a_burst_sends_the_webhooks_of_what_failed(q: Kue) -> None:
    with receiving() as receiver:
        await q.set_failure_webhook("send", receiver.url)

        @q.task(attempts=1)
        async def send() -> None:
            raise ValueError("oops")

        job = await send.enqueue()
        await burst(q)

    assert [one.json["job"] for one in receiver.received] == [job.id]


async def test_a_worker_sends_the_webhook_of_a_failure_by_itself(q: Kue) -> None:
    with receiving() as receiver:
        await q.set_failure_webhook("send", receiver.url)

        @q.task(attempts=1)
        async def send() -> None:
            raise ValueError("oops")

        job = await send.enqueue()
        async with q.work():
            await until(lambda: bool(receiver.received))

    assert [one.json["job"] for one in receiver.received] == [job.id]


async def deliver(q: Kue, job: Job) -> None:
    """Send the webhook of *job*, as a worker does."""
    handler: Any = webhook.processor(q.store, q.settings).handler
    await handler(SimpleNamespace(job=job))


async def test_rules_are_set_and_shown_by_the_blocking_queue(q: Kue) -> None:
    def operate() -> dict[str | None, FailureRule]:
        q.sync.set_dead_letter("email", "dead")
        q.sync.set_failure_webhook("email", "https://ops.example/hook")
        q.sync.set_dead_letter("email", None)
        return q.sync.failure_rules()

    rules = await asyncio.to_thread(operate)
    assert rules == {"email": FailureRule(webhook="https://ops.example/hook")}
    with pytest.raises(ValueError, match="https"):
        await q.set_failure_webhook(None, "ftp://ops.example")


async def test_a_dead_letter_type_set_at_run_time_outlives_a_restart(q: Kue) -> None:
    @q.task(dead_letter="dead")
    async def send() -> None: ...

    await burst(q)
    await q.set_dead_letter("send", "morgue")
    await burst(q)

    assert (await q.failure_rules())["send"].dead_letter == "morgue"


@pytest.mark.parametrize("type", ["mail", "send"])
async def test_dead_letters_name_queue_and_task_and_are_replayed_by_either(
    q: Kue, type: str
) -> None:
    @q.task(attempts=1, queue="mail", dead_letter="dead")
    async def send() -> None:
        raise ValueError("oops")

    await send.enqueue()
    await burst(q)

    [letter] = (await q.find(type="dead")).jobs
    assert (letter.data["type"], letter.data["name"]) == ("mail", "send")
    assert await q.replay("dead", type="other") == 0
    assert await q.replay("dead", type=type) == 1


async def test_a_burst_forwards_what_a_rule_set_at_run_time_asks_for(q: Kue) -> None:
    @q.task(attempts=1)
    async def send() -> None:
        raise ValueError("oops")

    forwarded = []
    q.process("dead", lambda job: forwarded.append(job.data["type"]))
    await q.set_dead_letter("send", "dead")
    await send.enqueue()
    await burst(q)

    assert forwarded == ["send"]
    assert await q.store.failures() == []


async def test_a_burst_ends_although_a_cap_keeps_a_dead_letter_back(q: Kue) -> None:
    @q.task(attempts=1)
    async def send() -> None:
        raise ValueError("oops")

    await q.set_dead_letter("send", "dead")
    await q.limit("dead", max_waiting=1)
    await send.enqueue()
    await send.enqueue()
    async with asyncio.timeout(PATIENCE_SECONDS):
        await burst(q)

    assert (await q.counts("dead"))[State.WAITING] <= 1
    assert await q.store.failures()


async def test_dead_letters_that_a_cap_keeps_back_do_not_delay_other_reports(
    q: Kue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failure_reporter, "BATCH", 2)
    calls = Calls()

    @q.task(attempts=1, dead_letter="dead")
    async def send() -> None:
        raise ValueError("oops")

    @q.task(attempts=1, on_failure=calls)
    async def ship() -> None:
        raise ValueError("oops")

    await q.limit("dead", max_waiting=1)
    await send.enqueue_many([{}] * 6)
    await burst(q)
    job = await ship.enqueue()
    await burst(q)

    assert calls.of == [(job.id, "ValueError")]
    assert len(await q.store.failures()) == 5


async def test_of_many_dead_letters_that_are_kept_back_the_oldest_are_tried_again(
    q: Kue, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failure_reporter, "BATCH", 2)

    @q.task(attempts=1, dead_letter="dead")
    async def send() -> None:
        raise ValueError("oops")

    await q.limit("dead", max_waiting=1)
    await send.enqueue_many([{}] * 9)
    await burst(q)
    reporter = failure_reporter.FailureReporter(
        q.store, q._connection.store_retry, frozenset()
    )
    calls = []
    for _ in range(2):
        before = wire.times("add")
        await reporter._report_all()
        calls.append(wire.times("add") - before)

    assert calls == [4, 1]
    await q.limit("dead")
    await reporter._report_all()
    assert await q.store.failures() == []


async def fail_into(q: Kue, dead: str) -> int:
    """Have a job of type ``send`` fail, and forward it; return its id."""

    @q.task(attempts=2, backoff=None, priority="high", tags=["a"])
    async def send(to: str) -> None:
        raise ValueError(f"no {to}")

    await q.set_dead_letter(None, dead)
    job = await send.enqueue("ann")
    await burst(q)
    await failure_reporter.report(q.store)
    return job.id
