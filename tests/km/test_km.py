"""KMQueue's API: tasks that are popped and finished by hand."""

from __future__ import annotations

import math
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kue import BadPayload, ConfigError, Kue, State, StoreUnavailable
from kue.km import (
    BackupQueueMonitor,
    KMQueueManager,
    MonitorReport,
    Task,
    TaskQueue,
    gen_back_up_queue_name,
)
from kue.model.job import Job
from kue.model.payload_keys import new_key
from tests.support.patience import PATIENCE_SECONDS, eventually, until

QUEUES = ("worker1_queue", "worker2_queue:safe")
PLAIN, SAFE = "worker1_queue", "worker2_queue"
BACKUP = gen_back_up_queue_name(*QUEUES)


@pytest.fixture
def manager(plain_q: Kue) -> Iterator[KMQueueManager]:
    with built(plain_q) as manager:
        yield manager


@pytest.fixture
def safe(manager: KMQueueManager) -> TaskQueue:
    return manager.get_task_queue(SAFE)


def built(q: Kue, **options: Any) -> KMQueueManager:
    builder = KMQueueManager.Builder(q, *QUEUES)
    for name, value in options.items():
        getattr(builder, f"set_{name}")(value)
    return builder.build()


def pop(queue: TaskQueue) -> Task:
    task = queue.pop_task(timeout=PATIENCE_SECONDS)
    assert task is not None
    return task


def job_of(q: Kue, task: Task) -> Job:
    assert task.job is not None
    return q.sync.get(task.job.id).refresh()


class Letters:
    """A pipeline that remembers what it got."""

    def __init__(self) -> None:
        self.got: list[tuple[str, str]] = []

    def process(self, queue: str, task: Task) -> None:
        self.got.append((queue, task.id))


class Handler:
    seen: list[Any]

    def handle(self, data: Any, *params: Any) -> None:
        if data == "oops":
            raise ValueError("oops")
        type(self).seen.append((data, *params))


@pytest.fixture
def handler() -> type[Handler]:
    return type("Recorder", (Handler,), {"seen": []})


def monitor_of(q: Kue, **options: Any) -> BackupQueueMonitor:
    builder = BackupQueueMonitor.Builder(q, BACKUP)
    for name, value in options.items():
        getattr(builder, name)(value)
    return builder.build()


def killed(manager: KMQueueManager) -> None:
    """Let the consumer die: no more heartbeats, and its lease ends now."""

    async def die(q: Kue) -> None:
        popped = await manager.popped(q)
        for task in popped._tasks:
            task.cancel()
        await q.store.leave(popped.name)
        manager._popped = None

    manager.call(die)


def at_once(functions: list[Callable[[], object]]) -> None:
    """Call functions, each on a thread, until all have returned."""
    threads = [threading.Thread(target=one, daemon=True) for one in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    assert not any(thread.is_alive() for thread in threads)


# -- names -------------------------------------------------------------------


def test_the_name_of_a_group_is_kmqueues_own() -> None:
    """K-10: derived from names alone, in their order, whatever holds them."""
    assert BACKUP == "back_up_queue_ZkGUZkDe6zIgjH0nGthHgQ=="
    assert gen_back_up_queue_name(*list(QUEUES)) == BACKUP
    assert gen_back_up_queue_name(" worker1_queue ", "worker2_queue") == BACKUP
    assert gen_back_up_queue_name(SAFE, PLAIN) != BACKUP


@pytest.mark.parametrize(
    ("queues", "message"),
    [
        (["mail:sure"], "mode of queue 'mail' is default or safe, not 'sure'"),
        (["mail", "mail:safe"], "queue 'mail' is declared twice"),
        ([], "declare at least one queue"),
    ],
)
def test_queues_that_make_no_sense_are_refused(queues: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        KMQueueManager.Builder("memory://", *queues)


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("alive_timeout", -1, "alive timeout must not be negative"),
        ("alive_timeout", "soon", "alive timeout"),
        ("retry_times", -1, "retry times are from 0 to 1,000, not -1"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    plain_q: Kue, option: str, value: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        built(plain_q, **{option: value})


def test_an_alive_timeout_of_0_is_none_as_in_kmqueue(plain_q: Kue) -> None:
    with built(plain_q, alive_timeout=0) as manager:
        safe = manager.get_task_queue(SAFE)
        safe.push_task(Task(SAFE, "u"))

        assert job_of(plain_q, pop(safe)).expires == 0


def test_an_empty_name_is_refused() -> None:
    with pytest.raises(ValueError, match="queue"):
        KMQueueManager.Builder("memory://", ":safe")


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (("127.0.0.1", 6380), "redis://127.0.0.1:6380"),
        (("h1:1,h2:2", True), "redis+sentinel://h1:1,h2:2/master"),
        (("memory://",), "memory"),
    ],
)
def test_a_manager_is_built_in_kmqueues_three_ways(given: Any, name: str) -> None:
    builder = KMQueueManager.Builder(*given, *QUEUES).set_max_total(5).set_max_idle(3)
    manager = builder.set_max_wait_millis(-1).build()

    assert name in manager.q.store.name
    assert manager.get_task_queue(SAFE).mode == "safe"


def test_managers_on_one_file_have_the_same_queues(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/tasks.db"
    with (
        KMQueueManager.Builder(url, *QUEUES).build() as first,
        KMQueueManager.Builder(url, *QUEUES).build() as second,
    ):
        first.get_task_queue(SAFE).push_task(Task(SAFE, "u"))
        task = pop(second.get_task_queue(SAFE))

        assert task.id == "u"
        assert first.get_task_queue(SAFE).pop_task(timeout=0) is None
        assert second.get_task_queue(SAFE).finish_task(task)


def test_a_place_that_is_none_is_refused_with_advice() -> None:
    with pytest.raises(ConfigError, match="neither a queue nor a URL"):
        KMQueueManager.Builder("localhost", "mail")


def test_a_queue_that_was_not_declared_is_refused(manager: KMQueueManager) -> None:
    with pytest.raises(ConfigError, match="there are worker1_queue, worker2_queue"):
        manager.get_task_queue("mail")


# -- push, pop, finish -------------------------------------------------------


@pytest.mark.parametrize("name", [PLAIN, SAFE])
def test_a_task_is_popped_as_it_was_pushed(manager: KMQueueManager, name: str) -> None:
    queue = manager.get_task_queue(name)
    pushed = queue.push_task(Task(name, "u1", True, "sms", {"to": "ann"}))
    assert pushed is not None

    task = pop(queue)

    assert (task.queue, task.id, task.is_unique) == (name, "u1", True)
    assert (task.type, task.data) == ("sms", {"to": "ann"})
    assert task.status.state == "normal"
    assert task.status.exc_timestamp >= task.status.gen_timestamp > 0


def test_tasks_come_in_order_and_those_for_the_header_first(safe: TaskQueue) -> None:
    for uid in ("1", "2"):
        safe.push_task(Task(SAFE, uid))
    safe.push_task_to_header(Task(SAFE, "first"))

    assert [pop(safe).id for _ in range(3)] == ["first", "1", "2"]


def test_a_pop_waits_for_a_push_and_no_longer_than_its_timeout(safe: TaskQueue) -> None:
    assert safe.pop_task(timeout=0) is None
    pusher = threading.Timer(0.1, safe.push_task, [Task(SAFE, "late")])
    pusher.start()

    assert pop(safe).id == "late"
    pusher.join(PATIENCE_SECONDS)


def test_a_default_queue_forgets_what_is_popped(
    plain_q: Kue, manager: KMQueueManager
) -> None:
    queue = manager.get_task_queue(PLAIN)
    queue.push_task(Task(PLAIN, data=1))
    task = pop(queue)
    killed(manager)

    assert job_of(plain_q, task).state is State.COMPLETE
    assert queue.finish_task(task)
    assert queue.pop_task(timeout=0) is None


def test_a_safe_task_is_kept_until_it_is_finished(
    plain_q: Kue, safe: TaskQueue
) -> None:
    """K-1: popping is one step, from the queue to the lease of its consumer."""
    safe.push_task(Task(SAFE, data=1))
    task = pop(safe)
    assert job_of(plain_q, task).state is State.ACTIVE

    assert safe.finish_task(task)
    assert safe.finish_task(task)

    assert job_of(plain_q, task).state is State.COMPLETE


def test_a_changed_task_is_finished_all_the_same(plain_q: Kue, safe: TaskQueue) -> None:
    """K-6: a task is found by what it is, not by its text."""
    safe.push_task(Task(SAFE, "u", data={"to": "ann"}))
    task = pop(safe)
    task.data, task.type = {"to": "bob"}, "changed"

    assert safe.finish_task(task)
    assert job_of(plain_q, task).state is State.COMPLETE


def test_a_task_that_was_not_popped_cannot_be_finished(safe: TaskQueue) -> None:
    task = Task(SAFE)
    safe.push_task(task)

    with pytest.raises(ValueError, match="was pushed, not popped"):
        safe.finish_task(task)


def test_a_task_of_another_queue_is_refused(safe: TaskQueue) -> None:
    with pytest.raises(ValueError, match="is not a task of queue 'worker2_queue'"):
        safe.push_task(Task(PLAIN))


def test_data_that_is_not_json_is_refused(safe: TaskQueue) -> None:
    with pytest.raises(BadPayload):
        safe.push_task(Task(SAFE, data=float("nan")))


def test_a_manager_that_is_destroyed_requeues_what_it_popped(plain_q: Kue) -> None:
    with built(plain_q) as first:
        queue = first.get_task_queue(SAFE)
        queue.push_task(Task(SAFE, "u"))
        pop(queue)

    with built(plain_q) as second:
        task = pop(second.get_task_queue(SAFE))
        assert (task.id, task.status.retry) == ("u", 0)


# -- unique tasks ------------------------------------------------------------


def test_a_unique_task_is_rejected_until_the_first_is_finished(safe: TaskQueue) -> None:
    assert safe.push_task(Task(SAFE, "u", is_unique=True)) is not None
    assert safe.push_task(Task(SAFE, "u", is_unique=True)) is None
    task = pop(safe)
    assert safe.push_task(Task(SAFE, "u", is_unique=True)) is None

    safe.finish_task(task)

    assert safe.push_task(Task(SAFE, "u", is_unique=True)) is not None


def test_a_unique_task_stays_unique_while_it_is_retried(
    manager: KMQueueManager, safe: TaskQueue
) -> None:
    """K-4: from the loss of its consumer until it is finished."""
    safe.push_task(Task(SAFE, "u", is_unique=True))
    pop(safe)
    killed(manager)

    assert safe.push_task(Task(SAFE, "u", is_unique=True)) is None
    task = pop(safe)
    assert (task.id, task.status.state) == ("u", "retry")


# -- consumers that die ------------------------------------------------------


def test_a_task_of_a_dead_consumer_is_given_to_another(
    manager: KMQueueManager, safe: TaskQueue
) -> None:
    safe.push_task(Task(SAFE, "u"))
    first = pop(safe)
    killed(manager)

    again = pop(safe)

    assert (again.id, again.status.retry, again.status.state) == ("u", 1, "retry")
    assert not safe.finish_task(first)
    assert safe.finish_task(again)


def test_a_consumer_goes_on_after_its_queue_was_closed(
    plain_q: Kue, manager: KMQueueManager, safe: TaskQueue
) -> None:
    """K-11: with another heartbeat, as that one ended with the queue."""
    safe.push_task(Task(SAFE, "first"))
    pop(safe)
    plain_q.sync.close()
    safe.push_task(Task(SAFE, "second"))
    task = pop(safe)

    async def is_alive(q: Kue) -> bool:
        popped = await manager.popped(q)
        return popped.q is q and [one.job for one in popped.runs] == [task.job]

    assert task.id == "second"
    assert manager.call(is_alive)
    assert safe.finish_task(task)


def test_a_pop_that_waits_ends_with_its_manager(plain_q: Kue) -> None:
    manager = built(plain_q)
    manager.init()
    safe, ended = manager.get_task_queue(SAFE), threading.Event()

    def consume() -> None:
        with pytest.raises(StoreUnavailable):
            safe.pop_task()
        ended.set()

    thread = threading.Thread(target=consume, daemon=True)
    thread.start()
    manager.call(_a_pop_waits, manager)
    manager.destroy()

    assert ended.wait(PATIENCE_SECONDS)
    thread.join(PATIENCE_SECONDS)


def test_a_forked_process_leaves_the_tasks_of_its_parent_alone(
    plain_q: Kue, manager: KMQueueManager, safe: TaskQueue
) -> None:
    safe.push_task(Task(SAFE, "parent"))
    task = pop(safe)
    safe.push_task(Task(SAFE, "child"))

    def be_a_child() -> None:
        own = pop(safe)
        assert own.id == "child"
        assert safe.finish_task(own)
        manager.destroy()

    assert _forked(be_a_child) == 0
    assert job_of(plain_q, task).state is State.ACTIVE
    assert safe.finish_task(task)


def test_a_live_consumer_keeps_its_task_however_long_it_takes(
    plain_q: Kue, manager: KMQueueManager, safe: TaskQueue
) -> None:
    """K-11: its heartbeat renews the lease; the user has nothing to write."""
    safe.push_task(Task(SAFE, "u"))
    task = pop(safe)

    async def deadline(q: Kue) -> int:
        popped = await manager.popped(q)
        [worker] = [w for w in await q.store.workers() if w.name == popped.name]
        return worker.deadline

    before = manager.call(deadline)

    async def is_renewed(q: Kue) -> bool:
        return await deadline(q) > before

    manager.call(lambda q: eventually(lambda: is_renewed(q)))
    assert job_of(plain_q, task).state is State.ACTIVE
    assert safe.finish_task(task)


@pytest.mark.parametrize("times", [0, 2])
def test_a_task_is_retried_as_often_as_was_set(plain_q: Kue, times: int) -> None:
    with built(plain_q, retry_times=times) as manager:
        safe = manager.get_task_queue(SAFE)
        safe.push_task(Task(SAFE, "u"))
        for _ in range(times + 1):
            task = pop(safe)
            killed(manager)
        letters = Letters()
        monitor = monitor_of(plain_q, set_pipeline=letters)
        # Until maintenance has found that the consumer is gone.
        until = time.monotonic() + PATIENCE_SECONDS
        while not monitor.monitor().handed_over:
            assert time.monotonic() < until

        assert task.status.retry == times
        assert letters.got == [(SAFE, "u")]
        assert safe.pop_task(timeout=0) is None


# -- time limits and the monitor ---------------------------------------------


def test_an_over_age_task_is_never_popped_and_reaches_the_pipeline(
    plain_q: Kue,
) -> None:
    """K-2: it is dead-lettered when its turn comes, not handled."""
    letters = Letters()
    with built(plain_q, alive_timeout="1ms") as manager:
        safe = manager.get_task_queue(SAFE)
        safe.push_task(Task(SAFE, "old"))
        manager.call(_a_moment)

        assert safe.pop_task(timeout=0) is None
        report = monitor_of(plain_q, set_pipeline=letters).monitor()

    assert (letters.got, report.handed_over) == ([(SAFE, "old")], ["old"])


def test_a_hung_task_is_retried_then_fails_for_good(
    plain_q: Kue, manager: KMQueueManager, safe: TaskQueue
) -> None:
    letters = Letters()
    monitor = monitor_of(
        plain_q, set_protected_timeout="1ms", set_retry_times=1, set_pipeline=letters
    )
    safe.push_task(Task(SAFE, "u"))
    hung = pop(safe)
    manager.call(_a_moment)
    assert monitor.monitor() == MonitorReport(retried=["u"])

    again = pop(safe)
    manager.call(_a_moment)
    assert monitor.monitor() == MonitorReport(failed=["u"], handed_over=["u"])

    assert letters.got == [(SAFE, "u")]
    assert not safe.finish_task(hung)
    assert not safe.finish_task(again)


def test_a_task_that_is_alive_is_left_alone_however_long_it_runs(
    plain_q: Kue, manager: KMQueueManager, safe: TaskQueue
) -> None:
    """K-3: alive, retried or dead-lettered, and never two of these."""

    class Alive:
        def check(self, monitor: BackupQueueMonitor, task: Task) -> bool:
            return task.id == "alive"

    letters = Letters()
    for uid in ("alive", "hung"):
        safe.push_task(Task(SAFE, uid))
        pop(safe)
    manager.call(_a_moment)

    monitor = monitor_of(
        plain_q,
        set_protected_timeout="1ms",
        register_alive_detect_handler=Alive(),
        set_pipeline=letters,
    )

    assert monitor.monitor() == MonitorReport(retried=["hung"], alive=["alive"])
    assert monitor.monitor() == MonitorReport(alive=["alive"])
    assert letters.got == []


def test_the_alive_timeout_ends_a_task_that_runs_once(
    plain_q: Kue, manager: KMQueueManager, safe: TaskQueue
) -> None:
    """K-3: overdue in both ways, it has one ending."""
    letters = Letters()
    safe.push_task(Task(SAFE, "u"))
    pop(safe)
    manager.call(_a_moment)
    monitor = monitor_of(
        plain_q,
        set_protected_timeout="1ms",
        set_alive_timeout="1ms",
        set_pipeline=letters,
    )

    assert monitor.monitor() == MonitorReport(failed=["u"], handed_over=["u"])
    assert monitor.monitor() == MonitorReport()
    assert letters.got == [(SAFE, "u")]


@pytest.mark.parametrize("place", ["redis"], indirect=True)
@pytest.mark.parametrize("days", [1, -1])
def test_the_clock_of_a_monitor_decides_nothing(
    plain_q: Kue, safe: TaskQueue, monkeypatch: pytest.MonkeyPatch, days: int
) -> None:
    """K-8: a task is as old as it is by the clock of the store."""
    safe.push_task(Task(SAFE, "u"))
    task = pop(safe)
    monitor = monitor_of(plain_q, set_protected_timeout="1h", set_alive_timeout="1h")
    real, off = time.time_ns, days * 86_400
    monkeypatch.setattr(time, "time_ns", lambda: real() + off * 10**9)
    monkeypatch.setattr(time, "time", lambda: real() / 1e9 + off)

    assert monitor.monitor() == MonitorReport()
    assert safe.finish_task(task)


def test_a_task_of_type_marker_and_two_monitors_are_nothing_special(
    plain_q: Kue, safe: TaskQueue
) -> None:
    """K-7: every pass sees every task, and each dead letter is handed over once."""
    letters = Letters()
    names = [f"u{n}" for n in range(20)]
    for name in names:
        safe.push_task(Task(SAFE, name, type="marker"))
        safe.fail_task(pop(safe), ValueError("oops"))
    monitors = [monitor_of(plain_q, set_pipeline=letters) for _ in range(2)]
    reports: list[MonitorReport] = []

    def make_a_pass() -> None:
        reports.append(monitors.pop().monitor())

    at_once([make_a_pass] * 2)

    assert sorted(uid for _, uid in letters.got) == sorted(names)
    assert len(reports[0].handed_over + reports[1].handed_over) == len(names)


def test_a_pipeline_that_raises_gets_the_task_again(
    plain_q: Kue, safe: TaskQueue, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        def process(self, queue: str, task: Task) -> None:
            raise OSError("no database")

    safe.push_task(Task(SAFE, "u"))
    safe.fail_task(pop(safe), ValueError("oops"))

    assert monitor_of(plain_q, set_pipeline=Broken()).monitor().handed_over == []
    letters = Letters()
    monitor_of(plain_q, set_pipeline=letters).monitor()
    assert letters.got == [(SAFE, "u")]


def test_a_pipeline_and_an_alive_handler_may_block_and_use_the_queues(
    plain_q: Kue, manager: KMQueueManager, safe: TaskQueue
) -> None:
    """They are called in the thread of the monitor, not between heartbeats."""
    threads: list[threading.Thread] = []
    other = manager.get_task_queue(PLAIN)

    class User:
        def process(self, queue: str, task: Task) -> None:
            threads.append(threading.current_thread())
            other.push_task(Task(PLAIN, task.id))

        def check(self, monitor: BackupQueueMonitor, task: Task) -> bool:
            threads.append(threading.current_thread())
            other.push_task(Task(PLAIN, "checked"))
            return True

    safe.push_task(Task(SAFE, "failed"))
    safe.fail_task(pop(safe), ValueError("oops"))
    safe.push_task(Task(SAFE, "slow"))
    pop(safe)
    manager.call(_a_moment)
    monitor = monitor_of(
        plain_q,
        set_protected_timeout="1ms",
        set_pipeline=User(),
        register_alive_detect_handler=User(),
    )

    assert monitor.monitor() == MonitorReport(alive=["slow"], handed_over=["failed"])
    assert set(threads) == {threading.current_thread()}
    assert [pop(other).id, pop(other).id] == ["checked", "failed"]


def test_a_monitor_of_undeclared_queues_is_refused_with_advice(plain_q: Kue) -> None:
    monitor = BackupQueueMonitor.Builder(plain_q, "back_up_queue_x").build()

    with pytest.raises(ConfigError, match=r"call its init\(\) first"):
        monitor.monitor()


def test_declaring_queues_again_changes_nothing(plain_q: Kue, safe: TaskQueue) -> None:
    """K-9: opening what exists leaves nothing behind, and takes nothing away."""
    safe.push_task(Task(SAFE, "u"))

    with built(plain_q) as again:
        again.init()
        assert pop(again.get_task_queue(SAFE)).id == "u"


# -- handlers ----------------------------------------------------------------


def test_a_handled_task_is_finished(
    plain_q: Kue, manager: KMQueueManager, safe: TaskQueue, handler: type[Handler]
) -> None:
    safe.push_task(Task(SAFE, data={"to": "ann"}))
    task = pop(safe)

    task.do_task(manager, handler, "by", 1)

    assert handler.seen == [({"to": "ann"}, "by", 1)]
    assert job_of(plain_q, task).state is State.COMPLETE


@pytest.mark.parametrize(
    ("policy", "state"),
    [
        ("fail", State.FAILED),
        ("finish", State.COMPLETE),
        ("retry", State.WAITING),
    ],
)
def test_what_an_exception_does_is_a_choice(
    plain_q: Kue,
    handler: type[Handler],
    policy: str,
    state: State,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """K-12: it is recorded and logged, and by default the task failed."""
    with built(plain_q, on_error=policy) as manager:
        safe = manager.get_task_queue(SAFE)
        safe.push_task(Task(SAFE, "u", data="oops"))
        task = pop(safe)
        task.do_task(manager, handler)

        assert job_of(plain_q, task).state is state
    assert "task u of queue worker2_queue raised" in caplog.text


def test_the_error_of_a_handler_is_kept_with_its_stack(
    plain_q: Kue, manager: KMQueueManager, safe: TaskQueue, handler: type[Handler]
) -> None:
    safe.push_task(Task(SAFE, data="oops"))
    task = pop(safe)
    task.do_task(manager, handler)

    error = job_of(plain_q, task).error
    assert error is not None
    assert 'raise ValueError("oops")' in error.stack
    assert "src/kue/" not in error.stack


def test_the_policy_for_exceptions_is_fail_unless_set(plain_q: Kue) -> None:
    """K-12."""
    assert built(plain_q).on_error == "fail"
    with pytest.raises(ValueError, match="'fail', 'finish' or 'retry', not 'ignore'"):
        built(plain_q, on_error="ignore")


# -- with the rest of Kue ----------------------------------------------------


def test_a_job_of_kue_is_a_task_and_its_consumer_a_worker(
    plain_q: Kue, safe: TaskQueue
) -> None:
    plain_q.sync.enqueue(SAFE, {"to": "ann"})

    task = pop(safe)

    assert task.data == {"to": "ann"}
    [worker] = [one for one in plain_q.sync.workers() if one.name.startswith("km-")]
    assert worker.alive


@pytest.mark.parametrize(
    "data",
    [{"id": "ann"}, {"id": "ann", "type": "vip", "data": 1}, {"id": "ann", "to": 1}],
)
def test_a_job_of_kue_keeps_its_data_whatever_its_fields_are(
    plain_q: Kue, safe: TaskQueue, data: dict[str, Any]
) -> None:
    job = plain_q.sync.enqueue(SAFE, data)

    task = pop(safe)

    assert (task.id, task.type, task.data) == (str(job.id), "", data)


def test_a_task_with_a_uid_or_a_type_that_is_no_text_is_refused() -> None:
    wrong: Any = 7
    with pytest.raises(TypeError, match="the uid of a task is text, not 7"):
        Task(SAFE, wrong)
    with pytest.raises(TypeError, match="the type of a task is text, not 7"):
        Task(SAFE, type=wrong)


def test_a_paused_queue_gives_no_tasks(plain_q: Kue, safe: TaskQueue) -> None:
    safe.push_task(Task(SAFE, "u"))
    plain_q.sync.pause(SAFE)
    assert safe.pop_task(timeout=0) is None

    plain_q.sync.resume(SAFE)
    assert pop(safe).id == "u"


def test_several_threads_pop_each_task_once(safe: TaskQueue) -> None:
    got: list[str] = []

    def consume() -> None:
        while (task := safe.pop_task(timeout=0)) is not None:
            got.append(task.id)
            safe.finish_task(task)

    for n in range(40):
        safe.push_task(Task(SAFE, str(n)))
    at_once([consume] * 4)

    assert sorted(got, key=int) == [str(n) for n in range(40)]


async def _a_moment(q: Kue) -> None:
    """Let the store's clock go on: limits here are of a millisecond."""
    until = await q.store.now() + 2

    async def is_later() -> bool:
        return await q.store.now() >= until

    await eventually(is_later)


async def _a_pop_waits(q: Kue, manager: KMQueueManager) -> None:
    popped = await manager.popped(q)
    await until(lambda: bool(popped._pops))


def _forked(function: Callable[[], None]) -> int:
    """Call a function in a forked process, and return its exit code."""
    if pid := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    # The system ends it if it hangs.
    signal.alarm(math.ceil(PATIENCE_SECONDS))
    code = 1
    try:
        function()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def test_a_sealed_task_stays_if_the_monitor_cannot_open_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    url = f"sqlite:///{tmp_path}/kue.db"
    q = Kue(url, payload_keys=[new_key("k")], payload_protection="encrypt")
    stranger = Kue(url)
    with built(q) as manager:
        safe = manager.get_task_queue(SAFE)
        safe.push_task(Task(SAFE, "u", data="mine"))
        safe.fail_task(pop(safe), ValueError("oops"))
    letters = Letters()

    report = monitor_of(stranger, set_pipeline=letters).monitor()
    assert (report.handed_over, letters.got) == ([], [])
    assert "is not handed to the pipeline: its data is encrypted" in caplog.text
    assert monitor_of(q, set_pipeline=letters).monitor().handed_over == ["u"]

    for one in (q, stranger):
        one.sync.close()


def test_a_sealed_task_is_popped_by_a_client_with_the_key_and_a_plain_one_fails(
    tmp_path: Path,
) -> None:
    url, key = f"sqlite:///{tmp_path}/kue.db", new_key("k")
    q = Kue(url, payload_keys=[key], payload_protection="sign")
    stranger = Kue(url)
    with built(stranger) as plain:
        plain.get_task_queue(SAFE).push_task(Task(SAFE, data="forged"))
    with built(q) as manager:
        safe = manager.get_task_queue(SAFE)
        safe.push_task(Task(SAFE, data="mine"))

        assert pop(safe).data == "mine"

    [refused] = stranger.sync.find(state=State.FAILED).jobs
    assert refused.error is not None
    assert refused.error.kind == "PayloadRefused"
    for one in (q, stranger):
        one.sync.close()
