"""The store that is put to the test, and what can be done to it."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from contextlib import contextmanager
from typing import TYPE_CHECKING

from chaos.facts import Away
from chaos.journal import now_ms

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chaos.facts import Loss
    from chaos.plan import Fault


class Stage(ABC):
    """A store of one run, from ``async with`` on."""

    #: What workers, producers and operators are given.
    url: str
    #: The same store past every fault that is not its own.
    direct: str

    def __init__(self) -> None:
        #: When it could not be used, or not reliably.
        self.away: list[Away] = []
        self.losses: list[Loss] = []

    @abstractmethod
    async def __aenter__(self) -> Stage: ...

    @abstractmethod
    async def __aexit__(self, *exc: object) -> None: ...

    @abstractmethod
    async def strike(self, fault: Fault) -> None:
        """Do what *fault* says, for as long as it says."""

    @abstractmethod
    async def heal(self) -> None:
        """End every fault."""

    async def pause(self, seconds: float) -> None:
        """Return after *seconds*, during which a process of the run is stopped."""
        # The wait is the fault.
        await asyncio.sleep(seconds)

    @contextmanager
    def absence(self) -> Iterator[None]:
        """Remember that the store is away meanwhile."""
        since = now_ms()
        try:
            yield
        finally:
            self.away.append(Away(since, now_ms()))
