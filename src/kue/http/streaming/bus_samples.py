"""
Samples of event bus messages for the dashboard: a few, truncated and redacted.

Nodes publish samples only while they are asked to, and this server asks only while its
clients do.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Any

import msgspec

from kue.aio.tasks import BackgroundTasks
from kue.bus.stats import MessageKind
from kue.model.errors import StoreError
from kue.model.view_struct import View

if TYPE_CHECKING:
    from kue.bus.redis import ClusterInspector
    from kue.bus.stats import MessageSample
    from kue.http.security.redaction import Redaction
    from kue.model.settings import Settings

logger = logging.getLogger(__name__)

#: Messages that are kept for clients.
MAX_KEPT = 300
#: Characters of a body.
MAX_BODY = 500
#: Seconds without a request after which this server stops sampling.
IDLE_SECONDS = 10.0
#: Seconds between two requests to the nodes for samples.
_ASK_SECONDS = 2.0
_PAUSE_SECONDS = 0.5


class SampledMessage(View, frozen=True, kw_only=True):
    """A message that was sent on the bus."""

    #: Counts the samples of this server.
    id: int
    #: When it was sent, Unix ms.
    at: int
    #: The node that sent it.
    node: str
    address: str
    kind: MessageKind
    #: Bytes of the encoded body.
    size: int
    #: Names of headers; their values are not shown.
    headers: list[str]
    codec: str
    #: JSON or text, cut to 500 characters; empty for bytes.
    body: str


class BusSamples:
    """The newest samples of messages, from all nodes of the bus."""

    def __init__(self, settings: Settings, redaction: Redaction) -> None:
        self._settings = settings
        self._redaction = redaction
        self._kept: deque[SampledMessage] = deque(maxlen=MAX_KEPT)
        #: The number of the newest message.
        self.last = 0
        self._asked_at = 0.0
        self._background = BackgroundTasks()
        self._task: asyncio.Task[None] | None = None

    def since(self, number: int) -> list[SampledMessage]:
        """Return the kept samples after *number*; sampling begins or continues."""
        self._asked_at = asyncio.get_running_loop().time()
        if self._task is None or self._task.done():
            self._task = self._background.start(self._follow(), "kue bus samples")
        # A number that was not used yet is from an earlier run of this server.
        after = number if number <= self.last else 0
        return [one for one in self._kept if one.id > after]

    async def close(self) -> None:
        """Stop sampling."""
        await self._background.close()

    @property
    def _is_asked(self) -> bool:
        return asyncio.get_running_loop().time() - self._asked_at < IDLE_SECONDS

    async def _follow(self) -> None:
        # Imported late: a server on SQLite needs no redis.
        from kue.bus.redis import inspect

        settings = self._settings
        async with inspect(settings.url, settings.prefix) as inspector:
            while self._is_asked:
                try:
                    await self._listen(inspector)
                except StoreError as exc:
                    logger.info("messages of the bus cannot be sampled: %s", exc)
                    await asyncio.sleep(_PAUSE_SECONDS)
        self._kept.clear()

    async def _listen(self, inspector: ClusterInspector) -> None:
        loop = asyncio.get_running_loop()
        asked_at = float("-inf")
        async with inspector.samples() as receive:
            while self._is_asked:
                if loop.time() - asked_at >= _ASK_SECONDS:
                    asked_at = loop.time()
                    await inspector.look()
                for sample in await receive(_PAUSE_SECONDS):
                    self.last += 1
                    body = self._text(sample)
                    shown = SampledMessage.of(sample, id=self.last, body=body)
                    self._kept.append(shown)

    def _text(self, sample: MessageSample) -> str:
        body: Any = sample.body
        if body is None and sample.codec != "json":
            return ""
        if isinstance(body, str):
            text = hidden_text(self._redaction, body, is_cut=sample.is_cut)
        else:
            if sample.codec == "failure" and isinstance(body, dict):
                body = {**body, "text": self._redaction.text(str(body.get("text")))}
            text = msgspec.json.encode(self._redaction.hide(body)).decode()
        if len(text) > MAX_BODY:
            return f"{text[:MAX_BODY]}…"
        return f"{text} …" if sample.is_cut else text


def hidden_text(redaction: Redaction, text: str, *, is_cut: bool) -> str:
    """Return text with its secrets hidden, though its end may be missing."""
    if is_cut:
        # A quoted value that was cut has no closing quote, and would not be found.
        for quote in ('"', "'"):
            text = redaction.text(text + quote).removesuffix(quote)
        return text
    return redaction.text(text)
