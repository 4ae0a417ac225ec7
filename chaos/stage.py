"""The store under test, and its faults."""

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
    """The store of one run, from ``async with`` on."""

    #: For workers, producers and operators.
    url: str
    #: The same store without the faults of the network.
    direct: str

    def __init__(self) -> None:
        #: When it was unavailable, or unreliable.
        self.away: list[Away] = []
        self.losses: list[Loss] = []

    @abstractmethod
    async def __aenter__(self) -> Stage: ...

    @abstractmethod
    async def __aexit__(self, *exc: object) -> None: ...

    @abstractmethod
    async def strike(self, fault: Fault) -> None:
        """Inject *fault*, for its duration."""

    @abstractmethod
    async def heal(self) -> None:
        """End every fault."""

    async def pause(self, seconds: float) -> None:
        """Return after *seconds*, during which a process of the run is stopped."""
        # The duration of the fault.
        await asyncio.sleep(seconds)

    @contextmanager
    def absence(self) -> Iterator[None]:
        """Record that the store is unavailable during the body."""
        since = now_ms()
        try:
            yield
        finally:
            self.away.append(Away(since, now_ms()))
