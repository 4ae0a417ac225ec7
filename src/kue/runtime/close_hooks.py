"""Close hooks: functions called when their owner is closed."""

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

    Each is called once, the last added first, since it may depend on earlier ones.
    Hooks may be added from any thread.
    """

    def __init__(self) -> None:
        #: A dict keeps the order.
        self._hooks: dict[Hook, None] = {}

    def add(self, hook: Hook) -> None:
        self._hooks[hook] = None

    def remove(self, hook: Hook) -> None:
        """Remove *hook*, if it is there."""
        self._hooks.pop(hook, None)

    async def close(self) -> None:
        """Call all of them; a failure is logged and does not stop the others."""
        while self._hooks:
            hook, _ = self._hooks.popitem()
            try:
                answer = hook()
                if inspect.isawaitable(answer):
                    await answer
            except Exception:
                logger.exception("the close hook %r failed", hook)
