"""Fault injection: carries out the faults of a plan, each at its time."""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chaos.fleet import Fleet
    from chaos.plan import Fault
    from chaos.stage import Stage


class Injector:
    """Injects faults into the workers and the store."""

    def __init__(self, fleet: Fleet, stage: Stage) -> None:
        self._fleet = fleet
        self._stage = stage
        #: How many of each kind have struck.
        self.struck: Counter[str] = Counter()

    async def follow(self, faults: Sequence[Fault]) -> None:
        """Inject *faults*; return when the last is over."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        async with asyncio.TaskGroup() as group:
            for fault in faults:
                # Wait for its time in the plan.
                await asyncio.sleep(began + fault.at - loop.time())
                group.create_task(self._strike(fault))

    async def _strike(self, fault: Fault) -> None:
        self.struck[fault.kind] += 1
        match fault.kind:
            case "kill":
                self._fleet.kill(fault.pick)
            case "stop":
                pause = partial(self._stage.pause, fault.seconds)
                await self._fleet.freeze(fault.pick, pause)
            case "terminate":
                self._fleet.terminate(fault.pick)
            case "orphan":
                self._fleet.orphan(fault.pick)
            case _:
                await self._stage.strike(fault)
