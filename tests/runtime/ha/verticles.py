"""Verticles that say where they run."""

from __future__ import annotations

from typing import Any

from kue.runtime import Verticle

#: Where each runs now: node, and what it was deployed with.
running: list[tuple[str, Verticle]] = []
#: Nodes on which `Picky` does not start.
refused: set[str] = set()
#: Nodes on which it did not.
tried: list[str] = []


class Witness(Verticle):
    async def start(self) -> None:
        running.append((self.node, self))

    async def stop(self) -> None:
        running.remove((self.node, self))

    @property
    def node(self) -> str:
        bus = self.runtime.bus
        assert bus is not None
        return bus.node


class Picky(Witness):
    """Starts on some nodes only."""

    async def start(self) -> None:
        if self.node in refused:
            tried.append(self.node)
            raise LookupError("not here")
        await super().start()


class Parent(Witness):
    """Tries to deploy a child that fails over."""

    error: Any = None

    async def start(self) -> None:
        try:
            await self.runtime.deploy(WITNESS, ha=True)
        except ValueError as exc:
            Parent.error = exc
        await super().start()


WITNESS = f"{__name__}:Witness"
PICKY = f"{__name__}:Picky"
PARENT = f"{__name__}:Parent"
