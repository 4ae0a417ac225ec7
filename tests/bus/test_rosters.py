"""Duties of groups of nodes, on every kind of cluster there is."""

from __future__ import annotations

import pytest

from kue.bus import EventBus, local_cluster
from kue.bus.failover_duties import MAX_DUTIES, AssignmentResult, Assignments, GroupView
from kue.bus.local_cluster import LocalNode
from kue.bus.redis import RedisCluster
from kue.bus.redis import failover_duties as redis_roster
from tests.bus.nodes import Nodes

RECORD = b'{"do":"it"}'


def roster_of(bus: EventBus, group: str = "a") -> Assignments:
    assert bus.cluster is not None
    return bus.cluster.roster(group)


async def look(
    roster: Assignments, *, quorum: int = 1, grace: float = 0.0
) -> GroupView:
    view = await roster.survey(quorum=quorum, grace=grace)
    assert view is not None
    return view


async def duties(rosters: list[Assignments]) -> list[str]:
    """Return the duties of all, each as often as someone has it."""
    return [it for each in rosters for it in (await look(each)).duties]


async def be_removed(bus: EventBus) -> None:
    """Have a node that lives taken for dead."""
    cluster = bus.cluster
    if isinstance(cluster, RedisCluster):
        # Nobody hears of it, so that it does not join again at once.
        await cluster._run("node_leave", cluster.node, "{}")
    else:
        assert isinstance(cluster, LocalNode)
        cluster.vanish()


async def test_a_duty_is_its_nodes(nodes: Nodes) -> None:
    a, b = [roster_of(bus) for bus in await nodes.several(2)]

    assert await a.enter("1", RECORD) is AssignmentResult.OK
    assert await b.enter("1", RECORD) is AssignmentResult.TAKEN
    assert await a.enter("1", RECORD) is AssignmentResult.OK

    assert await look(a) == GroupView(1, False, frozenset("1"))
    assert await look(b) == GroupView(2, False, frozenset())
    assert await look(a) == GroupView(2, False, frozenset("1"))
    assert await b.read(["1", "2"]) == {"1": RECORD}


async def test_one_survivor_takes_over_all_that_a_dead_node_had(nodes: Nodes) -> None:
    buses = await nodes.several(4)
    dead, *survivors = [roster_of(bus) for bus in buses]
    for each in survivors:
        await look(each)
    for number in range(5):
        await dead.enter(str(number), RECORD)

    await buses[0].close()
    taken = [(await look(each)).duties for each in (*survivors, *survivors)]

    assert sorted(map(len, taken[3:])) == [0, 0, 5]
    assert taken[3:].index(frozenset("01234")) in (0, 1, 2)


async def test_survivors_choose_alike(nodes: Nodes) -> None:
    """Whoever looks first: only the one that is chosen takes it over."""
    buses = await nodes.several(3)
    dead, a, b = [roster_of(bus) for bus in buses]
    await look(a)
    await look(b)
    await dead.enter("1", RECORD)
    await buses[0].close()

    first, second = await look(a), await look(b)

    assert {first.duties, second.duties} == {frozenset("1"), frozenset()}


async def test_a_node_must_be_gone_for_a_while(nodes: Nodes) -> None:
    buses = await nodes.several(2)
    dead, a = [roster_of(bus) for bus in buses]
    await dead.enter("1", RECORD)
    await buses[0].close()

    assert await look(a, grace=3600) == GroupView(1, True, frozenset())
    assert await look(a, grace=3600) == GroupView(1, True, frozenset())
    assert await look(a, grace=0) == GroupView(1, False, frozenset("1"))


async def test_groups_do_not_take_over_from_each_other(nodes: Nodes) -> None:
    buses = await nodes.several(2)
    dead, other = roster_of(buses[0], "a"), roster_of(buses[1], "b:{x}")
    await dead.enter("1", RECORD)
    await other.enter("2", RECORD)
    await buses[0].close()

    assert await look(other) == GroupView(1, False, frozenset("2"))
    late = roster_of(buses[1], "a")
    assert await look(late) == GroupView(1, False, frozenset("1"))


async def test_what_nobody_is_left_for_waits_for_the_next_node(nodes: Nodes) -> None:
    last = await nodes.new()
    await roster_of(last).enter("1", RECORD)
    await last.close()

    assert (await look(roster_of(await nodes.new()))).duties == {"1"}


async def test_below_the_quorum_nothing_is_taken_over(nodes: Nodes) -> None:
    buses = await nodes.several(3)
    dead, a, b = [roster_of(bus) for bus in buses]
    await dead.enter("1", RECORD)
    await look(b)
    await buses[0].close()

    assert await look(a, quorum=3) == GroupView(2, False, frozenset())
    assert await look(b, quorum=3) == GroupView(2, False, frozenset())
    assert set(await duties([a, b, a])) == {"1"}


async def test_what_a_node_failed_at_goes_to_another(nodes: Nodes) -> None:
    a, b = rosters = [roster_of(bus) for bus in await nodes.several(2)]
    await look(b)
    await a.enter("1", RECORD)

    await b.hand_back("1")
    assert (await look(a)).duties == {"1"}
    await a.hand_back("1")
    assert await look(a) == GroupView(2, False, frozenset())
    assert (await look(b)).duties == {"1"}
    await b.hand_back("1")
    assert await duties(rosters) == []


async def test_what_all_failed_at_is_tried_again_later(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = [roster_of(bus) for bus in await nodes.several(2)]
    await look(b)
    await a.enter("1", RECORD)
    await a.hand_back("1")
    assert (await look(b)).duties == {"1"}
    await b.hand_back("1")
    assert await duties([a, b]) == []

    monkeypatch.setattr(local_cluster, "AGAIN_SECONDS", 0)
    monkeypatch.setattr(redis_roster, "_AGAIN_MS", 0)

    assert set(await duties([a, b, a])) == {"1"}


async def test_a_node_that_leaves_on_purpose_is_not_taken_over_from(
    nodes: Nodes,
) -> None:
    buses = await nodes.several(2)
    leaving, a = [roster_of(bus) for bus in buses]
    await leaving.enter("1", RECORD)
    await a.enter("2", RECORD)
    await leaving.resign()
    assert await look(a) == GroupView(1, False, frozenset("2"))
    await buses[0].close()

    assert await look(a) == GroupView(1, False, frozenset("2"))
    assert await a.enter("1", RECORD) is AssignmentResult.STRUCK


async def test_a_duty_can_be_ended_by_anyone_and_for_good(nodes: Nodes) -> None:
    a, b = [roster_of(bus) for bus in await nodes.several(2)]
    await a.enter("1", RECORD)

    await b.strike("1")
    await b.strike("1")

    assert (await look(a)).duties == frozenset()
    assert await a.read(["1"]) == {}
    assert await a.enter("1", RECORD) is AssignmentResult.STRUCK


async def test_a_node_that_was_taken_over_from_is_told(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It would join again with its next beat.
    monkeypatch.setattr("tests.bus.nodes.BEAT", 60)
    monkeypatch.setattr("tests.bus.nodes.LEASE", 120)
    buses = await nodes.several(2)
    gone, a = [roster_of(bus) for bus in buses]
    await gone.enter("1", RECORD)
    await look(a)

    await be_removed(buses[0])
    assert await gone.survey(quorum=1, grace=0) is None
    assert (await look(a)).duties == {"1"}

    assert await gone.enter("1", RECORD) is AssignmentResult.TAKEN


async def test_a_group_has_so_many_duties_and_no_more(nodes: Nodes) -> None:
    a = roster_of(await nodes.new())
    for number in range(MAX_DUTIES):
        assert await a.enter(str(number), RECORD) is AssignmentResult.OK

    assert await a.enter("one more", RECORD) is AssignmentResult.FULL
    assert len((await look(a)).duties) == MAX_DUTIES
    assert len(await a.read([str(n) for n in range(MAX_DUTIES)])) == MAX_DUTIES
