"""A real store with a wire that tests can watch and cut."""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, cast

from kue.model.errors import StoreUnavailable
from kue.store.contract import Store


class Wire:
    """
    Counts the calls to a store, holds them up, fails them, loses their replies.

    `store` is what to give to the code under test: the real store, seen through the
    wire.
    """

    def __init__(self, store: Store) -> None:
        #: The store itself, for what others do to it.
        self.unseen = self._store = store
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        #: While set, no call gets through.
        self.is_cut = False
        self._lose: Counter[str] = Counter()
        self._gates: dict[str, asyncio.Event] = {}
        self._held: dict[str, asyncio.Event] = {}
        self._broken: frozenset[str] = frozenset()
        self._spoiled: dict[str, Exception] = {}
        self._answered: Counter[str] = Counter()
        self._changed = asyncio.Condition()
        self.store = cast("Store", _End(self))

    def lose_reply(self, verb: str, times: int = 1) -> None:
        """Let the next calls of *verb* happen, but lose the answer."""
        self._lose[verb] += times

    def break_off(self, *verbs: str) -> None:
        """Let no call of *verbs* through, until `mend`."""
        self._broken = frozenset(verbs)

    def spoil(self, verb: str, error: Exception) -> None:
        """Raise *error* from every call of *verb*, until `mend`."""
        self._spoiled[verb] = error

    def mend(self) -> None:
        self._broken = frozenset()
        self._spoiled.clear()

    def hold(self, verb: str) -> asyncio.Event:
        """Keep calls of *verb* from going out until the event returned is set."""
        self._gates[verb] = asyncio.Event()
        return self._gates[verb]

    def hold_reply(self, verb: str) -> asyncio.Event:
        """Keep replies to *verb* from coming back until the event returned is set."""
        self._held[verb] = asyncio.Event()
        return self._held[verb]

    def times(self, verb: str) -> int:
        """Return how often *verb* was called."""
        return sum(name == verb for name, _, _ in self.calls)

    def last(self, verb: str) -> dict[str, Any]:
        """Return the keyword arguments of the last call of *verb*."""
        return [given for name, _, given in self.calls if name == verb][-1]

    def last_request(self, verb: str) -> Any:
        """Return the last positional argument of the last call of *verb*."""
        return [args for name, args, _ in self.calls if name == verb][-1][-1]

    async def until_called(self, verb: str, times: int = 1) -> None:
        """Return once *verb* was called *times* times in all."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.times(verb) >= times)

    async def until_answered(self, verb: str, times: int = 1) -> None:
        """Return once *verb* was answered *times* times in all, well or badly."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._answered[verb] >= times)

    def verb(self, name: str) -> Any:
        """Return the store's *name*, with the wire in between if it is a call."""
        verb = getattr(self._store, name)
        if not inspect.iscoroutinefunction(verb):
            return verb

        async def send(*args: Any, **given: Any) -> Any:
            return await self._send(name, verb, args, given)

        return send

    async def _send(
        self,
        name: str,
        verb: Callable[..., Awaitable[Any]],
        args: tuple[Any, ...],
        given: dict[str, Any],
    ) -> Any:
        async with self._changed:
            self.calls.append((name, args, given))
            self._changed.notify_all()
        try:
            return await self._carry(name, verb, args, given)
        finally:
            async with self._changed:
                self._answered[name] += 1
                self._changed.notify_all()

    async def _carry(
        self,
        name: str,
        verb: Callable[..., Awaitable[Any]],
        args: tuple[Any, ...],
        given: dict[str, Any],
    ) -> Any:
        if name in self._gates:
            await self._gates[name].wait()
        if (self.is_cut and name != "close") or name in self._broken:
            raise StoreUnavailable("the wire is cut")
        if name in self._spoiled:
            raise self._spoiled[name]
        reply = await verb(*args, **given)
        if name in self._held:
            await self._held[name].wait()
        if self._lose[name] > 0:
            self._lose[name] -= 1
            raise StoreUnavailable("the reply was lost")
        return reply


class _End:
    """The caller's end of a wire: looks like the store."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def __getattr__(self, name: str) -> Any:
        return self._wire.verb(name)
