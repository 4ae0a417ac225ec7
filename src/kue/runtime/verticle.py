"""Verticles: the components that a runtime deploys."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeGuard

from kue.bus.consumer import DEFAULT_BUFFER

if TYPE_CHECKING:
    from kue.bus import Consumer, Handler
    from kue.runtime.context import Context
    from kue.runtime.runtime import Runtime


class Verticle:
    """
    A part of a program that is started and stopped as a whole.

    Everything it registers while it starts or handles (timers, hooks, children) belongs
    to it and ends with it.  Its handlers run in its context, never in two threads at
    once.
    """

    #: Set before `start`.
    context: Context

    @property
    def runtime(self) -> Runtime:
        return self.context.runtime

    @property
    def deployment_id(self) -> str | None:
        return self.context.deployment_id

    @property
    def config(self) -> dict[str, Any]:
        """The config it was deployed with; each instance has its own copy."""
        return self.context.config

    def consumer(
        self,
        address: str,
        handler: Handler | None = None,
        *,
        local: bool = False,
        buffer: int = DEFAULT_BUFFER,
        concurrency: int = 1,
    ) -> Consumer:
        """
        Register a consumer of *address*, in this context until the verticle stops.

        ``await consumer.ready()`` in `start` makes `Runtime.deploy` wait until every
        node of a cluster knows it.  A worker handles one message at a time.
        """
        return self.context.add_consumer(
            address, handler, local=local, buffer=buffer, concurrency=concurrency
        )

    async def start(self) -> None:
        """Start.  It is deployed when this returns, and not at all if it raises."""

    async def stop(self) -> None:
        """
        Stop.  Its children have ended, and its consumers are unregistered.

        Handlers that still run are cancelled afterwards; timers and hooks end then.
        """


#: A class, a factory function, an instance, or ``module:Class``.
Source = type[Verticle] | Callable[[], Verticle] | Verticle | str


def find(name: str) -> Callable[[], Verticle]:
    """Import the verticle class or factory that ``module:Class`` names."""
    module, colon, attribute = name.partition(":")
    if not (module and colon and attribute.isidentifier()):
        raise ValueError(f"the verticle {name!r} cannot be read; write module:Class")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError as exc:
        if exc.name is None or not f"{module}.".startswith(f"{exc.name}."):
            raise
        raise ValueError(f"there is no module {exc.name!r} for {name!r}") from exc
    except AttributeError:
        raise ValueError(f"the module {module!r} has no {attribute!r}") from None
    if not callable(found):
        raise ValueError(f"{name} does not make a verticle: it is {found!r}")
    return found  # type: ignore[no-any-return]


def find_class(name: str) -> type[Verticle]:
    """Import the class of verticles that ``module:Class`` names."""
    found = find(name)
    if not _is_verticle(found):
        raise ValueError(f"{name} is not a subclass of Verticle")
    return found


def known_class(name: str) -> type[Verticle]:
    """
    Return the class that ``module:Class`` names, if this program has imported it.

    For names from other processes: nothing is imported, and nothing is called.
    """
    module, _, attribute = name.partition(":")
    found = vars(sys.modules.get(module, object)).get(attribute)
    if not _is_verticle(found):
        raise ValueError(
            f"{name} is not a verticle of this program; "
            "import its module where the runtime is made"
        )
    return found


def _is_verticle(found: object) -> TypeGuard[type[Verticle]]:
    return isinstance(found, type) and issubclass(found, Verticle)


def make(source: Callable[[], Verticle] | Verticle, count: int) -> list[Verticle]:
    """Return *count* verticles, none of which was deployed before."""
    if isinstance(source, Verticle):
        if count > 1:
            raise ValueError("one verticle cannot be several; give its class instead")
        return [_new(source)]
    made = [_new(source()) for _ in range(count)]
    if len({id(verticle) for verticle in made}) < count:
        raise ValueError("the same verticle was supplied more than once")
    return made


def _new(verticle: object) -> Verticle:
    if not isinstance(verticle, Verticle):
        raise TypeError(f"{verticle!r} is not a verticle")
    if hasattr(verticle, "context"):
        raise ValueError(f"{verticle!r} was deployed before; create another")
    return verticle
