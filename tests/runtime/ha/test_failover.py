"""Fail-over within one process: nodes that meet in memory, or in Redis."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from kue.bus import ClusterManager, EventBus, LocalCluster
from kue.bus.failover_duties import AssignmentResult, Assignments
from kue.bus.local_cluster import LocalNode
from kue.bus.redis import RedisCluster
from kue.model.errors import BadPayload, StoreUnavailable
from kue.runtime import HA, Runtime, UnknownDeployment, failover
from tests.bus.nodes import BEAT
from tests.runtime.ha import verticles
from tests.runtime.ha.verticles import PARENT, PICKY, WITNESS, Witness
from tests.support.patience import until
from tests.support.servers import RedisServer


class Group(AsyncExitStack):
    """Runtimes that find each other; some die, all are closed in the end."""

    def __init__(self, url: str = "", prefix: str = "") -> None:
        super().__init__()
        self._url = url
        self._prefix = prefix
        self._local = LocalCluster()

    async def join(self, *, group: str = "a", quorum: int = 1) -> Runtime:
        ha = HA(group=group, quorum=quorum, grace=0.1)
        runtime = Runtime(bus=EventBus(self._manager()), ha=ha)
        return await self.enter_async_context(runtime)

    def _manager(self) -> ClusterManager:
        if not self._url:
            return self._local.manager()
        # None that lives is to be taken for dead, however slow the machine is.
        return RedisCluster(self._url, prefix=self._prefix, heartbeat=BEAT, lease=20)


class Cut:
    """A roster that cannot be reached, until it is mended."""

    def __init__(self, roster: Assignments) -> None:
        self._roster = roster
        self.is_cut = True

    def __getattr__(self, name: str) -> Any:
        if self.is_cut:
            return self._fail
        return getattr(self._roster, name)

    async def _fail(self, *args: Any, **rest: Any) -> None:
        raise StoreUnavailable("cut off")


@pytest.fixture(params=["local", "redis"])
async def group(request: pytest.FixtureRequest, prefix: str) -> AsyncIterator[Group]:
    url = ""
    if request.param == "redis":
        server: RedisServer = request.getfixturevalue("redis_server")
        url = server.url
    async with Group(url, prefix) as group:
        yield group


@pytest.fixture
async def local() -> AsyncIterator[Group]:
    async with Group() as group:
        yield group


@pytest.fixture(autouse=True)
def nothing_runs() -> Iterator[None]:
    for each in (verticles.running, verticles.refused, verticles.tried):
        each.clear()
    yield
    assert verticles.running == [], "something still runs"


def bus_of(runtime: Runtime) -> EventBus:
    assert runtime.bus is not None
    return runtime.bus


def node_of(runtime: Runtime) -> str:
    return bus_of(runtime).node


def where() -> list[str]:
    """Return the nodes on which something runs, each as often as it does."""
    return sorted(node for node, _ in verticles.running)


async def runs_on(*runtimes: Runtime) -> None:
    wanted = sorted(node_of(runtime) for runtime in runtimes)
    await until(lambda: where() == wanted)


def cut_off(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> Cut:
    """Have its roster out of reach until it is mended."""
    monkeypatch.setattr(failover, "UNREACHABLE_SECONDS", 0)
    assert runtime._failover is not None
    cut = Cut(runtime._failover._assignments)
    runtime._failover._assignments = cut
    return cut


def take_for_dead(runtime: Runtime) -> LocalNode:
    """Have the others believe that it died, while it goes on."""
    cluster = bus_of(runtime).cluster
    assert isinstance(cluster, LocalNode)
    cluster.vanish()
    return cluster


async def test_what_is_deployed_runs_here_and_only_here(group: Group) -> None:
    a, b = await group.join(), await group.join()

    deployment = await a.deploy(WITNESS, ha=True)

    assert where() == [node_of(a)]
    assert [one.id for one in a.deployments] == [deployment]
    assert b.deployments == ()


async def test_a_survivor_deploys_what_a_dead_node_had(local: Group) -> None:
    a, b = await local.join(), await local.join()
    deployment = await a.deploy(
        WITNESS,
        config={"n": [1]},
        instances=2,
        worker=True,
        pool="mine",
        pool_size=3,
        pool_limit=7.5,
        ha=True,
    )

    take_for_dead(a)
    await runs_on(a, a, b, b)
    await until(lambda: len(b.deployments) == 1)

    [copy] = b.deployments
    assert copy.id == deployment
    assert copy.options == a.deployments[0].options
    assert copy.pool is not None
    assert (copy.pool.name, copy.pool.size, copy.pool.limit) == ("mine", 3, 7.5)
    assert copy.instances[0].verticle.config == {"n": [1]}


async def test_verticles_fail_over_within_a_group_that_has_its_quorum(
    local: Group,
) -> None:
    a = await local.join(quorum=2)
    other = await local.join(group="b", quorum=2)
    await a.deploy(WITNESS, ha=True)
    assert where() == []

    b = await local.join(quorum=2)
    await runs_on(a)
    await local.join(quorum=2)
    take_for_dead(a)
    await until(lambda: len(where()) == 2)

    assert other.deployments == ()
    await b.close()
    await runs_on(a)


async def test_what_was_not_meant_to_does_not_fail_over(local: Group) -> None:
    a, b = await local.join(), await local.join()
    await a.deploy(WITNESS)
    deployment = await a.deploy(WITNESS, ha=True)

    take_for_dead(a)
    await runs_on(a, a, b)

    await until(lambda: [one.id for one in b.deployments] == [deployment])


async def test_one_that_was_taken_for_dead_gives_up_what_others_took(
    local: Group,
) -> None:
    a, b = await local.join(), await local.join()
    await a.deploy(WITNESS, ha=True)
    cluster = take_for_dead(a)
    await runs_on(a, b)

    await cluster.join(bus_of(a))

    await runs_on(b)
    await until(lambda: a.deployments == ())


async def test_one_that_nobody_took_over_from_goes_on(local: Group) -> None:
    a = await local.join()
    await a.deploy(WITNESS, ha=True)
    [before] = verticles.running

    cluster = take_for_dead(a)
    await cluster.join(bus_of(a))
    b = await local.join()
    await runs_on(a)

    assert verticles.running == [before]
    assert b.deployments == ()


async def test_a_clean_close_does_not_fail_over(group: Group) -> None:
    a, b = await group.join(), await group.join()
    await a.deploy(WITNESS, ha=True)

    await a.close()

    assert where() == []
    await b.deploy(WITNESS, ha=True)
    assert where() == [node_of(b)]


async def test_undeploying_ends_it_for_good(group: Group) -> None:
    a, b = await group.join(), await group.join()
    deployment = await a.deploy(WITNESS, ha=True)

    await a.undeploy(deployment)

    assert where() == []
    for runtime in (a, b):
        with pytest.raises(UnknownDeployment):
            await runtime.undeploy(deployment)


async def test_below_the_quorum_it_waits(group: Group) -> None:
    a = await group.join(quorum=2)
    deployment = await a.deploy(WITNESS, ha=True)
    assert where() == []

    b = await group.join(quorum=2)
    await runs_on(a)
    await until(lambda: [one.id for one in a.deployments] == [deployment])

    await b.close()
    await runs_on()
    await group.join(quorum=2)
    await runs_on(a)


async def test_one_that_waits_can_be_undeployed(group: Group) -> None:
    a = await group.join(quorum=2)
    deployment = await a.deploy(WITNESS, ha=True)

    await a.undeploy(deployment)
    await group.join(quorum=2)

    with pytest.raises(UnknownDeployment):
        await a.undeploy(deployment)
    assert where() == []


async def test_below_the_quorum_a_name_must_still_name_something(group: Group) -> None:
    a = await group.join(quorum=2)

    with pytest.raises(ValueError, match="has no 'Nobody'"):
        await a.deploy(f"{verticles.__name__}:Nobody", ha=True)


async def test_nodes_of_other_groups_count_for_no_quorum(group: Group) -> None:
    a = await group.join(group="a", quorum=2)
    await group.join(group="b", quorum=2)
    await a.deploy(WITNESS, ha=True)
    assert where() == []

    await group.join(group="a", quorum=2)

    await runs_on(a)


async def test_what_fails_to_start_is_tried_by_the_next(
    local: Group, caplog: pytest.LogCaptureFixture
) -> None:
    a, b, c, d = [await local.join() for _ in range(4)]
    await a.deploy(PICKY, ha=True)
    verticles.refused.update(map(node_of, (b, c)))

    take_for_dead(a)
    await runs_on(a, d)

    # Each of them once at most: who failed hands it on.
    assert len(verticles.tried) == len(set(verticles.tried))
    assert ("could not be started here" in caplog.text) is bool(verticles.tried)


async def test_what_fails_to_start_at_first_is_not_written_down(group: Group) -> None:
    a = await group.join()
    verticles.refused.add(node_of(a))

    with pytest.raises(LookupError, match="not here"):
        await a.deploy(PICKY, ha=True)

    b = await group.join()
    await b.deploy(WITNESS, ha=True)
    assert where() == [node_of(b)]


async def test_a_node_that_is_cut_off_is_a_group_of_one(
    local: Group, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    a = await local.join(quorum=2)
    await local.join(quorum=2)
    await a.deploy(WITNESS, ha=True)

    cut = cut_off(a, monkeypatch)
    await runs_on()
    cut.is_cut = False
    await runs_on(a)

    assert caplog.text.count("is out of reach: cut off") == 1
    assert caplog.text.count("can be reached again") == 1


async def test_a_node_that_is_cut_off_goes_on_where_one_is_enough(
    local: Group, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    a = await local.join()
    await a.deploy(WITNESS, ha=True)

    cut = cut_off(a, monkeypatch)
    await until(lambda: "is out of reach" in caplog.text)
    cut.is_cut = False
    await until(lambda: "can be reached again" in caplog.text)

    assert where() == [node_of(a)]
    assert "runs on this node now" not in caplog.text


async def test_what_cannot_be_written_down_is_not_deployed(
    local: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call may have arrived, and only its answer been lost."""
    a = await local.join()
    assert a._failover is not None
    roster = a._failover._assignments
    enter = roster.enter

    async def enter_unheard(duty_id: str, record: bytes) -> AssignmentResult:
        await enter(duty_id, record)
        raise StoreUnavailable("cut off")

    monkeypatch.setattr(roster, "enter", enter_unheard)
    with pytest.raises(StoreUnavailable, match="cut off"):
        await a.deploy(WITNESS, ha=True)
    monkeypatch.undo()

    assert where() == []
    later = await a.deploy(WITNESS, ha=True)
    view = await roster.survey(quorum=1, grace=0)
    assert view is not None
    assert view.duties == {later}
    assert where() == [node_of(a)]


async def test_a_node_that_cannot_say_that_it_leaves_closes_all_the_same(
    local: Group, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    a = await local.join()
    await a.deploy(WITNESS, ha=True)

    cut_off(a, monkeypatch)
    await a.close()

    assert where() == []
    assert "could not be notified that this node leaves" in caplog.text


async def test_only_what_has_a_name_fails_over(local: Group) -> None:
    a = await local.join()

    for source in (Witness, Witness(), lambda: Witness()):
        with pytest.raises(ValueError, match="name it as 'module:Class'"):
            await a.deploy(source, ha=True)


async def test_nothing_but_a_verticle_is_called_and_nothing_imported(
    local: Group, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever can write the record must not have anything else run."""
    sys.modules.pop("this", None)
    a = await local.join()
    with pytest.raises(ValueError, match="not a subclass of Verticle"):
        await a.deploy("os:abort", ha=True)
    b = await local.join()
    cluster = bus_of(b).cluster
    assert cluster is not None
    roster = cluster.roster("a")
    for number, name in enumerate(("os:abort", "this:Zen", "7")):
        await roster.enter(f"{number}", f'{{"verticle":"{name}"}}'.encode())
    await roster.enter("3", b'{"verticle":7}')

    wanted = [
        "os:abort is not a verticle of this program",
        "this:Zen is not a verticle of this program",
        "7 is not a verticle of this program",
        "the verticle 3 cannot be read",
    ]
    await until(lambda: all(it in caplog.text for it in wanted))
    assert "this" not in sys.modules


async def test_a_child_does_not_fail_over(local: Group) -> None:
    a = await local.join()
    await a.deploy(PARENT, ha=True)

    assert "deploy the parent" in str(verticles.Parent.error)


async def test_what_fails_over_has_a_config_of_limited_size(local: Group) -> None:
    a = await local.join()

    with pytest.raises(BadPayload, match="the limit for failover"):
        await a.deploy(WITNESS, config={"big": "x" * 100_000}, ha=True)


async def test_without_a_group_nothing_fails_over() -> None:
    async with Runtime() as runtime:
        with pytest.raises(ValueError, match="give it ha"):
            await runtime.deploy(WITNESS, ha=True)


def test_a_group_takes_a_cluster() -> None:
    with pytest.raises(ValueError, match="a bus with a cluster"):
        Runtime(bus=EventBus(), ha=HA())


@pytest.mark.parametrize("wrong", [{"quorum": 0}, {"group": ""}, {"grace": -1}])
def test_a_group_has_limits(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        HA(**wrong)


async def test_a_clustered_runtime_is_a_node(
    redis_server: RedisServer, prefix: str
) -> None:
    url = redis_server.url
    async with (
        Runtime.clustered(url, prefix=prefix, loops=1) as a,
        Runtime.clustered(url, prefix=prefix, ha=True, quorum=1) as b,
    ):
        await until(lambda: len(bus_of(a).nodes) == 2)
        await b.deploy(WITNESS, ha=True)
        assert where() == [node_of(b)]
        await (await a.shared.counter("visits")).increment_and_get()
        assert await (await b.shared.counter("visits")).get() == 1


async def test_another_thread_may_deploy_what_fails_over() -> None:
    cluster = LocalCluster()
    runtime = Runtime(loops=1, bus=EventBus(cluster.manager()), ha=HA())
    async with runtime:
        context = runtime.context()

        async def deploy() -> str:
            return await runtime.deploy(WITNESS, ha=True)

        deployment = await context.call(deploy)
        assert where() == [node_of(runtime)]
        await context.call(runtime.undeploy, deployment)
        assert where() == []
