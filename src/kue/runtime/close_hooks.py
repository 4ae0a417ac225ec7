"""Close hooks: what is called when the one who owns it ends."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable

logger = logging.getLogger(__name__)

#: A function, plain or async, without arguments.
Hook = Callable[[], object]


class CloseHooks:
    """
    Hooks of one owner: a verticle's context, or the runtime.

    Each is called once, the last added first, for it may build on those before it.
    May be filled from any thread.
    """

    def __init__(self) -> None:
        #: A dict keeps the order.
        self._hooks: dict[Hook, None] = {}

    def add(self, hook: Hook) -> None:
        self._hooks[hook] = None

    def remove(self, hook: Hook) -> None:
        """Forget *hook*, if it is there."""
        self._hooks.pop(hook, None)

    async def close(self) -> None:
        """Call all of them; one that fails is logged and keeps no other from it."""
        while self._hooks:
            hook, _ = self._hooks.popitem()
            try:
                answer = hook()
                if inspect.isawaitable(answer):
                    await answer
            except Exception:
                logger.exception("the close hook %r failed", hook)
