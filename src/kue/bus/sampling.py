"""
Samples of the messages that a bus sends, for inspection.

A `MessageSampler` is an interceptor: it is installed only during an inspection, so
that messages cost nothing more otherwise.  A sample is small even of a large message.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from kue.bus.codecs import ClassCodec
from kue.bus.errors import RequestFailed
from kue.bus.requests import PREFIX
from kue.bus.stats import MessageSample

if TYPE_CHECKING:
    from kue.bus.interceptors import Proceed
    from kue.bus.message import Message
    from kue.bus.stats import MessageKind

#: Messages between two calls of `MessageSampler.take`.
MAX_TAKEN = 5
#: Characters of a text, items of a list or an object, and levels that are kept.
MAX_TEXT, MAX_ITEMS, MAX_LEVELS = 1_000, 30, 6
#: Values that are kept of one body.
MAX_VALUES = 200
MAX_HEADERS = 30
#: After a sample, pause for so many times as long as it took.
_PAUSE_FACTOR = 20


class MessageSampler:
    """Keeps up to `MAX_TAKEN` messages until they are taken; others are not sampled."""

    def __init__(self, node: str) -> None:
        self._node = node
        self._taken: list[MessageSample] = []
        self._paused_until = 0.0

    def __call__(self, message: Message, proceed: Proceed) -> None:
        if len(self._taken) < MAX_TAKEN:
            began = time.monotonic()
            if began >= self._paused_until:
                # One that cannot be shown, maybe by a user's codec, is sent anyway.
                with suppress(Exception):
                    self._taken.append(sample(message, self._node))
                spent = time.monotonic() - began
                self._paused_until = began + spent * _PAUSE_FACTOR
        proceed()

    def take(self) -> list[MessageSample]:
        """Return the samples, and start over."""
        taken, self._taken = self._taken, []
        return taken


def sample(message: Message, node: str = "") -> MessageSample:
    """Return a sample of a message."""
    names = list(message.headers) if message.has_headers else []
    body = message.body
    encoded = message.codec.encode(body)
    if isinstance(body, RequestFailed):
        body = {"failure": body.kind.name, "code": body.code, "text": body.text}
    elif isinstance(message.codec, ClassCodec):
        body = msgspec.json.decode(encoded)
    elif message.codec.name != "json":
        body = None
    cut = JsonTruncation()
    shown = cut.value(body)
    return MessageSample(
        at=time.time_ns() // 1_000_000,
        node=node,
        address=message.address,
        kind=kind_of(message),
        size=len(encoded),
        headers=[name[:200] for name in names[:MAX_HEADERS]],
        codec=message.codec.name,
        body=shown,
        is_cut=cut.is_cut,
    )


class JsonTruncation:
    """Truncates JSON; keys and values stay distinguishable."""

    def __init__(self) -> None:
        self.is_cut = False
        self._left = MAX_VALUES

    def value(self, value: Any, level: int = 0) -> Any:
        self._left -= 1
        if isinstance(value, str):
            return self._text(value, MAX_TEXT)
        if isinstance(value, Mapping):
            items = self._some(list(value.items()), level)
            return {
                self._text(str(key), 200): self.value(one, level + 1)
                for key, one in items
            }
        if isinstance(value, list | tuple):
            return [self.value(one, level + 1) for one in self._some(value, level)]
        if isinstance(value, float) and not math.isfinite(value):
            return str(value)
        return value if isinstance(value, int | float | None) else str(value)[:200]

    def _text(self, text: str, most: int) -> str:
        if len(text) <= most:
            return text
        self.is_cut = True
        return text[:most]

    def _some(self, items: Any, level: int) -> Any:
        most = min(MAX_ITEMS, max(self._left, 0)) if level < MAX_LEVELS else 0
        if len(items) > most:
            self.is_cut = True
        return items[:most]


def kind_of(message: Message) -> MessageKind:
    """Return whether it is a send, publish, request or reply."""
    if message.address.startswith(PREFIX):
        return "reply"
    if not message.is_send:
        return "publish"
    return "send" if message.reply_address is None else "request"
