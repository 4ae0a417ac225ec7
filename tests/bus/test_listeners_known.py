"""Whether anyone listens at an address is known without asking."""

from __future__ import annotations

from kue.bus import EventBus
from tests.bus.nodes import Nodes, knows


def nothing(message: object) -> None: ...


async def test_a_bus_knows_whether_it_is_heard(bus: EventBus) -> None:
    assert not bus.is_heard("here")
    consumer = bus.consumer("here", nothing)
    assert bus.is_heard("here")

    consumer.unregister()

    assert not bus.is_heard("here")


async def test_a_node_knows_whether_another_listens(nodes: Nodes) -> None:
    a, b = await nodes.several(2)
    consumer = b.consumer("there", nothing)
    b.consumer("its own", nothing, local=True)
    await knows(a, "there", 1)

    assert a.is_heard("there")
    assert not a.is_heard("its own")
    consumer.unregister()
    await knows(a, "there", 0)
    assert not a.is_heard("there")
