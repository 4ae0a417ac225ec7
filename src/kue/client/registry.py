"""Who handles which jobs, and how: what a queue knows before it works."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import msgspec

from kue.client.middleware import Middleware, compose
from kue.client.resource import Resource, using
from kue.model.errors import ConfigError
from kue.model.names import check_path_name
from kue.worker.lane import Processor

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: How many jobs of a type run at once when nobody said: coroutines wait, threads wait
#: less well, processes compute.
SLOTS = {"loop": 100, "thread": 10, "process": os.cpu_count() or 1}


class HandlerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How jobs of one type are handled."""

    type: str
    #: Called with the run and awaited.
    handler: Any
    execution: str = "loop"
    #: How many at once; None for as many as there are slots.
    slots: int | None = None
    weight: int = 1
    middleware: tuple[Any, ...] = ()
    uses: tuple[Any, ...] = ()


class HandlerRegistry:
    """The handlers of a queue, by type, and what is around all of them."""

    def __init__(self) -> None:
        self._handlings: dict[str, HandlerSettings] = {}
        self.middleware: list[Middleware] = []
        self.resources: list[Resource[Any]] = []

    def add(self, handling: HandlerSettings) -> None:
        """
        Take on a type.

        Raises:
            ValueError: It has a handler, or is to run fewer than 1 at once.
        """
        check_path_name(handling.type, what="type")
        _check_positive("n", handling.slots)
        _check_positive("weight", handling.weight)
        if handling.type in self._handlings:
            raise ValueError(
                f"type {handling.type!r} has a handler in this queue already"
            )
        self._handlings[handling.type] = handling

    def processors(
        self, types: Iterable[str] | None = None, concurrency: int | None = None
    ) -> list[Processor]:
        """
        Return who handles *types* (None: all), in that order.

        Raises:
            ConfigError: There is no handler for one of them.
        """
        names = [*self._handlings] if types is None else list(dict.fromkeys(types))
        for name in names:
            if name not in self._handlings:
                raise ConfigError(
                    f"there is no handler for type {name!r}; there are: "
                    + (", ".join(self._handlings) or "none")
                )
        return [self._processor(self._handlings[name], concurrency) for name in names]

    def _processor(
        self, handling: HandlerSettings, concurrency: int | None
    ) -> Processor:
        slots = handling.slots or concurrency or SLOTS[handling.execution]
        return Processor(
            handling.type,
            min(slots, concurrency or slots),
            _around(handling, self.middleware),
            handling.execution,
            handling.weight,
        )


def _around(handling: HandlerSettings, middleware: Sequence[Middleware]) -> Any:
    """Return the handler with everything that is around it; itself if nothing is."""
    handler = handling.handler
    if handling.uses:
        handler = using([*handling.uses], handler)
    return compose([*middleware, *handling.middleware], handler)


def _check_positive(name: str, value: int | None) -> None:
    if value is not None and value < 1:
        raise ValueError(f"{name} must be 1 or more, not {value}")
