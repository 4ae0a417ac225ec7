"""Membership of this node in the cluster, and the addresses at which it listens."""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec

from kue.aio.coalesced_calls import CoalescedCalls
from kue.aio.retry import short_pause
from kue.bus.errors import BusClosed
from kue.bus.node_table import NodeChange
from kue.model.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection
    from concurrent.futures import Future

#: Addresses in one call.
_MANY = 1000


class Membership:
    """
    Registers *node* and publishes changes of its addresses while *is_connected*.

    *run* runs a script of the cluster.  Changes during a call are sent with the next.
    """

    def __init__(
        self,
        node: str,
        run: Callable[..., Awaitable[Any]],
        addresses: Callable[[], Collection[str]],
        is_connected: asyncio.Event,
    ) -> None:
        self._node = node
        self._run = run
        self._addresses = addresses
        self._is_connected = is_connected
        #: Held while this node is registered, so that nothing is written twice.
        self._writing = asyncio.Lock()
        #: Whether it listens at an address, where that is yet to be published.
        self._changes: dict[str, bool] = {}
        #: Futures to be done when the changes are published.
        self._waiters: list[Future[None]] = []
        self._publisher = CoalescedCalls(self._publish_changes, "kue-bus-announce")

    def update(
        self, address: str, is_listening: bool, done: Future[None] | None
    ) -> None:
        """Publish whether the node listens at *address*; *done* is done after that."""
        self._changes[address] = is_listening
        if done is not None:
            self._waiters.append(done)
        self._publisher.start()

    async def register(self) -> None:
        """Become a node, with all current addresses."""
        async with self._writing:
            waiting = len(self._waiters)
            self._changes.clear()
            addresses = list(self._addresses())
            first, rest = addresses[:_MANY], addresses[_MANY:]
            change = NodeChange(self._node, joined=True, added=first)
            encoded = msgspec.json.encode(change)
            await self._run("node_join", self._node, encoded, *first)
            for start in range(0, len(rest), _MANY):
                await self._write(rest[start : start + _MANY], [])
            self._resolve(waiting)

    async def flush(self) -> None:
        """Wait until all changes so far are published."""
        await self._publisher.finish()

    async def end(self) -> None:
        """Publish nothing more, and fail the futures that wait for it."""
        await self._publisher.cancel()
        for waiter in self._waiters:
            waiter.set_exception(BusClosed("the bus was closed before all nodes knew"))

    async def _publish_changes(self) -> None:
        while self._changes:
            await self._is_connected.wait()
            try:
                await self._publish_some()
            except StoreError:
                # The listening task logs what is wrong.
                await asyncio.sleep(short_pause())

    async def _publish_some(self) -> None:
        async with self._writing:
            waiting = len(self._waiters)
            some = dict(islice(self._changes.items(), _MANY))
            added = [address for address, listens in some.items() if listens]
            removed = [address for address, listens in some.items() if not listens]
            is_node = await self._write(added, removed)
            for address, listens in some.items():
                if self._changes.get(address) is listens:
                    del self._changes[address]
            if is_node and not self._changes:
                self._resolve(waiting)
        if not is_node:
            await self.register()

    async def _write(self, added: list[str], removed: list[str]) -> bool:
        change = NodeChange(self._node, added=added, removed=removed)
        encoded = msgspec.json.encode(change)
        reply = await self._run(
            "change_addresses", self._node, encoded, len(added), *added, *removed
        )
        return bool(reply != b"GONE")

    def _resolve(self, count: int) -> None:
        """Finish the first *count* futures: those of before the call."""
        published, self._waiters = self._waiters[:count], self._waiters[count:]
        for waiter in published:
            if not waiter.done():
                waiter.set_result(None)
