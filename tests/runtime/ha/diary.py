"""A verticle that writes down in Redis when it starts and stops, and where."""

from __future__ import annotations

import asyncio

import redis

from kue.runtime import Verticle

DIARY = f"{__name__}:Diary"


class Diary(Verticle):
    """
    Writes to the list that its config names.

    While there is a key ``<list>:gate``, it begins and does not get ready.
    """

    async def start(self) -> None:
        self.write("begin")
        while self.client.exists(f"{self.config['list']}:gate"):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        self.write("start")

    async def stop(self) -> None:
        self.write("stop")

    @property
    def client(self) -> redis.Redis:
        client: redis.Redis = redis.Redis.from_url(self.config["url"])
        return client

    def write(self, word: str) -> None:
        bus = self.runtime.bus
        assert bus is not None
        with self.client as client:
            client.rpush(self.config["list"], f"{word} {bus.node}")
