"""A node of a bus in a thread, beside what a test looks at it with."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from kue.bus import EventBus, Message
from kue.bus.redis import RedisCluster
from tests.support.patience import PATIENCE_SECONDS, until


class Other:
    """
    A node that greets, and has other habits, until it is closed.

    At ``greeter`` it replies, at ``odd`` with bytes, at ``broken`` with a failure, at
    ``deaf`` not at all; what is sent to ``news`` it keeps.
    """

    def __init__(self, url: str, prefix: str) -> None:
        self.heard: list[Message] = []
        self.bus = EventBus(RedisCluster(url, prefix=prefix, heartbeat=0.2, lease=10))
        self.loop = asyncio.new_event_loop()
        self._is_up = threading.Event()
        self._end: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._run, name="another node")
        self._thread.start()
        assert self._is_up.wait(PATIENCE_SECONDS)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self.loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._end = asyncio.Event()
        async with self.bus:
            self.bus.consumer("greeter", self._greet)
            self.bus.consumer("deaf", lambda message: None)
            self.bus.consumer("odd", lambda message: message.reply(b"\x00\x01"))
            self.bus.consumer("broken", lambda message: message.fail(7, "no room"))
            await self.bus.consumer("news", self.heard.append).ready()
            self._is_up.set()
            await self._end.wait()

    def _greet(self, message: Message) -> None:
        lang = message.headers.get("lang", "")
        message.reply({"hello": message.body, "lang": lang}, headers={"from": "other"})

    def run(self, act: Callable[[], Any]) -> Any:
        """Do something in its loop."""

        async def done() -> Any:
            found = act()
            return await found if asyncio.iscoroutine(found) else found

        return asyncio.run_coroutine_threadsafe(done(), self.loop).result(50)

    def hears(self, count: int) -> list[Any]:
        self.run(lambda: until(lambda: len(self.heard) >= count))
        return [message.body for message in self.heard]

    def close(self) -> None:
        assert self._end is not None
        self.loop.call_soon_threadsafe(self._end.set)
        self._thread.join(PATIENCE_SECONDS)
