"""Interceptors: functions called with every message, outbound or inbound."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kue.bus.message import Message

logger = logging.getLogger(__name__)

#: Passes a message on; an interceptor that does not call it drops the message.
Proceed = Callable[[], None]
Interceptor = Callable[["Message", Proceed], None]


class InterceptorChain:
    """Interceptors in the order they were added."""

    __slots__ = ("links",)

    def __init__(self) -> None:
        #: Checked for each message: without interceptors they cost nothing.
        self.links: tuple[Interceptor, ...] = ()

    def add(self, interceptor: Interceptor) -> None:
        self.links = (*self.links, interceptor)

    def remove(self, interceptor: Interceptor) -> None:
        """Remove one; messages that are under way still pass through it."""
        links = list(self.links)
        if interceptor in links:
            links.remove(interceptor)
        self.links = tuple(links)

    def run(self, message: Message, then: Proceed) -> None:
        """Pass *message* through all of them and, if none drops it, call *then*."""
        for interceptor in reversed(self.links):
            then = partial(_call, interceptor, message, then)
        then()


def _call(interceptor: Interceptor, message: Message, proceed: Proceed) -> None:
    try:
        interceptor(message, proceed)
    except Exception:
        logger.exception("an interceptor failed for %s", message.address)
