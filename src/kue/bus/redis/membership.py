"""Telling the cluster that this process is a node, and where it listens."""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from kue.bus.errors import BusClosed
from kue.bus.redis.node_table import NodeChange
from kue.model.errors import StoreError
from kue.store.redis.wire.client import short_pause

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from concurrent.futures import Future

#: Addresses in one call.
_MANY = 1000


class RunScript(Protocol):
    """Runs a script of the cluster."""

    async def __call__(self, script: str, *args: Any) -> Any: ...


class Membership:
    """
    Writes down *node* and, while it *is_in*, its comings and goings at addresses.

    What changes while a call is on its way travels with the next one.
    """

    def __init__(
        self,
        node: str,
        run: RunScript,
        addresses: Callable[[], Collection[str]],
        is_in: asyncio.Event,
    ) -> None:
        self._node = node
        self._run = run
        self._addresses = addresses
        self._is_in = is_in
        #: Held while this node is written down, so that nothing is written twice over.
        self._writing = asyncio.Lock()
        #: Whether it listens at an address, where that is yet to be told.
        self._news: dict[str, bool] = {}
        self._told: list[Future[None]] = []
        self._telling: asyncio.Task[None] | None = None

    def tell(self, address: str, is_there: bool, told: Future[None] | None) -> None:
        """Tell whether the node listens at *address*; *told* is done when all know."""
        self._news[address] = is_there
        if told is not None:
            self._told.append(told)
        if self._telling is None:
            self._telling = asyncio.create_task(self._tell_on(), name="kue-bus-tell")

    async def write_down(self) -> None:
        """Be a node, with every address there is now."""
        async with self._writing:
            told, self._told = self._told, []
            self._news.clear()
            addresses = list(self._addresses())
            first, rest = addresses[:_MANY], addresses[_MANY:]
            news = NodeChange(self._node, joined=True, added=first)
            try:
                await self._run("join", self._node, msgspec.json.encode(news), *first)
                for start in range(0, len(rest), _MANY):
                    await self._write(rest[start : start + _MANY], [])
            except BaseException:
                self._told = told + self._told
                raise
        _resolve(told)

    async def flush(self) -> None:
        """Return once everything so far is told."""
        if self._telling is not None:
            await asyncio.shield(self._telling)

    async def end(self) -> None:
        """Tell no more; whoever waits for it hears so."""
        if self._telling is not None:
            self._telling.cancel()
            await asyncio.gather(self._telling, return_exceptions=True)
        for told in self._told:
            told.set_exception(BusClosed("the bus was closed before all nodes knew"))

    async def _tell_on(self) -> None:
        try:
            while self._news:
                await self._is_in.wait()
                try:
                    await self._tell_some()
                except StoreError:
                    # What is wrong there, whoever listens says.
                    await asyncio.sleep(short_pause())
        finally:
            self._telling = None

    async def _tell_some(self) -> None:
        async with self._writing:
            told, self._told = self._told, []
            some = dict(islice(self._news.items(), _MANY))
            added = [address for address, is_there in some.items() if is_there]
            removed = [address for address, is_there in some.items() if not is_there]
            try:
                is_node = await self._write(added, removed)
            except BaseException:
                self._told = told + self._told
                raise
            for address, is_there in some.items():
                if self._news.get(address) is is_there:
                    del self._news[address]
            if self._news or not is_node:
                self._told = told + self._told
                told = []
        _resolve(told)
        if not is_node:
            await self.write_down()

    async def _write(self, added: list[str], removed: list[str]) -> bool:
        news = NodeChange(self._node, added=added, removed=removed)
        encoded = msgspec.json.encode(news)
        reply = await self._run(
            "tell", self._node, encoded, len(added), *added, *removed
        )
        return bool(reply != b"GONE")


def _resolve(told: Iterable[Future[None]]) -> None:
    for each in told:
        if not each.done():
            each.set_result(None)
