"""Connections by name, and fail-over between them."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

import kue
from kue import ConfigError, FailedOver, JobHandle, Kue, State, StoreUnavailable
from kue.client.connection import Connection
from kue.client.failover_connection import FailoverConnection
from kue.client.named_flow import NewFlow, add_steps, steps_of
from kue.client.sync.handle import SyncJobHandle
from kue.model.connections import VARIABLE, connections
from tests.support.command_line import CommandLine
from tests.support.patience import PATIENCE_SECONDS, until
from tests.support.servers import RedisServer

pytestmark = pytest.mark.usefixtures("no_connections")
DOWN = "redis://127.0.0.1:1/0"


async def test_a_name_always_stands_for_the_same_queue() -> None:
    kue.configure(mail="memory://", bulk={"url": "memory://", "max_data": 10})

    mail, bulk = kue.connect("mail"), kue.connect("bulk")
    await mail.enqueue("welcome")

    assert kue.connect("mail") is mail
    assert repr(mail) == "<Kue mail on memory://>"
    assert bulk.settings.max_data == 10
    assert sum((await mail.counts()).values()) == 1
    assert sum((await bulk.counts()).values()) == 0
    await mail.close()
    await bulk.close()


async def test_queues_of_one_redis_are_kept_apart_by_their_prefix(
    redis_server: RedisServer,
) -> None:
    url, prefix = redis_server.url, uuid.uuid4().hex
    kue.configure(mail={"url": url, "prefix": prefix})
    kue.configure(bulk={"url": url, "prefix": f"{prefix}-bulk"})
    mail, bulk = kue.connect("mail"), kue.connect("bulk")
    async with mail, bulk, Kue(url, prefix=prefix) as same:
        await mail.enqueue("welcome")

        assert [await q.count("waiting") for q in (mail, bulk, same)] == [1, 0, 1]
    redis_server.empty()


async def test_every_driver_does_what_its_url_says(
    tmp_path: Path, redis_server: RedisServer
) -> None:
    kue.configure(
        down={"url": DOWN, "budget": 0.05},
        failover="failover://down,memory",
        memory="memory://",
        redis={"url": redis_server.url, "prefix": uuid.uuid4().hex},
        database=f"sqlite:///{tmp_path}/kue.db",
        sync="sync://",
        null="null://",
    )
    found: dict[str, list[State]] = {}
    for name in ("memory", "redis", "database", "sync", "null", "failover"):
        q = kue.connect(name)
        q.process("welcome", lambda job: None)
        await q.enqueue("welcome")
        where = kue.connect("memory") if name == "failover" else q
        found[name] = [job.state for job in (await where.page()).jobs]
    for name in found:
        await kue.connect(name).close()
    redis_server.empty()

    assert found == {
        "memory": [State.WAITING],
        "redis": [State.WAITING],
        "database": [State.WAITING],
        "sync": [State.COMPLETE],
        "null": [],
        # Beside the one that was added to memory before.
        "failover": [State.WAITING] * 2,
    }


@pytest.mark.parametrize(
    "text",
    [
        "mail=redis://mail/0  bulk=redis+sentinel://a,b/svc",
        '{"mail": "redis://mail/0", "bulk": {"url": "redis+sentinel://a,b/svc"}}',
    ],
)
def test_the_environment_defines_connections(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv(VARIABLE, text)

    assert connections.names() == ["default", "mail", "bulk"]
    assert connections.settings("mail").url == "redis://mail/0"
    assert connections.settings("bulk").url == "redis+sentinel://a,b/svc"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("redis://mail/0", "pairs such as mail=redis://host/0"),
        ('{"mail": 5}', "not a JSON object of URLs"),
        ('{"mail": {"prefix": "a"}}', "connection 'mail': it has no url"),
        ('{"mail": {"url": "memory://", "bad": 1}}', "'mail': unknown setting 'bad'"),
        ("..=memory://", "connection '..': the name of a connection must not be"),
    ],
)
def test_a_definition_that_makes_no_sense_is_explained(
    monkeypatch: pytest.MonkeyPatch, text: str, problem: str
) -> None:
    monkeypatch.setenv(VARIABLE, text)

    with pytest.raises(ConfigError, match=problem):
        connections.settings(".." if text.startswith("..") else "mail")


def test_the_prefix_of_the_environment_is_for_connections_to_redis(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KUE_PREFIX", "shop")
    kue.configure(mail="redis://mail/0", local="sqlite:///local.db")

    assert connections.settings("mail").prefix == "shop"
    assert connections.settings("local").prefix == "kue"


@pytest.mark.parametrize("url", ["sqlite:///kue.db", "sqlite:////tmp/kue.db"])
def test_a_prefix_for_a_file_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="'shop' is for keys in Redis, and would not"):
        Kue(url, prefix="shop")


def test_an_unknown_name_is_answered_with_those_there_are() -> None:
    kue.configure(mail="memory://")

    with pytest.raises(
        ConfigError, match="no connection 'male'; there are: default, m"
    ):
        kue.connect("male")


def test_what_is_configured_badly_leaves_all_as_it_was() -> None:
    with pytest.raises(ConfigError, match="connection 'bulk': unknown setting"):
        kue.configure(mail="memory://", bulk={"url": "memory://", "bad": 1})

    assert connections.names() == ["default"]


async def test_a_queue_works_with_its_handlers_on_another_connection() -> None:
    kue.configure(mail="memory://")
    q = Kue("memory://")

    @q.task
    async def double(number: int) -> int:
        return 2 * number

    mail = q.on_connection("mail")
    job = await mail.enqueue("double", {"number": 4})

    async with mail.work():
        assert await job.result(timeout=PATIENCE_SECONDS) == 8
    assert await q.counts() == await Kue("memory://").counts()
    assert (await kue.connect("mail").find()).jobs[0].id == job.id
    await mail.close()
    await q.close()


def test_commands_find_a_queue_by_the_name_of_its_connection(
    kue: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(
        VARIABLE,
        f"mail=sqlite:///{tmp_path}/mail.db bad=redis://ann:secret@127.0.0.1:1/0"
        " missing=sqlite:////nowhere/kue.db both=failover://mail,bad",
    )

    added = kue("job", "add", "welcome", "--queue", "urgent", "--connection", "mail")

    assert added.code == 0
    assert kue("--connection", "mail", "queue", "list").rows[0][0] == "urgent"
    row = kue("job", "list", "--connection", "mail").rows[0]
    assert row[1] == "welcome (urgent)"
    shown = kue("job", "show", "1", "--connection", "mail").rows
    assert [row for row in shown if row[0] in ("type", "queue")] == [
        ["type", "welcome"],
        ["queue", "urgent"],
    ]
    assert "urgent" not in kue("queue", "list").out
    found = kue("connections")
    assert found.code == 1
    assert "secret" not in found.out
    assert [(row[0], row[3][:20]) for row in found.rows[1:]] == [
        ("mail", "answers"),
        ("bad", "redis://127.0.0.1:1 "),
        ("missing", "there is no store /n"),
        ("both", "answers; bad does no"),
    ]
    *_, both = kue("connections", "--json").items
    assert (both["answers"], both["problem"]) == (True, None)
    assert [(one["name"], one["answers"]) for one in both["members"]] == [
        ("mail", True),
        ("bad", False),
    ]


async def test_adds_go_to_the_next_store_while_the_first_is_down_and_it_is_announced(
    caplog: pytest.LogCaptureFixture,
) -> None:
    kue.configure(
        first={"url": DOWN, "budget": 0.05},
        second="memory://",
        both="failover://first,second",
    )
    q = kue.connect("both")
    switches: list[FailedOver] = []
    q.on_failover(switches.append)

    @q.task
    async def double(number: int) -> int:
        return 2 * number

    job = await double.enqueue(4)
    many = await double.enqueue_many([{"number": 5}])
    built = await q.create_job("double", {"number": 6}).save()

    second = kue.connect("second")
    assert (await second.counts())[kue.State.WAITING] == 3
    await until(lambda: bool(switches))
    assert [(one.before, one.now) for one in switches] == [("first", "second")]
    assert "127.0.0.1:1 cannot be reached" in switches[0].reason
    assert "jobs are added to second now, not to first: redis://" in caplog.text
    async with q.on_connection("second").work():
        assert await job.result(timeout=PATIENCE_SECONDS) == 8
        assert await many[0].result(timeout=PATIENCE_SECONDS) == 10
        assert await built.result(timeout=PATIENCE_SECONDS) == 12
    await q.close()


async def test_flows_and_batches_go_as_a_whole_to_the_first_store_that_answers() -> (
    None
):
    kue.configure(
        first={"url": DOWN, "budget": 0.05},
        second="memory://",
        both="failover://first,second",
        nested="failover://both,second",
    )
    q = Kue("failover://nested,second")

    @q.task
    async def double(number: int) -> int:
        return 2 * number

    flow = await (double.s(1) | double.s()).enqueue()
    batch = await kue.batch().enqueue(double.s(number) for number in range(3))
    named = {"name": "only", "job": {"type": "double", "data": {"number": 5}}}
    steps = steps_of(q, msgspec.convert({"steps": [named]}, NewFlow))
    _, added = await add_steps(q._connection, steps)
    second = q.on_connection("second")
    await asyncio.wait_for(second.run(signals=False, burst=True), PATIENCE_SECONDS)

    assert await flow.result(timeout=PATIENCE_SECONDS) == 4
    assert (await batch.result(timeout=PATIENCE_SECONDS))["complete"] == 3
    only = await second.get(added["only"].id)
    assert await only.result(timeout=PATIENCE_SECONDS) == 10
    await q.close()


async def test_a_job_that_waits_for_others_goes_to_the_store_whose_ids_it_names() -> (
    None
):
    down = {"url": DOWN, "budget": 0.05}
    kue.configure(first=down, second="memory://", both="failover://first,second")
    q, second = kue.connect("both"), kue.connect("second")
    other = await second.enqueue("welcome")

    with pytest.raises(StoreUnavailable):
        await q.enqueue("welcome", after=[other.id])
    with pytest.raises(StoreUnavailable):
        await q.enqueue_many("welcome", [1], after=[other.id])

    assert sum((await second.counts()).values()) == 1
    await q.close()


async def test_handles_know_the_store_of_their_job_in_a_failover_of_failovers() -> None:
    kue.configure(
        first={"url": DOWN, "budget": 0.05},
        second="memory://",
        third="memory://",
        both="failover://first,second",
        all="failover://both,third",
    )
    q = kue.connect("all")

    job = await q.enqueue("welcome", 1)
    [other] = await q.enqueue_many("welcome", [2])

    assert [(await one.refresh()).data for one in (job, other)] == [1, 2]
    await q.close()


def test_blocking_handles_know_the_store_of_their_job_among_those_of_one_url() -> None:
    kue.configure(
        first="memory://",
        second="memory://",
        both="failover://first,second",
    )
    q = kue.connect("both")
    home = q.sync.call(_second_home)

    with pytest.raises(kue.JobNotFound):
        q.sync.get(1)
    handle = SyncJobHandle[object](q.sync, JobHandle(home, 1, "welcome"))
    assert handle.refresh().data == 7
    q.sync.close()


async def _second_home(q: Kue) -> Connection:
    """Add a job to the second store of a fail-over; return its connection."""
    failover = q._connection
    assert isinstance(failover, FailoverConnection)
    home = failover.members[1].connection
    await home.add(home.draft("welcome", 7, {}))
    return home


async def test_an_add_that_may_have_arrived_is_not_sent_to_the_next_store(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kue.configure(first="memory://", second="memory://", both="failover://first,second")
    q, first = kue.connect("both"), kue.connect("first")
    lost = StoreUnavailable("the reply was lost")
    lost.is_unknown = True
    add = first.store.add

    async def add_and_lose(*args: object, **given: object) -> object:
        await add(*args, **given)  # type: ignore[arg-type]
        raise lost

    monkeypatch.setattr(first.store, "add", add_and_lose)

    with pytest.raises(StoreUnavailable, match="the reply was lost"):
        await q.enqueue("welcome")
    monkeypatch.undo()
    await q.enqueue("welcome")

    in_all = [
        sum((await kue.connect(name).counts()).values()) for name in ("first", "second")
    ]
    assert in_all == [1, 1]
    await q.close()


async def test_without_any_store_the_error_of_the_last_is_raised() -> None:
    down = {"url": DOWN, "budget": 0.05}
    kue.configure(first=down, second=down, both="failover://first,second")
    q = kue.connect("both")

    for same in (q, q.on_connection("both")):
        with pytest.raises(StoreUnavailable):
            await same.enqueue("welcome")
    await q.close()


async def test_a_worker_of_a_failover_works_for_each_of_its_stores() -> None:
    kue.configure(first="memory://", second="memory://", both="failover://first,second")
    q = kue.connect("both")

    @q.task
    async def double(number: int) -> int:
        return 2 * number

    jobs = [
        await kue.connect(name).enqueue("double", {"number": 4})
        for name in ("first", "second")
    ]
    await asyncio.wait_for(q.run(signals=False, burst=True), PATIENCE_SECONDS)
    assert [(await job.refresh()).result for job in jobs] == [8, 8]

    jobs = [
        await kue.connect(name).enqueue("double", {"number": 5})
        for name in ("first", "second")
    ]
    async with q.work():
        for job in jobs:
            assert await job.result(timeout=PATIENCE_SECONDS) == 10
    assert q.working == frozenset()
    await q.close()


async def test_a_worker_that_ends_leaves_resources_to_that_of_the_other_store() -> None:
    kue.configure(first="memory://", second="memory://", both="failover://first,second")
    q = kue.connect("both")
    story: list[str] = []

    @q.resource
    async def database() -> AsyncIterator[str]:
        story.append("opened")
        yield "db"
        story.append("closed")

    @q.task(uses=[database])
    async def look(store: str) -> str:
        if store == "second":
            # The worker of the first store has nothing to do any more.
            await until(lambda: len(q.working) == 1)
        return database.value

    jobs = [
        await kue.connect(name).enqueue("look", {"store": name})
        for name in ("first", "second")
    ]
    await asyncio.wait_for(q.run(signals=False, burst=True), PATIENCE_SECONDS)

    assert [(await job.refresh()).result for job in jobs] == ["db", "db"]
    assert story == ["opened", "closed"]
    await q.close()


def test_blocking_code_fails_over_too() -> None:
    kue.configure(
        first={"url": DOWN, "budget": 0.05},
        second="memory://",
        both="failover://first,second",
    )
    q = kue.connect("both")

    @q.task
    def double(number: int) -> int:
        return 2 * number

    job = double.delay(4)
    kue.connect("second").sync.call(lambda second: _drain(second, q))

    assert job.result(timeout=PATIENCE_SECONDS) == 8
    q.sync.close()
    kue.connect("second").sync.close()


async def _drain(second: Kue, q: Kue) -> None:
    await q.on_connection("second").run(burst=True, signals=False)


@pytest.mark.parametrize("url", ["failover://", "failover://a", "failover://a,a"])
def test_a_failover_names_two_connections_or_more(url: str) -> None:
    with pytest.raises(ConfigError, match="should name two or more connections"):
        Kue(url)


def test_a_failover_has_no_settings_of_its_own() -> None:
    kue.configure(a="memory://", b="memory://")

    with pytest.raises(ConfigError, match="no settings of its own, such as dead_"):
        Kue("failover://a,b", dead_letter="dead")
    with pytest.raises(ConfigError, match=r"connection 'both': .* such as budget"):
        kue.configure(both={"url": "failover://a,b", "budget": "1s"})


def test_connections_that_fail_over_in_a_circle_are_refused() -> None:
    kue.configure(a="memory://", b="failover://a,c", c="failover://a,b")

    for name, circle in {"b": "b to c to b", "c": "c to b to c"}.items():
        with pytest.raises(ConfigError, match=f"fail over in a circle: {circle}$"):
            kue.connect(name)

    kue.configure(c="memory://")
    assert kue.connect("b") is kue.connect("b")


def test_a_failover_of_unknown_connections_is_refused() -> None:
    with pytest.raises(ConfigError, match="there is no connection 'a'"):
        Kue("failover://a,b")
